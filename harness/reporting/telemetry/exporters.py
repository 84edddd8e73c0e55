"""`.harness/metrics.prom`: the metrics of a run in the text format of Prometheus.

It is imported only with `telemetry.prometheus = true`: prometheus_client is an extra. Its global registry is not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec.structs import asdict
from opentelemetry import trace
from opentelemetry.trace import ProxyTracerProvider, Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from harness.model.consumption import is_unpriced
from harness.model.events import AttemptEnded, Event, ModelAnswered, TaskEnded, TaskStarted, ToolAnswered
from harness.model.inference import ModelCall
from harness.model.tool_use import call_code
from harness.model.tools import PAGE, ToolCall, ToolState
from harness.recovery.failure import Failure
from harness.reporting.telemetry.metrics import MetricsSink
from harness.reporting.telemetry.record import ModelReply, ModelRequest, Progress, Record, ToolReply, ToolRequested
from harness.reporting.telemetry.stream import Sink

_LEVELS = {"ok": 0, "warning": 1, "critical": 2}


def exposition(sink: MetricsSink, final_states: Mapping[str, int]) -> str:
    """The text of the file. `final_states`: final state -> number of tasks."""
    registry, metrics = CollectorRegistry(), sink.metrics
    counts = {
        "attempts": ("Attempts at steps and calls.", metrics.total_attempts),
        "circuit_opens": ("Changes of a circuit to open.", metrics.circuit_opens),
        "fallbacks": ("Fallbacks used.", metrics.fallbacks_used),
        "recoveries": ("Calls that succeeded after they had failed.", metrics.recoveries),
        "recovery_seconds": ("From first failure to success, of all recoveries.", metrics.recovery_seconds),
    }
    for name, (text, count) in counts.items():
        Counter(f"taskspec_{name}", text, registry=registry).inc(count)
    retries = Counter("taskspec_retries", "Retries by outcome.", ["outcome"], registry=registry)
    retries.labels("worked").inc(metrics.successful_retries)
    retries.labels("failed").inc(metrics.failed_retries)
    _models(sink, registry)
    _tools(sink, registry)
    tasks = Counter("taskspec_tasks", "Tasks by final state.", ["final_state"], registry=registry)
    for state, count in final_states.items():
        tasks.labels(state).inc(count)
    _thresholds(sink, registry)
    return generate_latest(registry).decode()


def _models(sink: MetricsSink, registry: CollectorRegistry) -> None:
    """Add what models have used, if one was asked."""
    if not sink.models:
        return
    calls = Counter("taskspec_model_calls", "Requests to models.", ["model", "outcome"], registry=registry)
    tokens = Counter("taskspec_model_tokens", "Tokens of models.", ["model", "kind"], registry=registry)
    cost = Counter("taskspec_model_cost_usd", "US dollars, of calls with a known price.", ["model"], registry=registry)
    unpriced = Counter("taskspec_model_unpriced_calls", "Calls without a known price.", ["model"], registry=registry)
    seconds = Counter("taskspec_model_seconds", "Seconds of requests to models.", ["model"], registry=registry)
    for name, used in sink.models.items():
        calls.labels(name, "answered").inc(used.calls - used.failed_calls)
        calls.labels(name, "failed").inc(used.failed_calls)
        tokens.labels(name, "input").inc(used.input_tokens)
        tokens.labels(name, "cached").inc(used.cached_tokens)
        tokens.labels(name, "output").inc(used.output_tokens)
        cost.labels(name).inc(used.cost_usd)
        unpriced.labels(name).inc(used.unpriced_calls)
        seconds.labels(name).inc(used.seconds)


def _tools(sink: MetricsSink, registry: CollectorRegistry) -> None:
    """Add what calls of tools have done and the states of their servers, if there are any."""
    if sink.tools:
        names = ["server", "tool"]
        calls = Counter("taskspec_tool_calls", "Calls of tools.", [*names, "outcome"], registry=registry)
        repeated = Counter("taskspec_tool_repeats", "Tries of calls after the first.", names, registry=registry)
        seconds = Counter("taskspec_tool_call_seconds", "Seconds of calls of tools.", names, registry=registry)
        for server, tools in sink.tools.items():
            for tool, used in tools.items():
                for outcome, count in used.by_outcome().items():
                    calls.labels(server, tool, outcome).inc(count)
                repeated.labels(server, tool).inc(used.repeated)
                seconds.labels(server, tool).inc(used.seconds)
    if sink.tool_servers:
        states = Gauge("taskspec_tool_server_state", "1 for its last state.", ["server", "state"], registry=registry)
        for server, state in sink.tool_servers.items():
            for each in ToolState:
                states.labels(server, each.value).set(each.value == state)


def _thresholds(sink: MetricsSink, registry: CollectorRegistry) -> None:
    """Add the most alarming reading of each metric in the run."""
    values = Gauge("taskspec_threshold_value", "Highest share or rate per minute.", ["metric"], registry=registry)
    levels = Gauge("taskspec_threshold_level", "0 ok, 1 warning, 2 critical.", ["metric"], registry=registry)
    for reading in sink.readings:
        values.labels(reading.metric).set(reading.value)
        levels.labels(reading.metric).set(_LEVELS[reading.level])


# OpenTelemetry: a task is a span, its attempts at steps are child spans, resilience events are events of them.

_PREFIX = "taskspec."
_PLAIN = str | bool | int | float
_Attributes = dict[str, AttributeValue]


def no_provider() -> bool:
    """Return whether no tracer provider is configured, so that spans have no destination."""
    return isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


class Spans(Sink):
    """Makes spans of the engine's events; records become events of these spans."""

    name = "OpenTelemetry"

    def __init__(self, run: str, tracer: Tracer | None = None) -> None:
        self._run = run
        self._tracer = tracer or trace.get_tracer("harness")
        self._open: dict[str, tuple[str, Span]] = {}
        """Key of a running task -> its id and span."""

    def on_event(self, event: Event) -> None:
        match event:
            case TaskStarted(plan=plan):
                self._open[plan.key] = plan.task_id, self._begin(event)
            case AttemptEnded(plan=plan) if plan.key in self._open:
                self._add_attempt(self._open[plan.key][1], event)
            case ModelAnswered(plan=plan, call=call) if plan.key in self._open:
                self._add_call(self._open[plan.key][1], call)
            case ToolAnswered(plan=plan, call=called) if plan.key in self._open:
                self._add_tool(self._open[plan.key][1], called)
            case TaskEnded(plan=plan) if plan.key in self._open:
                self._end(self._open.pop(plan.key)[1], event)

    def on_record(self, record: Record) -> None:
        """Add the record to the span of its task; a record without a task is added to the spans of all running
        tasks.
        """
        if isinstance(record.event, ModelRequest | ModelReply | ToolRequested | ToolReply | Progress):
            return  # they are spans
        for task_id, span in self._open.values():
            if record.task_id in ("", task_id):
                told = {name: value for name, value in asdict(record.event).items() if value not in (None, {})}
                values = {name: value if isinstance(value, _PLAIN) else str(value) for name, value in told.items()}
                span.add_event(record.event.type, values, _nanoseconds(record.at))

    def _begin(self, event: TaskStarted) -> Span:
        plan = event.plan
        values = {"task_id": plan.task_id, "run": self._run, "source": plan.source, "agent": plan.agent or ""}
        attributes = {_PREFIX + name: value for name, value in values.items() if value}
        return self._start(plan.task_id, attributes, event.at)

    def _start(
        self, name: str, attributes: Mapping[str, AttributeValue], began: datetime, parent: Span | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:  # fmt: skip
        """A span without secrets."""
        clean = {key: self.clean(value) if isinstance(value, str) else value for key, value in attributes.items()}
        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(
            self.clean(name), context, kind=kind, attributes=clean, start_time=_nanoseconds(began)
        )

    def _close(self, span: Span, at: datetime, error: str | None) -> None:
        """End a span. `error`: why what it is about has failed; None: it has not."""
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, self.clean(error)))
        span.end(_nanoseconds(at))

    def _end(self, span: Span, event: TaskEnded) -> None:
        result, failure = event.result, event.result.failure
        span.set_attribute(_PREFIX + "final_state", "skipped" if result.skipped else result.final_state)
        if failure is not None:
            span.set_attribute(_PREFIX + "code", failure.code)
        self._close(span, event.at, failure.message if failure else None)

    def _add_attempt(self, parent: Span, event: AttemptEnded) -> None:
        attempt, outcome = event.attempt, event.attempt.outcome
        attributes: _Attributes = {_PREFIX + "step": event.index, _PREFIX + "act": attempt.step.act}
        error = None
        if isinstance(outcome, Failure):
            attributes[_PREFIX + "code"], error = outcome.code, outcome.message
        name = attempt.step.describe()
        self._add(parent, name, attempt.started, attempt.seconds, attributes, error, SpanKind.INTERNAL)

    def _add_call(self, parent: Span, call: ModelCall) -> None:
        """Add the span of a request to a model, by OpenTelemetry's conventions for generative AI."""
        attributes, error = _call_attributes(call), None
        if call.outcome != "answered":
            attributes["error.type"] = error = call.code or call.outcome
        self._add(parent, f"chat {call.identifier}", call.at, call.seconds, attributes, error)

    def _add_tool(self, parent: Span, call: ToolCall) -> None:
        """Add the span of a call of a tool, by OpenTelemetry's conventions for generative AI and MCP."""
        attributes, error = _tool_attributes(call), None
        if call.outcome != "answered":
            attributes["error.type"] = "tool_error" if call.outcome == "error" else call.code or call.outcome
            error = call.message or call_code(call) or call.outcome
        name = f"execute_tool {call.tool}" if call.server == PAGE else f"tools/call {call.tool}"
        self._add(parent, name, call.at, call.seconds, attributes, error)

    def _add(
        self, parent: Span, name: str, at: datetime, seconds: float, attributes: _Attributes, error: str | None,
        kind: SpanKind = SpanKind.CLIENT,
    ) -> None:  # fmt: skip
        """Add the span of something that is over. `error`: what has failed; None: nothing."""
        self._close(self._start(name, attributes, at, parent, kind), at + timedelta(seconds=seconds), error)


