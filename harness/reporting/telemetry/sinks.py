"""The one list of sinks: they receive the events of a run. To add one, write its class and a line here."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from harness.model.settings import Settings
from harness.reporting.fence import OutputFence
from harness.reporting.redaction import Redactor
from harness.reporting.telemetry.log import EventLog, LogSink, begin, events_of
from harness.reporting.telemetry.stream import Sink, Telemetry
from harness.resilience import SystemClock


class PytestSinks(Struct, frozen=True, kw_only=True):
    """The sinks that pytest makes, since they need pytest, or pytest reads them at its end."""

    journal: Sink | None
    """In an xdist worker that runs several tasks at once: records which of them have begun."""
    ledger: Sink | None
    """With `--task-store`, the `StoreLedger`: notes which tasks were seen to write."""
    hook: Sink | None
    """`pytest_taskspec_event`."""
    allure: Sink
    terminal: Sink | None
    """None in an xdist worker, which has no terminal."""
    live_line: Sink
    metrics: Sink | None
    """None under xdist, where the controller counts the records of its workers."""
    events: Sink | None = None
    """In a process of a cluster: sends the records to the driver, which writes the file."""


def every_sink(
    settings: Settings, run: str, pytest: PytestSinks | None = None, fence: OutputFence | None = None
) -> Iterator[Sink]:
    """The sinks in the order in which they are called. A run without pytest (a command, `execute_task`) has the first
    two. One that cannot be made is left out, and named by the fence.
    """
    make = (fence or OutputFence()).call
    found: list[Sink | None] = [
        (pytest and pytest.events) or make(EventLog.name, EventLog, events_of(settings.root, run)),
        make(LogSink.name, LogSink, settings.log_profile),
    ]
    if pytest is not None:
        found += [make("OpenTelemetry", _spans, run)] if settings.telemetry.otel else []
        found += [pytest.journal, pytest.ledger, pytest.hook, pytest.allure, pytest.terminal, pytest.live_line]
        found.append(pytest.metrics)  # the last sink: its events come after their causes
    yield from (sink for sink in found if sink is not None)


def _spans(run: str) -> Sink:
    from harness.reporting.telemetry.exporters import Spans  # few runs have them

    return Spans(run)


def stream_of(
    settings: Settings,
    run: str,
    pytest: PytestSinks | None = None,
    *,
    worker: str = "",
    fence: OutputFence | None = None,
) -> Telemetry:
    """The stream of a run, with all its sinks. `worker`: the name of the xdist worker.

    Raises ValueError for a `redact` that is no regular expression.
    """
    fence, steps = fence or OutputFence(), settings.log_profile == "debug"
    sinks = tuple(every_sink(settings, run, pytest, fence))
    return Telemetry(run, SystemClock(), Redactor.of(settings), sinks, worker=worker, steps=steps, fence=fence)


def begun_stream(settings: Settings, run: str, *, leads: bool = True) -> Telemetry:
    """The stream of a run without pytest: `harness chaos`, `harness verify`, `execute_task`. Its metrics are not kept.

    `leads`: `.harness/events.jsonl` points to its file. Nothing is raised for a file that cannot be written.
    """
    begin(events_of(settings.root, run), SystemClock().wall(), leads=leads)
    return stream_of(settings, run)
