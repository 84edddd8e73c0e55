"""The part of a run in its store: what is where, what earlier processes have told, and what the parts have in common.

`run.json` is what all parts have in common, `divided` the digest of the tasks that they divide; each part has a folder:

    part-3-of-20/journal/<attempt>/     what the process `<attempt>` has told (harness/reporting/history/attempts.py)
    part-3-of-20/wrote/<task>           the attempt that has begun to write in the task: nobody else may
    part-3-of-20/errors/<attempt>/      the directories of its failures
    part-3-of-20/allure-results/        with `--alluredir`
    part-3-of-20/attempts/<attempt>     shows the processes of an attempt that they see its store
    begun/part-3-of-20/<attempt>        the journal of the attempt has begun: if it is gone, notes are lost
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from harness.model.ledger import ItemFacts
from harness.reporting.history.attempts import PartAttempt, attempt_of, in_order
from harness.reporting.history.file import HistoryError
from harness.store import Store, StoreError, StoreUnusable

JOURNAL, WROTE, ERRORS, RESULTS, ATTEMPTS = "journal", "wrote", "errors", "allure-results", "attempts"
BEGUN = "begun"
COMMON = "run.json"
_DIVIDED = "divided"
_WHOLE = "whole"
"""The part of a run that is not divided."""
_PART = re.compile(r"part-[1-9][0-9]{0,8}-of-[1-9][0-9]{0,8}|whole")
_LONGEST = 180
"""Letters of a task's id in a name. A longer id is named by its digest."""


def part_name(shard: str) -> str:
    """The folder of a part, such as `2/3`; of an undivided run, if that is empty."""
    number, slash, count = shard.partition("/")
    return f"part-{number}-of-{count}" if slash else _WHOLE


def wrote_name(task_id: str) -> str:
    """The name at which it is kept who has begun to write in the task."""
    name = quote(task_id, safe="")
    return f"{WROTE}/{name}" if len(name) <= _LONGEST else f"{WROTE}/~{sha256(task_id.encode()).hexdigest()}"


def join_division(store: Store, divided: str) -> None:
    """Note which tasks are divided (their digest), or compare it. Raises HistoryError for others, StoreError.

    It is known later than what `join_run` compares. If the parts are of different tasks, one may be in two of them.
    """
    if store.put_new(_DIVIDED, divided.encode()):
        return
    known = (store.get(_DIVIDED) or b"").decode("utf-8", "replace")
    if known != divided:
        raise HistoryError(
            f"{store.shown}: its parts are of other tasks ({known[:12]}) than those found here ({divided}), so a task "
            "could run in two parts, or in none. Expected: the same files and selection (paths, -k, -m) in all parts"
        )


class CommonRun(Struct, frozen=True, forbid_unknown_fields=False):
    """What all parts of one run have in common."""

    parts: str
    """The number of parts; empty for an undivided run."""
    durations: str = ""
    """The digest of the durations by which the tasks were divided."""
    commit: str = ""

    def difference(self, other: CommonRun) -> str:
        """What differs from what the store has (`other`), in words; empty if they are of one run."""
        if self.parts != other.parts:
            return f"it has a run in {other.parts or 1} part(s), and this one is in {self.parts or 1}"
        if self.durations != other.durations:
            return f"its run was divided by durations {_named(other.durations)}, this one by {_named(self.durations)}"
        if self.commit and other.commit and self.commit != other.commit:
            return f"its run is of commit {other.commit[:12]}, this one of {self.commit[:12]}"
        return ""


def _named(digest: str) -> str:
    return digest or "none (by number)"


def join_run(store: Store, common: CommonRun) -> None:
    """Note what the parts of the run have in common, or compare it. Raises HistoryError for another run, StoreError."""
    document = store.get(COMMON)
    if document is None:
        if store.put_new(COMMON, msgspec.json.encode(common)):
            return
        document = store.get(COMMON) or b""
    try:
        known = msgspec.json.decode(document, type=CommonRun)
    except msgspec.DecodeError as error:
        raise HistoryError(f"{store.shown}: {COMMON} is not of a run of tasks ({error}); name another place") from error
    if why := common.difference(known):
        raise HistoryError(f"{store.shown} belongs to another run: {why}. Each run needs a place of its own")


