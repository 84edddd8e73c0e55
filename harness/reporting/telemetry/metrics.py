"""Counts from resilience events: how many retries, fallbacks and recoveries there were, and how many worked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, astuple

from harness.model.consumption import ModelFigures, added_up
from harness.model.events import Event, TaskStarted
from harness.model.figures import TaskDone
from harness.model.tool_use import ToolFigures, of_all_tools, tools_added_up
from harness.reporting.telemetry.record import (
    ModelReply,
    ModelRequest,
    Record,
    RunBegun,
    StepBegun,
    StepDone,
    TaskBegun,
    ToolReply,
    ToolRequested,
    describe,
)
from harness.reporting.telemetry.stream import Sink
from harness.resilience.circuits import CircuitScope
from harness.resilience.events import (
    CircuitChanged,
    FellBack,
    GaveUp,
    InvariantBroken,
    Recovered,
    ResilienceEvent,
    Retrying,
    ServiceChanged,
    ToolServerChanged,
)
from harness.resilience.thresholds import Reading, ThresholdCrossed, Thresholds

# The metrics of a run, from the records of all its processes.

UNWELL: Final = ("restarting", "offline", "error", "requires_reauth", "permanently_failed")
"""States of a tool server in which it answers no call, the worst last."""
_OF_PROVIDERS = f"{CircuitScope.PROVIDER}:"


class ServiceCrashes(Struct, frozen=True):
    """What became of a service that crashed in a run."""

    count: int
    state: str
    """Its last state."""

    @property
    def came_back(self) -> bool:
        return self.state in ("up", "stopped")

    @property
    def words(self) -> str:
        """`crashed twice and came back`."""
        ends = {"permanently_failed": "is not started again"}
        then = "came back" if self.came_back else ends.get(self.state, "was not back at the end of the run")
        return f"crashed {_times_text(self.count)} and {then}"


class MetricsSink(Sink):
    """Counts the records of a run. Its time is that of the records: the same records give the same figures at any
    time.
    """

    name = "metrics"

    def __init__(self, tell: Callable[[ThresholdCrossed], None] = lambda _crossed: None) -> None:
        """`tell` is called when a metric changes its level."""
        self._meter = Meter()
        self._now = 0.0
        self._thresholds = Thresholds(lambda: self._now, tell)
        self._broken: Counter[str] = Counter()
        """Description of each violated invariant -> number of violations."""
        self.models: dict[str, ModelFigures] = {}
        """Name of a model -> what the calls of all tasks have used."""
        self.tools: dict[str, dict[str, ToolFigures]] = {}
        """Name of a tool server -> name of a tool -> what the calls of all tasks have done."""
        self._servers: dict[tuple[str, str], str] = {}
        """Worker and name of a tool server -> its last state there."""
        self._services: dict[tuple[str, str], ServiceCrashes] = {}
        """Worker and name of a service that has crashed -> how often, and its last state."""
        self._circuits = 0
        """How often circuits of providers have opened."""

    def on_event(self, event: Event) -> None:
        """When a task begins, records older than the windows of the thresholds no longer count."""
        if isinstance(event, TaskStarted):
            self.look(event.at)

    def on_record(self, record: Record) -> None:
        self.look(record.at)
        self._note_service(record)
        match record.event:
            case TaskDone() as done:
                self._meter.add(_task_metrics(done))
                self._add_calls(done)
                counted = 0 if done.expected or record.faulted else done.failures
                self._thresholds.count_attempts(done.attempts, counted)
            case ThresholdCrossed() | StepDone() | ModelRequest() | ModelReply() | ToolRequested() | ToolReply():
                return
            case RunBegun() | TaskBegun() | StepBegun() | ToolServerChanged(own=True):
                return
            case ToolServerChanged(server=server, after=after):
                self._servers[record.worker, server] = after
            case InvariantBroken() as broken:
                self._broken[describe(broken)] += 1
            case event:
                self._circuits += _is_opened_provider(event)
                if record.step is None or isinstance(event, CircuitChanged):
                    # The attempts and failures of a task's steps are counted once, at its end.
                    self._meter.count(event, record.task_id)
                if not record.faulted:
                    self._thresholds.count(event)

    def _add_calls(self, done: TaskDone) -> None:
        self.models = added_up((self.models, {name: ModelFigures(**used) for name, used in done.models.items()}))

        tools = {
            server: {tool: ToolFigures(**used) for tool, used in found.items()} for server, found in done.tools.items()
        }
        self.tools = tools_added_up((self.tools, tools))

    def _note_service(self, record: Record) -> None:
        changed = record.event
        if not isinstance(changed, ServiceChanged):
            return
        place = record.worker, changed.service
        if changed.crashed or place in self._services:
            before = self._services.get(place, ServiceCrashes(0, ""))
            self._services[place] = ServiceCrashes(before.count + changed.crashed, changed.after)

    @property
    def service_crashes(self) -> dict[str, ServiceCrashes]:
        """Name of a service that crashed in the run -> how often, and what became of it. Its end on purpose is none."""
        found: dict[str, ServiceCrashes] = {}
        for (_, name), each in sorted(self._services.items()):
            before = found.get(name, ServiceCrashes(0, "up"))
            found[name] = ServiceCrashes(before.count + each.count, each.state if before.came_back else before.state)
        return found

    def look(self, at: datetime) -> None:
        """Advance the time: records outside of their window no longer count. An earlier time has no effect."""
        self._now = max(self._now, at.timestamp())
        self._thresholds.look()

    @property
    def tool_servers(self) -> dict[str, str]:
        """Name of a tool server -> its last state, the worst of those that several workers have seen."""
        worst = ("", *UNWELL)
        found: dict[str, str] = {}
        for (_, server), state in sorted(self._servers.items()):
            known = found.get(server, state)
            found[server] = max(known, state, key=lambda each: worst.index(each) if each in worst else 0)
        return found

    @property
    def metrics(self) -> ResilienceMetrics:
        return self._meter.metrics

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The most alarming reading of each metric in the run."""
        return self._thresholds.worst

    def as_json(self) -> dict[str, Any]:
        """The parts `resilience`, `models`, `tools` and `thresholds` of metrics.json, without what was not used."""
        now = {reading.metric: reading for reading in self._thresholds.look()}
        document: dict[str, Any] = {"resilience": self.metrics.as_json()}
        if self.models:
            parts = {name: used.model_dump() for name, used in sorted(self.models.items())}
            total = sum(self.models.values(), ModelFigures()).model_dump()
            document["models"] = {**total, "circuit_opens": self._circuits, "by_model": parts}
        if self.tools or self._servers:
            by_server = {
                server: {tool: used.model_dump() for tool, used in sorted(tools.items())}
                for server, tools in sorted(self.tools.items())
            }
            called = of_all_tools(self.tools).model_dump()
            document["tools"] = {**called, "by_server": by_server, "servers": self.tool_servers}
        if crashes := self.service_crashes:
            ends = {name: {"crashes": each.count, "state": each.state} for name, each in crashes.items()}
            document["service_crashes"] = ends
        document["thresholds"] = {
            worst.metric: {**_reading_document(worst), "at_the_end": _reading_document(now[worst.metric])}
            for worst in self.readings
        }
        return document

    def lines(self) -> list[str]:
        """Lines for the summary of a run: the counts of resilience, if there are any, and what is critical."""
        metrics = self.metrics
        parts = [
            f"{_count_text(metrics.retries, 'retry', 'retries')} ({metrics.successful_retries} worked)"
            * (metrics.retries > 0),
            f"circuit opened {_times_text(metrics.circuit_opens)}" * (metrics.circuit_opens > 0),
            _count_text(metrics.fallbacks_used, "fallback", "fallbacks") * (metrics.fallbacks_used > 0),
        ]
        average = metrics.avg_recovery_time
        parts.append("" if average is None else f"recovered in {average:.1f} s on average")
        said = ", ".join(filter(None, parts))
        alarms = [f"alarm: {each.shown}" for each in self.readings if each.level == "critical"]
        alarms += [text if count == 1 else f"{text}, {_times_text(count)}" for text, count in self._broken.items()]
        found = [f"resilience: {said}"] if said else []
        if self.models:  # `models: 41 calls, 182k in (71 % cached), 4.1k out, $0.62, 2 unpriced; circuits: 1 opened`
            opened = f"; circuits: {self._circuits} opened" if self._circuits else ""
            found.append(f"models: {sum(self.models.values(), ModelFigures()).describe()}{opened}")
        if self.tools or self._servers:  # `tools: 12 calls, 1 failed; servers: mail offline`
            unwell = [f"{name} {state}" for name, state in self.tool_servers.items() if state in UNWELL]
            servers = f"; servers: {', '.join(unwell)}" if unwell else ""
            found.append(f"tools: {of_all_tools(self.tools).describe()}{servers}")
        return [*found, *alarms]


