"""What a process has written in the store of its part is there as long as that is the store of the run.

A mount that is lost leaves an empty folder behind, and a cleaner may delete files. Who wrote there as if nothing had
happened would let the part place its orders again. So a store without these notes counts as one that does not answer.
"""

from __future__ import annotations

import threading
from hashlib import sha256
from pathlib import Path

from harness.runner.stored_part import BEGUN, JOURNAL, WROTE, StoredPart, find_attempt, lost_attempts
from harness.store import Store, StoreError, StoreUnusable

_GONE = (
    "the notes of this run are gone from there ({}): it was deleted, or another folder has its place. Nothing is "
    "written there, and no task begins to write, until they are back"
)
LOST = (
    "{}: what {} of it told or wrote there is gone, so the part could do a write again. Nothing runs. Expected: the "
    "store as it was; delete {}, and the part begins anew"
)


class NotedStore(Store):
    """The store of a part, in one process: nothing is written there unless the notes of the run are there."""

    def __init__(self, whole: Store, part: str, attempt: str, memory: WriteMemory) -> None:
        self._part = whole.at(part)
        super().__init__(self._part.shown)
        self._begun = whole.at(f"{BEGUN}/{part}")
        self._attempt = attempt
        self._memory = memory
        self._told = False
        self._own: dict[str, int] = {}
        """The names in the journal and of writes that this process has stored, and their sizes."""
        self._changes = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        self._check(name)
        self._part.put(name, data)
        self._note(name, data)

    def put_new(self, name: str, data: bytes) -> bool:
        self._check(name)
        if name.startswith(f"{WROTE}/"):
            self._memory.note(self._attempt)
        new = self._part.put_new(name, data)
        if new:
            self._note(name, data)
        return new

    def _note(self, name: str, data: bytes) -> None:
        if not name.startswith((f"{JOURNAL}/", f"{WROTE}/")):
            return
        with self._changes:
            self._own[name] = len(data)
        if name.startswith(f"{JOURNAL}/") and not self._told:
            self._begun.put(self._attempt, b"")
            self._told = True

    def _check(self, name: str) -> None:
        """Raise StoreError if a note of the run is gone, or shorter than it was."""
        try:
            find_attempt(self._part, self._attempt)
        except StoreUnusable as error:
            raise StoreError(f"{self.shown}: {_GONE.format(self._attempt)}") from error
        if not name.startswith((f"{JOURNAL}/", f"{WROTE}/")):
            return
        with self._changes:
            own = dict(self._own)
        journal = self._part.sizes(f"{JOURNAL}/{self._attempt}")
        if not journal and self._begun.get(self._attempt) is not None:  # another process of the run has begun it
            raise StoreError(f"{self.shown}: {_GONE.format(f'{JOURNAL}/{self._attempt}')}")
        there = {**journal, **self._part.sizes(WROTE)} if own else {}
        if lost := next((each for each, size in own.items() if there.get(each, -1) < size), None):
            raise StoreError(f"{self.shown}: {_GONE.format(lost)}")

    def get(self, name: str) -> bytes | None:
        return self._part.get(name)

    def sizes(self, below: str = "") -> dict[str, int]:
        return self._part.sizes(below)

    def matching(self, pattern: str) -> list[str]:
        return self._part.matching(pattern)

    def at(self, name: str) -> Store:
        return self._part.at(name)


class WriteMemory:
    """What this machine remembers of the parts that wrote: a store that has vanished cannot tell it."""

    def __init__(self, folder: Path, store: str, part: str) -> None:
        """`folder`: of the project. `store`: the URL."""
        self.path = folder / sha256(f"{store}\n{part}".encode()).hexdigest()[:20]
        self._noted = False

    def note(self, attempt: str) -> None:
        """Remember that an attempt writes. Raises StoreError: a task whose write is not noted does not write."""
        if self._noted:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{attempt}\n")
        except OSError as error:
            raise StoreError(f"{self.path}: it cannot be noted that this part writes: {error}") from error
        self._noted = True

    def attempts(self) -> list[str]:
        """The attempts that wrote."""
        try:
            return self.path.read_text("utf-8").split()
        except OSError:
            return []


def refuse_lost(whole: Store, name: str, memory: WriteMemory) -> None:
    """Raise StoreError if the store has lost what an earlier process of the part told or wrote there."""
    part = StoredPart(whole.at(name))
    if lost := lost_attempts(whole, name):
        raise StoreError(LOST.format(part.store.shown, lost[0], f"{BEGUN}/{name} in the store"))
    remembered = set(memory.attempts())
    if remembered and (lost := sorted(remembered - part.known_attempts())):
        raise StoreError(LOST.format(part.store.shown, lost[0], memory.path))
