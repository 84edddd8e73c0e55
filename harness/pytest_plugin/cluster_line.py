"""The line between the pytest process of a slot and its driver: beats, the journal, events, and leave to write."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import IO, TYPE_CHECKING

import pytest
from msgspec import Struct

from harness.cluster.lease import ACKNOWLEDGED, BEAT, Fence
from harness.cluster.messages import Beat, FromSlot, Noted, Told, WriteAnswer, WriteAsked, encode
from harness.model.events import Event, TaskStarted
from harness.model.ledger import NewWords, cut_off
from harness.model.plan import Plan
from harness.reporting.telemetry.log import as_line
from harness.reporting.telemetry.record import Record
from harness.reporting.telemetry.stream import Sink
from harness.resilience import Clock

if TYPE_CHECKING:
    from harness.runner.store_writer import StoreLedger
    from harness.runner.sync import SyncHarness

_UNHEARD = "The driver of the cluster was not heard"
STORE = "TASKSPEC_STORE"
"""The variable with the store of the run, for the process of a slot (`StorePlace.given`)."""
_CHECKED = 0.25
"""Seconds between two checks whether the driver was heard lately."""
FENCED = 70
"""The exit status of a process that has not heard of its driver for too long."""


class DriverWire:
    """The line to the driver. Any thread may send."""

    def __init__(self, out: IO[bytes], clock: Clock) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._clock = clock
        self._beats = 0
        self.fence = Fence(clock)

    def send(self, message: FromSlot) -> None:
        """Send a message. A line that is closed means that the slot is gone: the process ends at once."""
        try:
            with self._lock:
                self._out.write(encode(message))
                self._out.flush()
        except (OSError, ValueError):
            os._exit(FENCED)

    def check(self) -> None:
        """End the process if the driver was not heard for so long that it may have given the work away."""
        if self.fence.closed:
            os._exit(FENCED)

    def beat(self) -> None:
        """Give a sign of life."""
        self._beats += 1
        self.fence.sends(self._beats)
        self.send(Beat(self._beats))

    def beats(self) -> None:
        """Beat for ever; on a thread of its own."""
        due = self._clock.now()
        while True:
            self.check()
            if self._clock.now() >= due:
                self.beat()
                due = self._clock.now() + BEAT
            threading.Event().wait(_CHECKED)


class Permits:
    """Asks the driver before the first write of a task."""

    def __init__(self, wire: DriverWire) -> None:
        self._wire = wire
        self._numbers = 0
        self._waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[bool]]] = {}
        self._granted: set[str] = set()
        self.nodes: dict[str, str] = {}
        """Task id -> node id."""

    def began(self, task_id: str) -> None:
        """A task begins, perhaps again: its first write is still to come."""
        self._granted.discard(task_id)

    async def before_write(self, plan: Plan) -> None:
        """Return when the task may write (`Ports.before_write`). Raises Failed if it may not; bounded."""
        if self._wire.fence.closed:
            raise cut_off(f"{_UNHEARD} for too long")
        if plan.task_id in self._granted:
            return
        try:
            async with asyncio.timeout(ACKNOWLEDGED):
                granted = await self._ask(self.nodes.get(plan.task_id, plan.task_id))
        except TimeoutError:
            raise cut_off(f"{_UNHEARD} for {ACKNOWLEDGED:g} s before the task's first write") from None
        if not granted:
            raise cut_off("The driver of the cluster has given the task to another slot")
        self._granted.add(plan.task_id)
        self._wire.send(Noted(self.nodes.get(plan.task_id, plan.task_id), "wrote"))

    async def _ask(self, node: str) -> bool:
        self._numbers += 1
        loop = asyncio.get_running_loop()
        number, answer = self._numbers, loop.create_future()
        self._waiting[number] = (loop, answer)
        try:
            self._wire.send(WriteAsked(node, number))
            return bool(await answer)
        finally:
            self._waiting.pop(number, None)

    def answered(self, answer: WriteAnswer) -> None:
        """The driver has answered; from any thread."""
        if waiting := self._waiting.get(answer.number):
            loop, future = waiting
            loop.call_soon_threadsafe(_settle, future, answer.granted)


def _settle(future: asyncio.Future[bool], granted: bool) -> None:
    if not future.done():
        future.set_result(granted)


class ClusterJournal(Sink):
    """Tells the driver which tasks have begun, and which have begun to write."""

    name = "journal of the cluster"

    def __init__(self, link: DriverLink) -> None:
        self._wire, self._permits = link.wire, link.permits
        self._new = NewWords(asks=True)

    def on_event(self, event: Event) -> None:
        self._wire.check()
        if isinstance(event, TaskStarted):
            self._permits.began(event.plan.task_id)
        if node := self._permits.nodes.get(event.plan.task_id):
            for word in self._new.of(event):
                self._wire.send(Noted(node, word))


class ClusterEvents(Sink):
    """Sends the records of the event log to the driver."""

    name = "events.jsonl"

    def __init__(self, link: DriverLink) -> None:
        self._wire = link.wire

    def on_record(self, record: Record) -> None:
        self._wire.send(Told(as_line(record)))


class DriverLink(Struct, frozen=True):
    """The line to the driver, for the plugin's other modules."""

    wire: DriverWire
    permits: Permits

    def attach(self, harness: SyncHarness, ledger: StoreLedger | None = None) -> None:
        """Let the tasks of the harness ask the driver before they write, and then the store of the run (`ledger`).

        The driver decides among its slots, the store among runs. A task that only one of them allows sends nothing.
        """

        async def before_write(plan: Plan) -> None:
            await self.permits.before_write(plan)
            if ledger is not None:
                await ledger.before_write(plan)

        harness.record_writes(before_write)


UPLINK: pytest.StashKey[DriverLink] = pytest.StashKey()
"""In the process of a slot: the line to its driver."""
