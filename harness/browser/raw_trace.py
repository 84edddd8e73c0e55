"""A running trace in the form that Playwright writes: the part that exists when it can no longer be ended regularly."""

from __future__ import annotations

import itertools
import json
import re
import zipfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

TRACE = "trace.zip"
LARGEST = 64 * 2**20
"""Bytes of pictures and bodies that go into one trace; those beyond are left out, the acts stay."""
_PART = re.compile(rb'"((?:resources|screencast)/[\w@.-]+)"')
_numbers = itertools.count(1)


class RawTrace(Struct, frozen=True):
    """`<name>.trace` and `<name>.network`; pictures and bodies are next to them, with those of other traces."""

    folder: Path | None
    """None: the browser is elsewhere, and so is what Playwright has written."""
    name: str

    @classmethod
    def new(cls, folder: Path | None) -> RawTrace:
        """Make a trace with a name that no other trace of this process has."""
        return cls(folder, f"tab-{next(_numbers)}")

    @property
    def missing_reason(self) -> str:
        """The reason why there is nothing to pack, in words."""
        return "nothing was written" if self.folder else "what was written stays at the browser's endpoint"

    def pack(self, target: Path) -> bool:
        """Make `target` the zip that Playwright would have made, as far as it was written; False if nothing was."""
        trace, network = whole_lines(self.read(".trace")), whole_lines(self.read(".network"))
        if not trace:
            return False
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as made:
            made.writestr("trace.trace", trace)
            made.writestr("trace.network", network)
            for name, path in self._parts(trace + network):
                made.write(path, name)
        return True

    def discard(self) -> None:
        """Delete what belongs to this trace alone, its pictures too; its bodies may belong to others.

        The driver of a killed browser may write some more afterwards: that is deleted with the next trace.
        """
        for raw in (*_lately, self):
            _delete(raw)
        _lately.append(self)

    def read(self, suffix: str) -> bytes:
        """The present content of `.trace` or `.network`; empty if there is none."""
        path = self.folder and self.folder / f"{self.name}{suffix}"
        return path.read_bytes() if path and path.is_file() else b""

    def _parts(self, lines: bytes) -> Iterator[tuple[str, Path]]:
        room = LARGEST
        assert self.folder is not None  # there are lines, so there is a folder
        for name in dict.fromkeys(found[1].decode() for found in _PART.finditer(lines)):
            path = self.folder / name
            if path.is_file() and path.stat().st_size <= room:
                room -= path.stat().st_size
                yield name, path


_lately: deque[RawTrace] = deque(maxlen=8)
"""The traces that were discarded last."""


def _delete(raw: RawTrace) -> None:
    if raw.folder is None:
        return
    for name in set(_PART.findall(raw.read(".trace"))):
        if name.startswith(b"screencast/"):
            (raw.folder / name.decode()).unlink(missing_ok=True)
    for path in raw.folder.glob(f"{raw.name}[.-]*"):
        path.unlink(missing_ok=True)


def whole_lines(data: bytes) -> bytes:
    """JSON lines without the last one, if the writer was ended in the middle of it."""
    lines, _, rest = data.rpartition(b"\n")
    lines += b"\n" if lines else b""
    try:
        json.loads(rest)
    except ValueError:
        return lines
    return lines + rest + b"\n"