def _is_opened_provider(event: ResilienceEvent) -> bool:
    return isinstance(event, CircuitChanged) and event.after == "open" and event.circuit.startswith(_OF_PROVIDERS)


def _task_metrics(done: TaskDone) -> ResilienceMetrics:
    """The counts of one task. A task that was left out counts only with its attempts: no report shows more of it."""
    if done.final_state == "skipped":
        return ResilienceMetrics(total_attempts=done.attempts)
    return ResilienceMetrics(
        total_attempts=done.attempts,
        successful_retries=done.successful_retries,
        failed_retries=done.retries - done.successful_retries,
        fallbacks_used=done.fallbacks,
        recoveries=done.recovered,
        recovery_seconds=done.recovery_seconds,
    )


def _reading_document(reading: Reading) -> dict[str, Any]:
    document = asdict(reading)
    del document["metric"]
    return {**document, "value": round(reading.value, 4)}


def _count_text(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _times_text(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


class ResilienceMetrics(Struct, frozen=True):
    """Counts; those of several processes can be added. A retry counts when its outcome is known."""

    total_attempts: int = 0
    successful_retries: int = 0
    failed_retries: int = 0
    circuit_opens: int = 0
    """Circuits that opened, also again after a failed probe."""
    fallbacks_used: int = 0
    recoveries: int = 0
    """Calls that succeeded after they had failed, by a retry or a fallback."""
    recovery_seconds: float = 0.0
    """The sum of all recoveries' durations, from the first failure to success."""

    @property
    def avg_recovery_time(self) -> float | None:
        """Seconds; None if there was no recovery."""
        return self.recovery_seconds / self.recoveries if self.recoveries else None

    @property
    def retries(self) -> int:
        return self.successful_retries + self.failed_retries

    def __add__(self, other: ResilienceMetrics) -> ResilienceMetrics:
        return ResilienceMetrics(*(mine + its for mine, its in zip(astuple(self), astuple(other), strict=True)))

    def as_json(self) -> dict[str, int | float | None]:
        """The counts as in metrics.json; `avgRecoveryTime` in seconds, null if there was no recovery."""
        average = self.avg_recovery_time
        return {
            "totalAttempts": self.total_attempts,
            "successfulRetries": self.successful_retries,
            "failedRetries": self.failed_retries,
            "circuitOpens": self.circuit_opens,
            "fallbacksUsed": self.fallbacks_used,
            "avgRecoveryTime": None if average is None else round(average, 3),
        }


class Meter:
    """Counts the events of calls. Counts from elsewhere, such as those of a run's tasks, are added."""

    def __init__(self) -> None:
        self._added = ResilienceMetrics()
        self._counted: Counter[str] = Counter()
        self._seconds = 0.0
        self._open: Counter[tuple[str, str]] = Counter()
        """Retries of a call whose end is not known yet."""

    @property
    def metrics(self) -> ResilienceMetrics:
        return self._added + ResilienceMetrics(**self._counted, recovery_seconds=self._seconds)

    def add(self, metrics: ResilienceMetrics) -> None:
        """Add counts from elsewhere, with the attempts of calls that succeeded at once and so emitted no event."""
        self._added += metrics

    def count(self, event: ResilienceEvent, scope: str = "") -> None:
        """Count an event. `scope` distinguishes calls of one name: it is the task that makes the call."""
        match event:
            case Retrying(name=name):
                self._open[scope, name] += 1
            case Recovered(name=name, seconds=seconds):
                self._settle((scope, name), worked=True)
                self._counted["recoveries"] += 1
                self._seconds += seconds
            case GaveUp(name=name):
                self._settle((scope, name), worked=False)
            case FellBack(name=name):
                self._settle((scope, name), worked=False)
                self._counted["fallbacks_used"] += 1
            case CircuitChanged(after="open"):
                self._counted["circuit_opens"] += 1
        if isinstance(event, Retrying | Recovered | GaveUp):
            self._counted["total_attempts"] += 1

    def _settle(self, call: tuple[str, str], *, worked: bool) -> None:
        """Count the outcomes of a call's retries: the last one may have worked; those before it failed."""
        retries = self._open.pop(call, 0)
        self._counted["successful_retries"] += worked and retries > 0
        self._counted["failed_retries"] += retries - (worked and retries > 0)
