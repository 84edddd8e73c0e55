"""Copies single files by their kind: redacted, and inert where they could act."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from harness.reporting.documents import write_json, write_text
from harness.reporting.har import redact_har
from harness.reporting.inert import inert
from harness.reporting.manifest import Entry
from harness.reporting.names import inside
from harness.reporting.redaction import Redactor
from harness.reporting.tracezip import redact_trace

KEPT_FOLDERS = ("downloads", "files", "screenshots")
"""Of a scratch folder: where a session puts what its steps keep."""

_LARGEST = 64 * 1024 * 1024
"""Bytes of a file that a step kept; a larger one is not copied, since it could not be redacted in memory."""

UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, EOFError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What a broken file can raise while it is redacted: then it is left out, never kept unredacted."""

_VIEWED = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".webm")


def redacted_copy(source: Path, target: Path, redactor: Redactor) -> None:
    """One file by its kind. Raises one of `UNREADABLE` for a broken one."""
    match source.suffix.lower():
        case ".html" | ".htm":
            write_text(target, redactor.text(inert(source.read_text("utf-8", "replace"))))
        case ".har":
            write_json(target, redact_har(json.loads(source.read_text("utf-8")), redactor))
        case ".zip" if source.name == "trace.zip":
            redact_trace(source, target, redactor)
        case suffix if suffix in _VIEWED:
            shutil.copyfile(source, target)
        case ".json":
            write_json(target, redactor.json(json.loads(source.read_text("utf-8"))))
        case _:
            target.write_bytes(redactor.data(source.read_bytes()))


def copy_files(scratch: Path, target: Path, redactor: Redactor) -> list[Entry]:
    """Named screenshots and downloads: what lies in these folders of the scratch folder."""
    return [_copied(scratch, source, target, redactor) for source in sorted(_kept(scratch))]


def copy_trace(scratch: Path, target: Path, redactor: Redactor) -> None:
    """The trace of a task that passed, where `--tracing on` left one; a broken one is left out."""
    source, path = scratch / "trace.zip", target / "trace.zip"
    if source.is_file():
        try:
            redact_trace(source, path, redactor)
        except UNREADABLE:
            path.unlink(missing_ok=True)


def _kept(scratch: Path) -> Iterator[Path]:
    """Links are left out: they could lead to anywhere."""
    for name in KEPT_FOLDERS:
        for folder, folders, names in os.walk(scratch / name):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths = (Path(folder, name) for name in names if not name.startswith("."))
            yield from (path for path in paths if not path.is_symlink() and inside(scratch, path))


def _copied(scratch: Path, source: Path, target: Path, redactor: Redactor) -> Entry:
    parts = source.relative_to(scratch).parts
    name = Path(*(parts[1:] if parts[0] == "files" else parts))
    if source.stat().st_size > _LARGEST:
        return Entry(str(name), "missed", f"larger than {_LARGEST} bytes")
    path = target / redactor.text(str(name)).replace("\\", "_")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _file_copy(source, path, redactor, pictured=parts[0] == "screenshots")
    except UNREADABLE as error:
        path.unlink(missing_ok=True)
        return Entry(str(name), "missed", f"could not be redacted: {type(error).__name__}: {error}")
    return Entry(str(name), "taken", bytes=path.stat().st_size)


def _file_copy(source: Path, target: Path, redactor: Redactor, *, pictured: bool) -> None:
    """A download stays as the site gave it, but for the secrets. `pictured`: the browser itself took the picture."""
    if source.suffix.lower() == ".har":
        redacted_copy(source, target, redactor)
    elif pictured and source.suffix.lower() in _VIEWED:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(redactor.data(source.read_bytes()))
