"""Follows the event files of runs: whole lines from any offset, so that a viewer resumes where it was cut off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from harness.reporting.telemetry.log import EVENTS_FILE, events_of, owner_file
from harness.resilience.owner import Owner

_AT_ONCE: Final = 32 * 1024
"""Bytes of lines that are sent in one message."""
LOOK: Final = 0.5
"""Seconds between two looks at the files that somebody follows."""
_LONGEST_LINE: Final = 16 * 1024 * 1024


class EventLines(Struct, frozen=True):
    """Some whole lines of an event file."""

    lines: tuple[str, ...]
    end: int
    """The offset in the file after the last of them."""


def runs_with_events(root: Path) -> tuple[str, ...]:
    """The runs of a project whose event files are kept, the newest first."""
    folder = root / EVENTS_FILE.with_suffix("")
    try:
        names = [file.stem for file in folder.glob("*.jsonl")]
    except OSError:
        return ()
    return tuple(sorted(names, reverse=True))


def may_go_on(root: Path, run: str) -> bool:
    """Return whether the process of a run still runs, as far as its event file tells."""
    try:
        owner = Owner.labelled(owner_file(events_of(root, run)).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return owner is not None and owner.alive


def lines_from(file: Path, offset: int, limit: int = _AT_ONCE) -> EventLines:
    """The whole lines from an offset on, about `limit` bytes of them. Raises OSError.

    An offset that lies behind the end belongs to another file: it is read from its beginning.
    """
    with file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        offset = offset if 0 <= offset <= size else 0
        source.seek(offset)
        data = source.read(limit)
        while b"\n" not in data and len(data) < _LONGEST_LINE and (more := source.read(limit)):
            data += more
    whole = data[: data.rfind(b"\n") + 1]
    texts = (line.decode("utf-8", "replace") for line in whole.split(b"\n"))
    return EventLines(tuple(line for line in texts if line), offset + len(whole))


class RunFollower:
    """Wakes all who follow a run as soon as its file grows: one look for all of them."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._grown = asyncio.Condition()
        self._size = -1
        self._followers = 0
        self._watch: asyncio.Task[None] | None = None

    async def lines(self, offset: int) -> AsyncIterator[EventLines | None]:
        """Lines as they come, for ever; None about every `LOOK` seconds if there are none. Never raises OSError."""
        self._followers += 1
        self._watch = self._watch or asyncio.create_task(self._look())
        try:
            while True:
                seen = self._size
                found = self._read(offset)
                if found is not None and found.lines:
                    offset = found.end
                    yield found
                    await asyncio.sleep(0)  # a long file must not keep the other viewers waiting
                    continue
                yield None
                async with self._grown:
                    if self._size == seen:
                        await self._grown.wait()
        finally:
            self._followers -= 1
            if not self._followers and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def _read(self, offset: int) -> EventLines | None:
        try:
            return lines_from(self.file, offset)
        except OSError:  # it does not exist yet, or no longer
            return None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            try:
                size = self.file.stat().st_size
            except OSError:
                size = -1
            async with self._grown:
                self._size = size
                self._grown.notify_all()


class Followers:
    """The followers of a project's runs, by run; a run that nobody follows costs nothing."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._of: dict[str, RunFollower] = {}

    def of(self, run: str) -> RunFollower:
        """The follower of a run that has an event file. Raises LookupError."""
        if run not in runs_with_events(self._root):
            raise LookupError(f"there are no events of a run {run!r}")
        return self._of.setdefault(run, RunFollower(events_of(self._root, run)))
