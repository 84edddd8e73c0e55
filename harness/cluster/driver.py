"""Drives a run: gives batches to slots, keeps the ledger and the leases, and decides what a lost slot means.

It reaches slots and pytest only through the ports `Slots` and `Reporter`, and time through a Clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol, assert_never

from msgspec import Struct, field

from harness.cluster.batches import Batches, Component
from harness.cluster.equality import NodeFacts, differences
from harness.cluster.lease import Lease
from harness.cluster.ledger import RunLedger, names
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
    NotCollected,
    Noted,
    ToChild,
    Told,
    Warned,
    WriteAnswer,
    WriteAsked,
)
from harness.model.ledger import RULES, Gone, Word
from harness.resilience import Clock

_NO_BROWSER = "BROWSER_LAUNCH_FAILED"
LOOK = 0.5
"""Seconds of one wait for news of the slots."""
STARTS = 120.0
"""Seconds for the child of a slot to give its first sign of life."""
_RESTS = 60.0
"""Seconds without work after which a slot is given back, unless so few are left that the run keeps it."""
SOON = 20.0
"""Seconds without any usable slot after which the run says what it waits for."""
_NONE_COMES = 300.0
"""Seconds without any usable slot after which the run ends."""
_ENDS_WITHIN = 8.0
"""Seconds for the slots to end after an interruption."""
DIES_OFTEN = 3
"""So many deaths of its child before it has collected, and a slot is refused. After so many in a row that could not
start, the run uses one slot less."""
NONE_YET = (
    "no slot has come yet: the cluster has no room for one (it takes one processor, and one of the resource `browser` "
    "where nodes declare it), or is about to start a machine"
)
STARTING = (
    "slot {} on {}: its pytest process has given no sign of life for {:g} s. Python, pytest and its plugins have to be "
    "loaded there first; this is waited for until {:g} s are over"
)
UNBORN = f"its pytest process has given no sign of life within {STARTS:g} s: Python and pytest did not start there"
_SHOWN = 200
"""The number of characters of a line of a log that a message shows."""
_NOT_COLLECTED = "slot {} did not collect it, although its files are the same{}"


class Up(Struct, frozen=True):
    """A slot has come."""

    facts: NodeFacts


class Down(Struct, frozen=True):
    """A slot does not answer any more; its child may still run."""

    why: str


class News(Struct, frozen=True):
    """Something about one slot."""

    slot: str
    what: Up | Down | FromSlot
    blob: bytes = b""
    """The content of the file that a message names."""


class SlotPool(Protocol):
    """The slots of a cluster."""

    def wait(self, seconds: float) -> list[News]:
        """What the slots have said, as soon as there is something, and after so many seconds at most."""

    def start(self, slot: str) -> None:
        """Start the child of a slot, if none runs."""

    def tell(self, slot: str, message: ToChild) -> None:
        """Send a message to the child of a slot. It comes once and in order, unless the slot is given up."""

    def want(self, number: int) -> None:
        """How many slots the run can use now, the present ones included."""

    def drop(self, slot: str) -> None:
        """Give up a slot; nothing that it says is heard any more."""


class Reporter(Protocol):
    """Where results go."""

    def done(self, slot: str, done: Done, blob: bytes) -> None:
        """An item has been done."""

    def crashed(self, slot: str, node: str, why: str) -> None:
        """An item ends as WORKER_CRASHED."""

    def repeats(self, slot: str, node: str, why: str) -> bool:
        """Return whether the user asks for a repetition (`--reruns`); if so, this execution has been reported."""

    def passed(self, node: str) -> tuple[str, bool] | None:
        """The id of the task behind an item that is done, and whether it passed; None if it is no task."""

    def told(self, slot: str, message: Told | Warned | Ended, blob: bytes) -> None: ...

    def note(self, word: Word, node: str) -> None:
        """Keep something about an item beyond the end of this process. Raises OSError if a task begins to write."""

    def say(self, line: str) -> None:
        """Print a line."""

    @property
    def stops(self) -> bool:
        """Whether no further item is to begin (`-x`, `--maxfail`)."""


class SlotState(Struct):
    """What the driver knows of one slot."""

    lease: Lease
    host: str
    began: float
    """When its present child was to start."""
    batches: int = 0
    ready: bool = False
    """Whether its child has collected, and may have a batch."""
    busy: bool = False
    leaving: bool = False
    down: str = ""
    """Why it does not answer; its lease still runs."""
    deaths: int = 0
    idle_since: float | None = None
    ended: bool = False
    browserless: int = 0
    """How many tasks have just failed, one after the other, because its browser did not start."""
    beats: bool = False
    """Whether its present child has given a sign of life."""


class Cluster(Struct, frozen=True):
    """What the driver knows of the run from the beginning."""

    facts: NodeFacts
    wants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Item -> the items that it depends on."""
    fewest: int = 1
    most: int = 1


