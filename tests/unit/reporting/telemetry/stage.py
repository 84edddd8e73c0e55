"""A stream with a clock that jumps, and what its sinks were given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.model.events import Event
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.record import Record
from harness.reporting.telemetry.stream import Sink, Telemetry
from harness.resilience.events import ResilienceEvent
from tests.unit.fakes import START, FakeClock


class Kept(Sink):
    """Keeps what it is told at each door."""

    name = "kept"

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.events: list[Event] = []
        self.delivered: list[Record] = []
        self.turns: list[Event] = []

    def on_record(self, record: Record) -> None:
        self.records.append(record)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_delivery(self, record: Record) -> None:
        self.delivered.append(record)

    def on_turn(self, event: Event) -> None:
        self.turns.append(event)


class Stage:
    def __init__(self, redact: tuple[str, ...] = (), sinks: Iterable[Sink] = (), **options: Any) -> None:
        self.clock = FakeClock()
        self.kept = Kept()
        self.telemetry = Telemetry("run-1", self.clock, Redactor((), redact), (self.kept, *sinks), **options)

    @property
    def records(self) -> list[Record]:
        return self.kept.records

    @property
    def events(self) -> list[Any]:
        return [record.event for record in self.records]


def record(event: ResilienceEvent | Any, **stamp: Any) -> Record:
    return Record(stamp.pop("at", START), event, stamp.pop("run", "run-1"), **stamp)