# A path may lead to another folder on each machine of a cluster, and `memory://` to another one in each process.


def show_attempt(part: Store, attempt: str) -> None:
    """Let the processes of an attempt find what its first one has stored. Raises StoreError."""
    part.put(f"{ATTEMPTS}/{attempt}", b"")


def find_attempt(part: Store, attempt: str) -> None:
    """Raise StoreUnusable if this process does not see the store of its driver; StoreError if that is unknown."""
    if part.get(f"{ATTEMPTS}/{attempt}") is None:
        raise StoreUnusable(
            f"{part.shown} is not the store of the run, seen from this machine: the driver has written to it, and "
            "nothing of that is here. Expected: a URL, or a folder that all machines of the cluster share"
        )


def lost_attempts(whole: Store, part: str) -> list[str]:
    """The attempts of a part that began, and of which the store has no journal any more. Raises StoreError."""
    begun = [name.rpartition("/")[2] for name in whole.names(f"{BEGUN}/{part}")]
    return [attempt for attempt in begun if not whole.names(f"{part}/{JOURNAL}/{attempt}")]


class Earlier(Struct, frozen=True):
    """What earlier processes have done of a part."""

    ended: Mapping[str, bool] = field(default_factory=dict)
    """Node id of a task that has ended -> whether it passed."""
    written: frozenset[str] = frozenset()
    """The names (`wrote_name`) of the tasks that had begun to write."""
    attempts: int = 0
    """The number of these processes."""

    def facts(self, nodeid: str, task_id: str, episode: str | None) -> ItemFacts:
        return ItemFacts(wrote=wrote_name(task_id) in self.written, ended=nodeid in self.ended, episode=episode or "")


class StoredPart:
    """One part, read when it is first asked. Its properties and methods raise StoreError and HistoryError."""

    def __init__(self, store: Store) -> None:
        """`store`: of the part alone."""
        self.store = store
        self._owners: dict[str, str | None] = {}

    @cached_property
    def attempts(self) -> tuple[PartAttempt, ...]:
        """The attempts in the order in which they began."""
        return in_order(each for each in map(self._attempt, self._journals()) if each is not None)

    def _journals(self) -> dict[str, None]:
        """The names of the attempts that have a journal."""
        return dict.fromkeys(name.split("/")[1] for name in self.store.names(JOURNAL) if name.count("/") > 1)

    def known_attempts(self) -> set[str]:
        """The attempts of which the store has a line, or a task in which they wrote."""
        owners = ((owner or b"").decode("utf-8", "replace") for owner in self.store.get_each(sorted(self.written)))
        return {*self._journals(), *owners}

    def _attempt(self, name: str) -> PartAttempt | None:
        place = f"{JOURNAL}/{name}"
        try:
            return attempt_of(name, self.store.lines(place))
        except HistoryError as error:
            how = f"delete {place} there, and tasks of which nothing else is known run again"
            raise HistoryError(f"{self.store.shown}: {JOURNAL}/{error}; {how}") from error

    @cached_property
    def written(self) -> frozenset[str]:
        """The names (`wrote_name`) of the tasks in which somebody has begun to write."""
        return frozenset(self.store.names(WROTE))

    def owner(self, task_id: str) -> str | None:
        """The attempt that has begun to write in the task; None: nobody has."""
        name = wrote_name(task_id)
        if name not in self.written:
            return None
        if task_id not in self._owners:
            data = self.store.get(name)
            self._owners[task_id] = None if data is None else data.decode("utf-8", "replace")
        return self._owners[task_id]


def parts_below(store: Store) -> list[Store]:
    """The parts of a run, or the store itself if it is one, in the order of their numbers. Raises StoreError."""
    if store.names(JOURNAL):
        return [store]
    told = (name.partition("/")[0] for name in store.matching(f"*/{JOURNAL}"))
    names = sorted(filter(_PART.fullmatch, told), key=lambda name: [int(each) for each in re.findall(r"[0-9]+", name)])
    return [store.at(name) for name in names]


# What a process has written in the store of its part is there as long as that is the store of the run.
#
# A mount that is lost leaves an empty folder behind, and a cleaner may delete files. Who wrote there as if nothing had
# happened would let the part place its orders again. So a store without these notes counts as one that does not answer.

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
