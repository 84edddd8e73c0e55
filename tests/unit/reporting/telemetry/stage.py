"""A stream with a clock that jumps, and what its sinks were given."""

from __future__ import annotations

from typing import Any

from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.record import Record
from harness.reporting.telemetry.stream import Telemetry
from harness.resilience.events import ResilienceEvent
from tests.unit.fakes import START, FakeClock


class Stage:
    def __init__(self, redact: tuple[str, ...] = (), **options: Any) -> None:
        self.clock = FakeClock()
        self.records: list[Record] = []
        sinks = (self.records.append, *options.pop("sinks", ()))
        self.telemetry = Telemetry("run-1", self.clock, Redactor((), redact), sinks=sinks, **options)

    @property
    def events(self) -> list[Any]:
        return [record.event for record in self.records]


def record(event: ResilienceEvent | Any, **stamp: Any) -> Record:
    return Record(stamp.pop("at", START), event, stamp.pop("run", "run-1"), **stamp)
