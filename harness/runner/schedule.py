"""Which task may begin while others run: order, dependencies, episodes, tasks that want to be alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

FARTHEST = 1000
"""So many waiting jobs are looked at: those that may not begin yet must not make every look long."""


@dataclass(frozen=True, slots=True)
class Job:
    """One task of a run, as far as its place among the others goes."""

    name: str
    """Unique: its node id."""
    wants: frozenset[str] = frozenset()
    """Jobs that must have ended well before."""
    after: frozenset[str] = frozenset()
    """Jobs that must have ended before: the earlier ones of its episode."""
    alone: bool = False
    """Nothing else runs while it does: it strikes what tasks share."""
    episode: str = ""
    """The episode that it is a part of: all of an episode runs in one slot."""
    ahead: bool = True
    """Whether it may begin before its turn has come; else only when it is called."""


@dataclass(slots=True)
class Schedule:
    """The jobs of a run in their order; each is waiting, running or over. Decides, and starts nothing."""

    waiting: dict[str, Job]
    window: int = 256
    """So many jobs may have begun before they were called: their results are kept until then."""
    running: dict[str, Job] = field(default_factory=dict)
    over: dict[str, bool] = field(default_factory=dict)
    """Job -> whether it ended well."""
    called: set[str] = field(default_factory=set)
    """Jobs whose turn has come."""
    early: set[str] = field(default_factory=set)
    """Jobs that have begun, and were not called yet."""
    slots: int | None = None
    """So many tasks or episodes may be under way at once, because they share a state; None: as many as there are."""
    members: dict[str, list[str]] = field(default_factory=dict)
    """Episode -> its jobs."""
    entered: set[str] = field(default_factory=set)
    """Episodes of which a job has begun."""
    closed: bool = False
    """Nothing begins, until one is called: then the run goes on after all."""

    @classmethod
    def of(cls, jobs: Iterable[Job], window: int = 256, slots: int | None = None) -> Schedule:
        schedule = cls({}, window, slots=slots)
        for job in jobs:
            schedule.add(job)
        return schedule

    def startable(self, limit: int) -> list[str]:
        """What may begin now, in order; at most so many that `limit` jobs run."""
        found: list[str] = []
        places, early = limit - len(self.running), self.window - len(self.early)
        if self.closed or any(job.alone for job in self.running.values()):
            return found
        held, stranded = self._held(), list[str]()
        for name, job in islice(self.waiting.items(), FARTHEST):
            if len(found) >= places or (early <= len(found) and name not in self.called):
                break  # what is called stands first of all that wait
            if job.alone:
                if not (found or self.running) and self._may(job):
                    found.append(name)
                break  # it waits until it is alone; nobody overtakes it, or it would wait for ever
            if self._may(job):
                (found if self._enters(job, held) else stranded).append(name)
        # What is called is waited for: where nothing runs, it does not wait for an episode that cannot go on either.
        return found if found or self.running else [name for name in stranded if name in self.called][:1]

    def _enters(self, job: Job, held: set[str]) -> bool:
        """Whether it has a slot; then it is one of those that `held` names."""
        group = job.episode or job.name
        if self.slots is not None and group not in held and len(held) >= self.slots:
            return False
        held.add(group)
        return True

    def _held(self) -> set[str]:
        """Who has a slot: what runs, and episodes between two of their jobs."""
        if self.slots is None:
            return set()
        over = {each for each in self.entered if not any(name in self.waiting for name in self.members[each])}
        self.entered -= over
        return self.entered | {job.episode or name for name, job in self.running.items()}

    def _may(self, job: Job) -> bool:
        called = job.ahead or job.name in self.called
        return called and all(map(self.over.get, job.wants)) and all(name in self.over for name in job.after)

    def add(self, job: Job) -> None:
        """One more, behind the others."""
        self.waiting[job.name] = job
        if job.episode:
            self.members.setdefault(job.episode, []).append(job.name)

    def again(self, job: Job) -> None:
        """One that is over, or was given up, is to run all the same: before all others."""
        self.over.pop(job.name, None)
        self.waiting = {job.name: job, **self.waiting}

    def call(self, name: str) -> None:
        """Its turn has come: it is the one that is waited for.

        Who calls knows that what it wants is there. Whatever stands before it and has not begun was passed over.
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
        """Nothing more begins."""
        self.closed = True

    def begin(self, name: str) -> None:
        job = self.running[name] = self.waiting.pop(name)
        if job.episode:
            self.entered.add(job.episode)
        if name not in self.called:
            self.early.add(name)

    def end(self, name: str, well: bool) -> None:
        """Over; also for a job that never began."""
        self.running.pop(name, None)
        self.waiting.pop(name, None)
        self.over[name] = well
