"""Reads and writes JSON files; a written file is there whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

from harness.model.ports import Json


def write_json(path: Path, document: Json) -> None:
    """Indented, UTF-8; what JSON has no word for becomes text."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """By a temporary file beside it and a rename. Lone surrogates become `?`. OSError, which names the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names none


def read_json(path: Path) -> Json:
    """OSError when it cannot be read, ValueError when it is not JSON."""
    try:
        return json.loads(read_regular(path).decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply") from error


def read_regular(path: Path) -> bytes:
    """Of a file that may come from elsewhere: a pipe or a device would never end. OSError when it cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()
