"""A cluster in simulated time: slots whose children run items, and die, freeze or are cut off."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from harness.cluster.driver import Down, News, Up
from harness.cluster.equality import NodeFacts
from harness.cluster.lease import ACKNOWLEDGED, BEAT, Fence
from harness.cluster.messages import (
    Batch,
    Beat,
    BeatSeen,
    Collected,
    Died,
    Done,
    End,
    Ended,
    FromSlot,
    Idle,
    Leaving,
    Noted,
    ToChild,
    Told,
    Warned,
    WriteAnswer,
    WriteAsked,
)
from harness.model.ledger import Word

SAME = NodeFacts("3.12", "1", "1", "p")
STEP = 0.5
"""Seconds of one step of the simulation."""


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Item:
    """What an item of the simulated project does."""

    seconds: float = 1.0
    writes: bool = False
    unseen: bool = False
    """Whether it writes without a declaration: it asks nobody, and notes it as it happens."""
    wants: tuple[str, ...] = ()
    """The items that it depends on: it is skipped unless they have passed."""
    follows: str = ""
    """The item before it in its episode, whose state it needs."""


@dataclass
class Trouble:
    """Something that happens to a slot."""

    at: float
    kind: str
    """`child` (killed), `node` (all is gone), `notice`, `browserless`, `mute` (its children never begin), `freeze`, or
    `cut` (the line to its driver)."""
    seconds: float = 0.0


@dataclass
class Child:
    """A child: one item after the other, as the real one does it."""

    clock: Time
    project: dict[str, Item]
    orders: Counter[str]
    fence: Fence = field(init=False)
    inbox: deque[ToChild] = field(default_factory=deque)
    outbox: deque[FromSlot] = field(default_factory=deque)
    batch: Batch | None = None
    queue: deque[tuple[str, int]] = field(default_factory=deque)
    now: tuple[str, int] | None = None
    until: float = 0.0
    asked: float | None = None
    answer: bool | None = None
    wrote: bool = False
    beats: int = 0
    due: float = 0.0
    ended: bool = False
    alive: bool = True
    browserless: bool = False
    known: dict[str, bool] = field(default_factory=dict)
    """Item -> whether it has passed, here or elsewhere."""
    ended_here: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.fence = Fence(self.clock)
        self.outbox.append(Collected(len(self.project)))

    def step(self) -> None:
        if self.fence.closed:
            self.alive = False
            return
        if self.clock.now() >= self.due:
            self.beats += 1
            self.due = self.clock.now() + BEAT
            self.fence.sends(self.beats)
            self.outbox.append(Beat(self.beats))
        while self.inbox:
            self.take(self.inbox.popleft())
        self.work()

    def take(self, message: ToChild) -> None:
        match message:
            case BeatSeen(number=number):
                self.fence.seen(number)
            case WriteAnswer(granted=granted):
                self.answer = granted
            case Batch():
                self.fence.given()
                self.batch, self.queue = message, deque(message.items)
                self.known |= message.done
            case End():
                self.ended = True

    def work(self) -> None:
        if self.now is None:
            self.begin()
            return
        node, attempt = self.now
        if self.browserless:
            self.finish(node, attempt, "BROWSER_LAUNCH_FAILED")
            return
        item = self.project[node]
        if item.writes and not self.wrote and not self.may_write(node, attempt):
            return
        if item.unseen and not self.wrote:
            self.outbox.append(Noted(node, "wrote"))
            self.order(node)
        if self.clock.now() >= self.until:
            self.outbox.append(Noted(node, "over"))
            self.finish(node, attempt, "")

    def begin(self) -> None:
        if self.batch is None:
            return
        if self.ended or not self.queue:
            self.outbox.append(Ended({}) if self.ended else Idle(self.batch.number))
            self.alive = not self.ended
            self.batch = None
            return
        self.now = self.queue.popleft()
        node = self.now[0]
        self.until, self.asked, self.answer, self.wrote = (
            self.clock.now() + self.project[node].seconds,
            None,
            None,
            False,
        )
        self.outbox.append(Noted(node, "turn"))
        item = self.project[node]
        if not all(map(self.known.get, item.wants)):
            self.finish(node, self.now[1], "SKIPPED")
        elif item.follows and item.follows not in self.ended_here:
            self.finish(node, self.now[1], "WITHOUT_STATE")
        else:
            self.outbox.append(Noted(node, "running"))

    def may_write(self, node: str, attempt: int) -> bool:
        """Ask, and write when the answer allows it."""
        if self.asked is None:
            self.asked = self.clock.now()
            self.outbox.append(WriteAsked(node, 1))
        elif self.answer:
            self.outbox.append(Noted(node, "wrote"))
            self.order(node)
            return True
        elif self.answer is False or self.clock.now() - self.asked >= ACKNOWLEDGED:
            self.finish(node, attempt, "WORKER_CUT_OFF")
        return False

    def order(self, node: str) -> None:
        self.wrote = True
        self.orders[node] += 1

    def finish(self, node: str, attempt: int, code: str) -> None:
        outcome = {"": "passed", "SKIPPED": "skipped"}.get(code, "failed")
        self.known[node] = not code
        self.ended_here.add(node)
        document = {"task_id": node, "code": code or None, "message": "no"}
        report = {"when": "call", "outcome": outcome, "taskspec": document}
        self.outbox.append(Done(node, attempt, (node, None, node), (report,)))
        self.now = None


@dataclass
class SimulatedSlot:
    child: Child | None = None
    browserless: bool = False
    mute: bool = False
    frozen: float = 0.0
    cut: float = 0.0
    gone: bool = False
    dropped: bool = False
    said: deque[FromSlot] = field(default_factory=deque)
    told: deque[ToChild] = field(default_factory=deque)
    news: deque[Up | Down] = field(default_factory=deque)


class SimulatedSlots:
    """The slots (`driver.SlotPool`). `troubles`: slot -> what happens to it."""

    def __init__(
        self,
        clock: Time,
        project: dict[str, Item],
        troubles: dict[str, list[Trouble]] | None = None,
        facts: dict[str, NodeFacts] | None = None,
        most: int = 100,
    ) -> None:
        self.clock, self.project = clock, project
        self.troubles = {name: list(each) for name, each in (troubles or {}).items()}
        self.facts = facts or {}
        self.orders: Counter[str] = Counter()
        self.slots: dict[str, SimulatedSlot] = {}
        self.most = most

    def want(self, number: int) -> None:
        living = sum(not each.dropped and not each.gone for each in self.slots.values())
        for _ in range(number - living):
            if len(self.slots) < self.most:
                self.slots[f"slot{len(self.slots) + 1}"] = SimulatedSlot(
                    news=deque([Up(self.facts_of(len(self.slots) + 1))])
                )

    def facts_of(self, number: int) -> NodeFacts:
        return self.facts.get(f"slot{number}", SAME)

    def start(self, slot: str) -> None:
        found = self.slots[slot]
        if found.child is None:
            found.told.clear()  # it was meant for the child before
            found.child = Child(self.clock, self.project, self.orders)

    def tell(self, slot: str, message: ToChild) -> None:
        self.slots[slot].told.append(message)

    def drop(self, slot: str) -> None:
        """Nothing is heard of it any more, but its child goes on until it notices."""
        self.slots[slot].dropped = True

    def wait(self, seconds: float) -> list[News]:
        for _ in range(max(1, int(seconds / STEP))):
            self.clock.seconds += STEP
            for name, slot in self.slots.items():
                self.advance(name, slot)
        found: list[News] = []
        for name, slot in self.slots.items():
            if slot.dropped:
                continue
            while slot.news:
                found.append(News(name, slot.news.popleft()))
            while slot.said and self.clock.now() >= slot.cut and self.clock.now() >= slot.frozen:
                found.append(News(name, slot.said.popleft()))
        return found

    def advance(self, name: str, slot: SimulatedSlot) -> None:
        for trouble in [each for each in self.troubles.get(name, []) if each.at <= self.clock.now()]:
            self.troubles[name].remove(trouble)
            self.strike(slot, trouble)
        if slot.gone or self.clock.now() < slot.frozen:
            return
        child = slot.child
        if self.clock.now() >= slot.cut and child is not None:
            child.inbox.extend(slot.told)
            slot.told.clear()
        if child is None or slot.mute:
            return
        child.browserless = slot.browserless
        child.step()
        slot.said.extend(child.outbox)
        child.outbox.clear()
        if not child.alive:
            slot.child = None
            slot.said.append(Died(70))

    def strike(self, slot: SimulatedSlot, trouble: Trouble) -> None:
        now = self.clock.now()
        match trouble.kind:
            case "child" if slot.child is not None:
                slot.child = None
                slot.said.append(Died(-9))
            case "node":
                slot.gone, slot.child = True, None
                slot.news.clear()
                slot.news.append(Down("the node is gone"))
            case "browserless":
                slot.browserless = True
            case "mute":
                slot.mute = True
            case "notice":
                slot.said.append(Leaving())
            case "freeze":
                slot.frozen = max(slot.frozen, now + trouble.seconds)
            case "cut":
                slot.cut = max(slot.cut, now + trouble.seconds)


class Reports:
    """What was reported (`driver.Reporter`)."""

    def __init__(self, broken: bool = False, stop_after: int = 10**9, reruns: int = 0) -> None:
        self.reruns = reruns
        self.results: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.kept: list[tuple[str, str]] = []
        self.broken = broken
        self.stop_after = stop_after

    @property
    def stops(self) -> bool:
        return len(self.results) >= self.stop_after

    def done(self, slot: str, done: Done, blob: bytes) -> None:
        self.results.append((done.node, done.reports[0]["taskspec"]["code"] or "passed"))

    def crashed(self, slot: str, node: str, why: str) -> None:
        self.results.append((node, f"WORKER_CRASHED: {why}"))

    def repeats(self, slot: str, node: str, why: str) -> bool:
        self.reruns -= 1
        return self.reruns >= 0

    def passed(self, node: str) -> tuple[str, bool] | None:
        found = dict(self.results).get(node)
        return None if found is None else (node, found == "passed")

    def told(self, slot: str, message: Told | Warned | Ended, blob: bytes) -> None: ...

    def note(self, word: Word, node: str) -> None:
        if word == "wrote" and self.broken:
            raise OSError("the disk is full")
        self.kept.append((word, node))

    def say(self, line: str) -> None:
        self.lines.append(line)
