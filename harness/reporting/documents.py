"""Reads and writes JSON files; a written file is there whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from harness.ports import Json


def write_json(path: Path, document: Json) -> None:
    """Indented, UTF-8; what JSON has no word for becomes text."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """By a temporary file beside it and a rename. Lone surrogates become `?`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(text.encode("utf-8", "replace"))
    temporary.replace(path)


def read_json(path: Path) -> Json:
    """OSError when it cannot be read, ValueError when it is not JSON."""
    return json.loads(path.read_text("utf-8"))