class ClusterDriver:
    """One run. Not thread-safe: pytest's own thread drives it."""

    def __init__(
        self, cluster: Cluster, ledger: RunLedger, batches: Batches, slots: SlotPool, reporter: Reporter, clock: Clock
    ) -> None:
        self._cluster, self._ledger, self._batches = cluster, ledger, batches
        self._slots, self._reporter, self._clock = slots, reporter, clock
        self._states: dict[str, SlotState] = {}
        self._none_since = clock.now()
        self._refused = 0
        """How many slots are not used because something is wrong with their machines."""
        self._refused_hosts: set[str] = set()
        self._failed = 0
        """How many slots, one after the other, could not be started."""
        self._waits_for_start = False
        """Whether it was told that the child of a slot takes long to start."""
        self._patient = True
        self._ending = False

    @property
    def up(self) -> list[str]:
        """The slots that can be used."""
        return [name for name, state in self._states.items() if not state.down]

    @property
    def refused_all(self) -> bool:
        """Whether something is wrong with the machines of all slots, so that a repetition would end the same."""
        return self._refused >= self._cluster.most

    def run(self) -> str:
        """Drive the run until every item has its result; returns why it ended earlier, else an empty text."""
        while not self._ledger.finished:
            self._turn()
            if self._reporter.stops and not self._ending:
                self._order_end("stop")
            if self._ending and not any(state.busy and not state.ended for state in self._states.values()):
                return ""
            if not self._states and (why := self._hopeless()):
                return why
        return ""

    def _hopeless(self) -> str:
        """Why no slot is waited for any longer; empty if one may still come."""
        if self.refused_all:
            return "every slot of the cluster was refused"
        waited = self._clock.now() - self._none_since
        if waited > SOON and self._patient:
            self._patient = False
            self._reporter.say(NONE_YET)
        if waited > _NONE_COMES:
            return f"no slot of the cluster could be used for {_NONE_COMES:g} s"
        return ""

    def interrupt(self) -> None:
        """Interrupt everything that runs, and wait a bounded time for its reports."""
        self._end_all("interrupt")

    def finish(self) -> None:
        """End the children regularly."""
        self._end_all("stop")

    def _order_end(self, how: Literal["stop", "interrupt"]) -> None:
        self._ending = True
        for name in self.up:
            self._slots.tell(name, End(how))

    def _end_all(self, how: Literal["stop", "interrupt"]) -> None:
        self._order_end(how)
        until = self._clock.now() + _ENDS_WITHIN
        while self._clock.now() < until and any(
            each.ready and not (each.ended or each.down) for each in self._states.values()
        ):
            for news in self._slots.wait(LOOK):
                self._hear(news)

    def _turn(self) -> None:
        waiting = len(self._batches) + sum(state.busy for state in self._states.values())
        most = self._cluster.most - self._refused
        self._slots.want(min(most, max(waiting, self._cluster.fewest)))
        for news in self._slots.wait(LOOK):
            self._hear(news)
        for name, state in list(self._states.items()):
            self._look_at(name, state)
        up = self.up
        for name in up:
            state = self._states[name]
            if state.ready and not (state.busy or state.leaving or self._ending or self._reporter.stops):
                self._give(name, state, up)

    def _look_at(self, name: str, state: SlotState) -> None:
        """Give up a slot whose lease is over; say once what is waited for if a child takes long to start."""
        if state.lease.over:
            silent = "its lease is over: nothing was heard of it" if state.beats else UNBORN
            self._lose(name, state, state.down or silent)
        elif not (state.beats or state.down or self._waits_for_start) and self._clock.now() - state.began > SOON:
            self._waits_for_start = True
            self._reporter.say(STARTING.format(name, state.host or "its machine", SOON, STARTS))

    def _give(self, name: str, state: SlotState, up: Sequence[str]) -> None:
        chosen = self._batches.next(name, up, self._may_begin)
        nodes = [node for each in chosen for node in each.nodes if not self._ledger.entry(node).done]
        if not nodes:
            self._rest(name, state)
            return
        state.idle_since = None
        state.batches, state.busy = state.batches + 1, True
        items = self._ledger.give(name, nodes)
        again = max(attempt for _, attempt in items) > 1
        afresh = f"{name}-{state.batches}" if again else ""
        wanted = {other for node in nodes for other in self._cluster.wants.get(node, ())} - set(nodes)
        known = (self._reporter.passed(other) for other in sorted(wanted))
        done = dict(each for each in known if each is not None)
        self._slots.tell(name, Batch(state.batches, items, afresh, done))

    def _may_begin(self, component: Component) -> bool:
        """Whether all that a component depends on has its result. It has something of the kind only after a loss."""
        return not any(
            self._ledger.is_left(other) and other not in component.nodes
            for node in component.nodes
            for other in self._cluster.wants.get(node, ())
        )

    def _rest(self, name: str, state: SlotState) -> None:
        """A slot has nothing to do; after a while it is given back, so that its machine can go."""
        now = self._clock.now()
        state.idle_since = now if state.idle_since is None else state.idle_since
        if now - state.idle_since > _RESTS and len(self.up) > self._cluster.fewest:
            self._forget(name)

    def _hear(self, news: News) -> None:
        state = self._states.get(news.slot)
        if isinstance(news.what, Up):
            self._admit(news.slot, news.what.facts)
        elif state is None:
            if isinstance(news.what, Down):
                self._not_started(news.slot, news.what.why)
        elif isinstance(news.what, Down):
            state.down = news.what.why
            if not any(self._ledger.held_by(news.slot)):
                self._lose(news.slot, state, state.down)
        else:
            self._listen(news.slot, state, news.what, news.blob)

    def _not_started(self, name: str, why: str) -> None:
        """A slot has ended before its child could say anything: its machine was lost, lacks this package, or hangs.

        Another one takes its place, but not without end.
        """
        self._slots.drop(name)
        if not self._failed:
            self._reporter.say(f"slot {name} cannot be started: {why}")
        self._failed += 1
        if self._failed % DIES_OFTEN == 0:
            self._refused += 1
            left = max(self._cluster.most - self._refused, 0)
            then = f"the run goes on with {left} at most" if left else "no further one is tried"
            self._reporter.say(f"{self._failed} slots in a row could not be started (the last: {why}); {then}")

    def _admit(self, name: str, facts: NodeFacts) -> None:
        found = differences(self._cluster.facts, facts)
        if found:
            self._slots.drop(name)
            self._refused += 1
            told = f"slot {name} on {facts.host} is refused, because it is not like this machine: " + "; ".join(found)
            if facts.host not in self._refused_hosts:
                self._refused_hosts.add(facts.host)
                self._reporter.say(told)
            return
        self._states[name] = SlotState(Lease(self._clock, STARTS), facts.host, self._clock.now())
        self._slots.start(name)

    def _listen(self, name: str, state: SlotState, message: FromSlot, blob: bytes) -> None:
        match message:
            case Beat(number=number):
                self._beat(name, state, number)
            case WriteAsked() | Noted():
                self._note(name, message)
            case Done():
                self._done(name, state, message, blob)
            case NotCollected():
                self._absent(name, message)
            case Told() | Warned():
                self._reporter.told(name, message, blob)
            case Collected() | Idle() | Leaving() | Ended() | Died():
                self._change(name, state, message, blob)
            case _:
                assert_never(message)

    def _change(
        self, name: str, state: SlotState, message: Collected | Idle | Leaving | Ended | Died, blob: bytes
    ) -> None:
        match message:
            case Collected():
                state.ready, state.deaths = True, 0
            case Idle():
                state.busy = False
                self._return(name, f"slot {name} has not reported it")
            case Leaving():
                state.leaving = True
                self._slots.tell(name, End("stop"))
            case Ended():
                state.ended = True
                self._reporter.told(name, message, blob)
            case Died():
                self._died(name, state, message)
            case _:
                assert_never(message)

    def _beat(self, name: str, state: SlotState, number: int) -> None:
        if not state.beats:
            state.lease, state.beats = Lease(self._clock), True
            self._failed = 0
        state.lease.heard()
        self._slots.tell(name, BeatSeen(number))

    def _note(self, name: str, message: WriteAsked | Noted) -> None:
        """Note what a child says, and allow a first write once this is kept."""
        node, asks = message.node, isinstance(message, WriteAsked)
        word = "wrote" if isinstance(message, WriteAsked) else message.word
        held = self._ledger.may_write(name, node) if asks else self._ledger.note(name, node, word)
        if held and word == "wrote":
            held = self._kept(node)
        elif held and not self._ledger.entry(node).task:
            self._reporter.note("running", node)
        if isinstance(message, WriteAsked):
            self._slots.tell(name, WriteAnswer(node, message.number, held))

    def _kept(self, node: str) -> bool:
        try:
            self._reporter.note("wrote", node)
        except OSError as error:
            self._reporter.say(f"the ledger of the run cannot be written, so no task may begin to write: {error}")
            return False
        return True

    def _done(self, name: str, state: SlotState, done: Done, blob: bytes) -> None:
        code, why = _failure(done)
        if code in RULES[Gone.SLOT].no_end and self._ledger.given_up(name, done.node, done.attempt):
            self._put_back([done.node], [], name)
        elif self._is_early(done) and self._ledger.returned(name, done.node, done.attempt):
            self._put_back([], [done.node], name)
        elif self._ledger.finish(name, done.node, done.attempt):
            self._reporter.done(name, done, blob)
        if self._ledger.entry(done.node).task:
            state.browserless = state.browserless + 1 if code == _NO_BROWSER else 0
        if state.browserless == DIES_OFTEN:  # else it would fail one task after the other, faster than others pass
            state.leaving = True
            self._refused += 1
            self._reporter.say(f"slot {name} gets no further task: {DIES_OFTEN} times its browser did not start: {why}")
            self._slots.tell(name, End("stop"))

    def _is_early(self, done: Done) -> bool:
        """Whether an item was skipped because one that it depends on has not passed, which runs again elsewhere."""
        skipped = any(report.get("outcome") == "skipped" for report in done.reports)
        return skipped and any(map(self._ledger.is_left, self._cluster.wants.get(done.node, ())))

    def _absent(self, name: str, message: NotCollected) -> None:
        if message.node in self._ledger.held_by(name):
            self._ledger.close(message.node)
            why = f" ({message.why[:_SHOWN]})" if message.why else ""
            self._reporter.crashed(name, message.node, _NOT_COLLECTED.format(name, why))

    def _died(self, name: str, state: SlotState, died: Died) -> None:
        """The child has died for certain, so nothing of it can write any more: its lease need not be awaited."""
        state.busy, state.deaths, state.ready = False, state.deaths + (not state.ready), False
        if self._ending:
            state.ended = True
            return
        leaves, ended = f"the machine of slot {name} is being taken away", f"the process of slot {name} {_end_of(died)}"
        self._return(name, leaves if state.leaving else ended)
        if state.leaving or state.deaths >= DIES_OFTEN:
            if not state.leaving:
                self._refused += 1
                tail = "".join(f"\n  {line}" for line in died.tail[-8:])
                ended = f"its process has {DIES_OFTEN} times ended before it could run anything"
                self._reporter.say(f"slot {name} is refused: {ended}, at last with exit code {died.code}{tail}")
            self._forget(name)
            return
        state.lease, state.beats, state.ended = Lease(self._clock, STARTS), False, False
        state.began = self._clock.now()
        self._slots.start(name)

    def _lose(self, name: str, state: SlotState, why: str) -> None:
        """Give up a slot whose child cannot write any more."""
        self._forget(name)
        self._return(name, f"slot {name} was lost ({why})")
        if not state.beats:
            self._not_started(name, why)

    def _forget(self, name: str) -> None:
        self._states.pop(name, None)
        self._slots.drop(name)
        if not self._states:
            self._none_since = self._clock.now()

    def _return(self, name: str, why: str) -> None:
        verdict = self._ledger.lost(name)
        if verdict.again:
            self._reporter.say(f"{why}; these run again: {names(verdict.again)}")
        again = list(verdict.again)
        for node, reason in verdict.lost.items():
            whole = "; ".join(filter(None, (why, reason)))
            if self._ledger.entry(node).begun and self._reporter.repeats(name, node, whole):
                again.append(node)
            else:
                self._ledger.close(node)
                self._reporter.crashed(name, node, whole)
        self._put_back(again, verdict.fresh, name)

    def _put_back(self, again: Collection[str], back: Collection[str], name: str) -> None:
        """Items of a slot wait again: those that were lost while they ran, and those that had not begun."""
        for node in again:
            self._reporter.note("again", node)
        avoids = {node: {*self._ledger.entry(node).lost_on, name} for node in again}
        self._batches.put_back([*again, *back], avoids)


def _end_of(died: Died) -> str:
    """How a child has ended, with the last line of its log if it was not killed: an error ends it."""
    ended = f"ended with exit code {died.code}"
    last = next((line.strip() for line in reversed(died.tail) if line.strip()), "")
    return f"{ended} ({last[:_SHOWN]})" if last and died.code and 0 < died.code < 128 else ended


def _failure(done: Done) -> tuple[str, str]:
    """The code and the message of the failure of a task; empty if it has none."""
    documents = (report.get("taskspec") or {} for report in done.reports)
    found = next((each for each in documents if each.get("code")), {})
    return str(found.get("code") or ""), str(found.get("message") or "")