def _tool_attributes(call: ToolCall) -> _Attributes:
    """Arguments and result are not among them: they stand in the trace, redacted and bounded."""
    found: _Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.tool,
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.type": "extension",
        _PREFIX + "server": call.server,
        _PREFIX + "effect": call.effect,
        _PREFIX + "tries": call.tries,
        _PREFIX + "outcome": call.outcome,
    }
    step = {} if call.step is None else {_PREFIX + "step": call.step}
    return found | step | ({} if call.server == PAGE else {"mcp.method.name": "tools/call"})


def _call_attributes(call: ModelCall) -> _Attributes:
    attributes: _Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.identifier,
        "gen_ai.agent.name": call.agent,
        "gen_ai.usage.input_tokens": call.usage.input,
        "gen_ai.usage.output_tokens": call.usage.output,
        "gen_ai.usage.cache_read.input_tokens": call.usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": call.usage.cache_write,
        _PREFIX + "model": call.model,
        _PREFIX + "step": call.step,
        _PREFIX + "attempt": call.attempt,
        _PREFIX + "replayed": call.replayed,
    }
    return attributes if is_unpriced(call) else {**attributes, _PREFIX + "cost_usd": call.cost or 0.0}


def _nanoseconds(moment: datetime) -> int:
    """Nanoseconds since 1970; a datetime has whole microseconds."""
    return round(moment.timestamp() * 1_000_000) * 1000
