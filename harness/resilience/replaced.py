"""Files that several processes use: written as a whole, so that nobody reads a half of one, and locked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


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


def try_lock(file: IO[Any], *, shared: bool = False) -> bool:
    """Lock an open file, unless another process holds its lock; the kernel releases it when this process ends."""
    import fcntl  # which Windows does not have, where files are only read and written

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
