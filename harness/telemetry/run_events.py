"""The stream of a run without pytest: `harness chaos`, `harness verify`, `execute_task`. The file, and the logger."""

from __future__ import annotations

from harness.model.events import Event
from harness.model.settings import Settings
from harness.resilience import SystemClock
from harness.telemetry.event_log import EventLog, begin, events_of
from harness.telemetry.levels import LogSink
from harness.telemetry.record import Record, TelemetryEvent
from harness.telemetry.stream import Redactor, Telemetry


class RunEvents:
    """Writes `.harness/events/<run>.jsonl`, as a run of pytest does; figures are of those runs alone."""

    def __init__(self, settings: Settings, run: str, redactor: Redactor, *, leads: bool = True) -> None:
        """`leads`: `.harness/events.jsonl` leads there. Nothing is raised for a file that cannot be written."""
        clock, path, profile = SystemClock(), events_of(settings.root, run), settings.log_profile
        begin(path, clock.wall(), leads=leads)
        self._log = EventLog(path)
        self._stream = Telemetry(run, clock, redactor, steps=profile == "debug", sinks=[self._log, LogSink(profile)])

    def emit(self, event: TelemetryEvent) -> None:
        """What circuits and services did (`resilience.events.Emit`); from any thread."""
        self._stream.emit(event)

    def on(self, event: Event | Record) -> None:
        """What the engine says; a record is there already."""
        if not isinstance(event, Record):
            self._stream.on(event)

    def close(self) -> tuple[str, ...]:
        """The file is whole. Why something was not written, in a line each."""
        self._log.close()
        return tuple(f"telemetry: {sink}: {problem}" for sink, problem in self._stream.problems.items())
