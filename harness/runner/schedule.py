"""Decides which task may begin while others run: by order, dependencies, episodes, and tasks that run alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import islice, takewhile

from msgspec import Struct, field

from harness.values import replace

_FARTHEST = 1000
"""The number of waiting jobs that are examined, so that many jobs that may not begin yet do not slow every call."""

SHARED = frozenset({
    "browser_stop", "browser_kill", "driver_kill", "service_killed", "service_restarted", "port_taken",
})  # fmt: skip
"""Faults that affect what other tasks use too: such a task runs alone."""


class Job(Struct, frozen=True):
    """The facts about a task that its place in the schedule depends on."""

    name: str
    """Its unique name: the node id."""
    wants: frozenset[str] = frozenset()
    """Jobs that must have ended well before."""
    after: frozenset[str] = frozenset()
    """Jobs that must have ended before: the earlier ones of its episode."""
    alone: bool = False
    """Whether nothing else may run at the same time, since it changes what tasks share."""
    episode: str = ""
    """The episode that it belongs to: all of an episode runs in one slot."""
    ahead: bool = True
    """Whether it may begin before its turn; else it begins only when it is called."""


class Schedule(Struct):
    """The jobs of a run in their order; each is waiting, running or over. It decides, and starts nothing."""

    waiting: dict[str, Job]
    window: int = 256
    """The number of jobs that may begin before they are called: their results are kept until then."""
    running: dict[str, Job] = field(default_factory=dict)
    over: dict[str, bool] = field(default_factory=dict)
    """Job -> whether it ended well."""
    called: set[str] = field(default_factory=set)
    """Jobs whose turn has come."""
    early: set[str] = field(default_factory=set)
    """Jobs that have begun and were not called yet."""
    slots: int | None = None
    """The number of tasks or episodes that may run at once because they share a state; None: no limit."""
    members: dict[str, list[str]] = field(default_factory=dict)
    """Episode -> its jobs."""
    entered: set[str] = field(default_factory=set)
    """Episodes of which a job has begun."""
    closed: bool = False
    """Whether nothing begins until a job is called again, which means that the run goes on."""

    @classmethod
    def of(cls, jobs: Iterable[Job], window: int = 256, slots: int | None = None) -> Schedule:
        schedule = cls({}, window, slots=slots)
        for job in jobs:
            schedule.add(job)
        return schedule

    def startable(self, limit: int) -> list[str]:
        """The jobs that may begin now, in order; at most so many that `limit` jobs run."""
        found: list[str] = []
        places, early = limit - len(self.running), self.window - len(self.early)
        if self.closed or any(job.alone for job in self.running.values()):
            return found
        busy = {job.episode or name for name, job in self.running.items()}
        held, stranded = self._slot_holders(busy), list[str]()
        for name, job in islice(self.waiting.items(), _FARTHEST):
            if len(found) >= places or (early <= len(found) and name not in self.called):
                break  # the requested task has priority over all that wait
            if job.alone:
                if not (found or self.running) and self._may(job):
                    found.append(name)
                break  # it waits until it is alone; no other task overtakes it, or it would wait for ever
            if self._may(job):
                (found if self._enters(job, held, busy) else stranded).append(name)
        # The requested task is waited for: if nothing runs, it does not wait for an episode that cannot continue
        # either.
        return found if found or self.running else [name for name in stranded if name in self.called][:1]

    def _enters(self, job: Job, held: set[str], busy: set[str]) -> bool:
        """Return whether the job has a slot; then it is added to `held` and `busy`.

        More episodes may hold a slot than there are, since a requested task does not wait for an episode that cannot
        continue. What runs at once is limited by `busy` all the same.
        """
        group = job.episode or job.name
        if self.slots is not None and group not in busy:
            if len(busy) >= self.slots or (group not in held and len(held) >= self.slots):
                return False
            held.add(group)
            busy.add(group)
        return True

    def _slot_holders(self, busy: set[str]) -> set[str]:
        """The holders of slots: running jobs, and episodes between two of their jobs."""
        if self.slots is None:
            return set()
        over = {each for each in self.entered if not any(name in self.waiting for name in self.members[each])}
        self.entered -= over
        return self.entered | busy

    def _may(self, job: Job) -> bool:
        called = job.ahead or job.name in self.called
        return called and all(map(self.over.get, job.wants)) and all(name in self.over for name in job.after)

    def add(self, job: Job) -> None:
        """Add a job after the others."""
        self.waiting[job.name] = job
        if job.episode:
            self.members.setdefault(job.episode, []).append(job.name)

    def requeue(self, job: Job) -> None:
        """Run a job again that is over, or was given up, before all others."""
        self.over.pop(job.name, None)
        self.waiting = {job.name: job, **self.waiting}

    def call(self, name: str) -> None:
        """A job's turn has come: the caller waits for it.

        The caller knows that its dependencies are met. Jobs before it that have not begun were passed over.
        """
        self.closed = False
        self.called.add(name)
        self.early.discard(name)
        if name not in self.waiting:
            return
        for other in list(takewhile(lambda each: each != name, self.waiting)):
            self.end(other, False)
        job = self.waiting[name]
        self.waiting[name] = replace(job, wants=frozenset(), after=job.after & self.running.keys())

    def close(self) -> None:
        """Begin nothing more."""
        self.closed = True

    def begin(self, name: str) -> None:
        job = self.running[name] = self.waiting.pop(name)
        if job.episode:
            self.entered.add(job.episode)
        if name not in self.called:
            self.early.add(name)

    def end(self, name: str, well: bool) -> None:
        """A job is over; also for a job that never began."""
        self.running.pop(name, None)
        self.waiting.pop(name, None)
        self.over[name] = well


class TaskPlaces:
    """The places of tasks that come one by one: so many at once, in the order in which they come."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free = asyncio.Semaphore(number)
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def place(self, *, alone: bool = False) -> AsyncIterator[None]:
        """Wait for a place, and have it. `alone`: nothing else runs meanwhile, and nothing overtakes it."""
        held = 0
        try:
            async with self._queue:
                while held < (self._number if alone else 1):
                    await self._free.acquire()
                    held += 1
            yield
        finally:
            for _ in range(held):
                self._free.release()
