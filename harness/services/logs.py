"""The end of what services have written, and what they write from now on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from harness.resilience import Clock

LOOK = 0.2
"""Seconds between two looks at the files."""
BLOCK = 65_536


def last_lines(file: Path, count: int) -> list[str]:
    """The last lines; none of a file that is not there."""
    if count <= 0 or not file.is_file():
        return []
    with file.open("rb") as log:
        start, end = log.seek(0, os.SEEK_END), b""
        while start > 0 and end.count(b"\n") <= count:
            step = min(BLOCK, start)
            start = log.seek(start - step)
            end = log.read(step) + end
            log.seek(start)
    return end.decode(errors="replace").splitlines()[-count:]


async def follow(files: Mapping[str, Path], clock: Clock) -> AsyncIterator[tuple[str, str]]:
    """Name and line of each whole line that is written from now on, without end. A file may still have to come."""
    tails = {name: _Tail(file) for name, file in files.items()}
    while True:
        for name, tail in tails.items():
            for line in tail.fresh():
                yield name, line
        await clock.sleep(LOOK)


class _Tail:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._place = file.stat().st_size if file.is_file() else 0
        self._rest = b""

    def fresh(self) -> Iterator[str]:
        """What came since the last look; from its start for a file that was cut."""
        if not self._file.is_file():
            return
        with self._file.open("rb") as log:
            if log.seek(0, os.SEEK_END) < self._place:
                self._place, self._rest = 0, b""
            log.seek(self._place)
            *whole, self._rest = (self._rest + log.read()).split(b"\n")
            self._place = log.tell()
        yield from (line.decode(errors="replace") for line in whole)
