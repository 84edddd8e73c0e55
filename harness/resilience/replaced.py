"""Writes a file as a whole: nobody reads a half of it, and an interruption leaves the old one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a place beside the file for what is to be in its place at the end. Its folder is made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield made
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in the place of another, or of none. Raises OSError."""
    with replaced(path) as made:
        made.write_bytes(content)
