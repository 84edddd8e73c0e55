"""The result of one task as a small document; error rates of a run; partial_trace.json and last-run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.agent_events import shown
from harness.model.consumption import ModelCallLine, ModelFigures, by_model, call_lines
from harness.model.diagnosis import note, suspect, trace
from harness.model.figures import Verdict, figures, model_calls, success_rates, tool_calls, verdict
from harness.model.plan import Plan
from harness.model.ports import Json
from harness.model.record import Attempt, History, MetFault, StepRecord, TaskResult
from harness.model.tool_evidence import bounded_call
from harness.model.tool_use import ToolFigures, by_tool, of_all_tools
from harness.recovery.catalog import FAMILIES, Family
from harness.recovery.failure import Failure
from harness.recovery.vocabulary import Suspect
from harness.reporting.files import read_json, write_json
from harness.reporting.redaction import Redactor, masked_step
from harness.reporting.telling import also_unmet, reason, story_of, worked_on, written_baselines
from harness.reporting.words import shortened, site_of
from harness.spec.task import FinalState, TaskSpec
from harness.task_secrets import masking

# Error rates of a run.


def error_metrics(records: Sequence[TaskRecord], earlier: Sequence[TaskRecord] = ()) -> dict[str, Any]:
    """The numbers of failed tasks by kind, and how often each rule overcame its kind of failure (0 to 1).

    `records`: the last execution of each task; `earlier`: those before it (`--reruns`), whose recoveries count too.
    """
    counts = Counter(record.verdict for record in records)
    breakdown = Counter(_kind(record) for record in records if record.verdict == "failed")
    pairs = (pair for record in (*earlier, *records) for pair in record.recoveries)
    return {
        "total_tasks": len(records),
        "successful": counts["passed"] + counts["passed as declared"],
        "failed": counts["failed"],
        "not_judged": counts["not judged"],
        "passed_as_declared": counts["passed as declared"],
        "error_breakdown": dict(sorted(breakdown.items())),
        "recovery_success_rate": {
            rule_name(family): round(worked / tried, 4) for family, tried, worked in success_rates(pairs)
        },
    }


def _kind(record: TaskRecord) -> str:
    """The kind of a failure: all network failures are one kind; a task that reached its end has none."""
    if record.torn and record.error_type is None:
        return "fixture_teardown"
    if record.ok:
        return "unexpected_outcome"
    return "network_error" if record.family is Family.NETWORK else record.error_type or "unknown"


def rule_name(family: Family) -> str:
    """The name of a rule in metrics.json."""
    return FAMILIES[family].recovery_name


# The steps of a task and their attempts, short enough for a record of the run.

_TARGET, _MESSAGE = 120, 400
"""The number of characters that are kept of each."""


class AttemptLine(BaseModel):
    """One try of a step."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    t: float = Field(description="Seconds since the start of the task.")
    seconds: float
    passed: bool
    code: str | None = None
    note: str = Field("", description="What led to it and what came of it: `RETRY (after 2s): SUCCESS`.")


class StepLine(BaseModel):
    """One step that was tried; done again after a way back, it has a line for each time."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    index: int = Field(description="-1: before the first step; the number of steps: success criteria.")
    act: str
    target: str = ""
    seconds: float = Field(0, description="Of all attempts, without the waits between them.")
    passed: bool = True
    skipped: bool = Field(False, description="It failed, and the task went on without it.")
    went_back_to: int | None = Field(None, description="It failed, and the task went back to before this step.")
    attempts: tuple[AttemptLine, ...] = ()


def step_lines(history: History, redactor: Redactor) -> Iterator[StepLine]:
    """A line for each record, in order; texts are redacted."""
    return (_line(record, redactor) for record in history)


def _line(record: StepRecord, redactor: Redactor) -> StepLine:
    return StepLine(
        index=record.index,
        act=record.step.act,
        target=redactor.text(shortened(worked_on(record), _TARGET)),
        seconds=round(sum(attempt.seconds for attempt in record.attempts), 3),
        passed=record.passed,
        skipped=record.skipped,
        went_back_to=record.rewound.checkpoint if record.rewound else None,
        attempts=tuple(_attempt(attempt, record, redactor) for attempt in record.attempts),
    )


def _attempt(attempt: Attempt, record: StepRecord, redactor: Redactor) -> AttemptLine:
    """The line of an attempt; a step that passed at once needs no note."""
    told = record.extra_attempts or not attempt.passed
    return AttemptLine(
        t=round(attempt.t, 3),
        seconds=round(attempt.seconds, 3),
        passed=attempt.passed,
        code=attempt.outcome.code if isinstance(attempt.outcome, Failure) else None,
        note=redactor.text(shortened(note(attempt, record.step), _MESSAGE)) if told else "",
    )


# Writes the trace of a run as partial_trace.json.


def redacted_trace(result: TaskResult, redactor: Redactor) -> Json:
    """The Trace document without secrets."""
    document = trace(result)
    redacted: dict[str, Any] = redactor.json({**document, "steps": [masked_step(step) for step in document["steps"]]})
    for step in redacted["steps"]:
        if "tool_calls" in step:
            step["tool_calls"] = [bounded_call(call) for call in step["tool_calls"]]
    if "agent_events" in redacted:
        redacted["agent_events"] = shown(redacted["agent_events"])
    return redacted


def write_trace(result: TaskResult, path: Path, redactor: Redactor) -> None:
    write_json(path, redacted_trace(result, redactor))


FaultState = Literal["struck", "never struck", "could not be done"]


class TaskRecord(BaseModel):
    """One task of a run, small enough to keep and to send from an xdist worker to its controller."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    task_id: str
    key: str
    final_state: FinalState
    source: str = ""
    steps_source: str = Field("", description="The file that its steps stand in.")
    error_type: str | None = None
    code: str | None = None
    family: Family | None = None
    step_index: int | None = None
    message: str = ""
    summary: str = Field("", description="Of a failure its code, place, and the criterion or step, in a line.")
    reason: str | None = Field(
        None, description="Of the message what the summary and a comparison of values do not say; None: not known."
    )
    expected: bool = Field(False, description="It failed, and `expect` declares that.")
    unexpected: bool = Field(False, description="It has an `expect`, and did not show that outcome.")
    refused: bool = Field(
        False, description="It ended as a partial success, or another agent ended it, under `--taskspec-strict`."
    )
    torn: bool = Field(False, description="A fixture failed after the task, which makes it a failed one.")
    seconds: float = 0
    steps_completed: int = 0
    steps_total: int = 0
    retries: int = Field(0, description="What this and the next three count: `harness.model.figures`.")
    successful_retries: int = 0
    fallbacks: int = 0
    recovered: int = 0
    score: float | None = Field(None, description="0 to 1, of a task that declares scoring checkpoints or rubrics.")
    warnings: tuple[dict[str, JsonValue], ...] = ()
    declared: tuple[str, ...] = Field((), description="Types of warnings that its `expect` declares.")
    recoveries: tuple[tuple[Family, bool], ...] = Field(
        (), description="For each step and rule that did something there: whether its kind of failure was overcome."
    )
    faults: dict[str, FaultState] = Field({}, description="Name of each fault -> what became of it.")
    artifacts: str | None = None
    hint: str = Field("", description="What to do about the failure.")
    suspect: str = Field("", description="Where to look first after the failure: `Suspect`.")
    started: datetime | None = None
    goal: str = ""
    feature: str = Field("", description="The task's `family`.")
    episode: str = ""
    priority: int | None = None
    tags: tuple[str, ...] = ()
    steps: tuple[StepLine, ...] = ()
    baselines: tuple[str, ...] = Field((), description="Files that `--task-update-baselines` has changed or made.")
    selector: str = Field("", description="Of the failure, when it is one of an element.")
    site: str = Field("", description="Host (and port, where it says one) of the page or request that failed.")
    service: str = Field("", description="The service behind the failure, when that is known.")
    crashes: dict[str, str] = Field({}, description="Service that crashed shortly before the failure -> when.")
    agent: str = Field("", description="The agent that chose its last steps; empty when its file did.")
    takeovers: int = Field(0, description="How often another agent went on in place of one that failed.")
    models: dict[str, ModelFigures] = Field({}, description="Name of each model that was asked -> what that has used.")
    calls: tuple[ModelCallLine, ...] = Field((), description="The first requests to models.")
    tools: dict[str, dict[str, ToolFigures]] = Field(
        {}, description="Name of a tool server -> name of a tool -> what its calls have done."
    )

    @property
    def used(self) -> ModelFigures:
        """What all its calls of models have used."""
        return sum(self.models.values(), ModelFigures())

    @property
    def called(self) -> ToolFigures:
        """What all its calls of tools have done."""
        return of_all_tools(self.tools)

    @property
    def ok(self) -> bool:
        """Whether it reached its end; the `verdict` says whether its file wants that."""
        return self.final_state in ("completed", "partial_success")

    @property
    def verdict(self) -> Verdict:
        """The verdict on the task."""
        if self.torn:
            return "failed"
        state, code = self.final_state, self.code
        return verdict(state, code, expected=self.expected, unexpected=self.unexpected, refused=self.refused)


def task_record(
    plan: Plan, result: TaskResult, redactor: Redactor | None = None, *, unexpected: bool = False
) -> TaskRecord:
    """The record of a result; its texts are redacted. `unexpected`: it did not show what its `expect` declares."""
    redactor = (redactor or Redactor()).plus(plan.all_secrets)
    with masking(redactor.text):
        return _task_record(plan, result, redactor, unexpected=unexpected)


def _task_record(plan: Plan, result: TaskResult, redactor: Redactor, *, unexpected: bool) -> TaskRecord:
    failure, counted = result.failure, figures(result)
    return TaskRecord(
        task_id=result.task_id,
        key=result.key,
        final_state=result.final_state,
        source=plan.source,
        steps_source=plan.steps_source,
        step_index=result.failed_index,
        expected=bool(result.error and result.error.expected),
        unexpected=unexpected,
        refused=plan.strict and plan.spec.expect is None and result.makeshift,
        seconds=round(result.elapsed, 3),
        steps_completed=result.steps_completed,
        steps_total=result.steps_total,
        retries=counted.retries,
        successful_retries=counted.successful_retries,
        fallbacks=counted.fallbacks,
        recovered=counted.recovered,
        score=None if result.score is None else result.score.total,
        warnings=tuple(redactor.json(warning.as_json()) for warning in result.warnings),
        declared=plan.spec.expect.warnings if plan.spec.expect else (),
        recoveries=counted.by_rule,
        faults=dict(sorted(map(_fault, result.faults), key=lambda pair: pair[1] == "struck")),
        artifacts=str(result.artifacts) if result.artifacts else None,
        hint=redactor.text(result.error.hint) if result.error else "",
        suspect=str(suspect(plan, result) or ""),
        started=result.started,
        steps=tuple(step_lines(result.history, redactor)),
        baselines=tuple(map(redactor.text, written_baselines(plan, result))),
        summary=story_of(plan, result, redactor).cause if failure else "",
        tools=by_tool(tool_calls(result)),
        **_of_agents(plan, result),
        **_of_file(plan.spec, redactor),
        **(_of_failure(failure, redactor) if failure else {}),
    )


def torn_down(record: TaskRecord, held: Path | None, *, keeps_passed: bool) -> TaskRecord:
    """The record of a task after which a fixture failed: a failure of the project's, which says what evidence there is.

    `held`: the directory of what was held of the task. `keeps_passed`: the evidence of tasks that pass is kept
    (`evidence = "all"`).
    """
    if not record.ok:
        return record.model_copy(update={"torn": True})
    kept = "its page was closed, and no screenshot and no trace were kept"
    if held is not None:
        kept = "the directory of the task has its screenshot, trace and state"
    elif keeps_passed:
        kept = "its last page and its state are in .harness/evidence: `harness regrade` reads them"
    hint = f"A fixture failed after the task, which itself had passed; {kept}."
    artifacts = str(held) if held else record.artifacts
    update = {"torn": True, "suspect": str(Suspect.PROJECT), "hint": hint, "artifacts": artifacts}
    return record.model_copy(update=update)


def _of_agents(plan: Plan, result: TaskResult) -> dict[str, Any]:
    calls = model_calls(result)
    return {
        "agent": result.ended_by(plan.agent),
        "takeovers": len(result.takeovers),
        "models": by_model(calls),
        "calls": call_lines(calls, result.started),
    }


def _of_file(spec: TaskSpec, redactor: Redactor) -> dict[str, Any]:
    return {
        "goal": redactor.text(spec.goal),
        "feature": spec.family or "",
        "episode": spec.episode_id or "",
        "priority": spec.priority,
        "tags": spec.tags,
    }


def _of_failure(failure: Failure, redactor: Redactor) -> dict[str, Any]:
    return {
        "error_type": str(failure.type),
        "code": failure.code,
        "family": failure.family,
        "message": redactor.text(failure.message),
        "reason": redactor.text(
            "; ".join(filter(None, (reason(failure), *(f"also unmet: {each}" for each in also_unmet(failure)))))
        ),
        "selector": redactor.text(failure.selector or ""),
        "site": redactor.text(site_of(failure.details.get("url"))),
        "service": str(failure.details.get("service", "")),
        "crashes": failure.details.get("service_crashes", {}),
    }


def _fault(met: MetFault) -> tuple[str, FaultState]:
    """Name and result of a fault. Several of one name are one fault in several places, and one strike is enough."""
    if met.count:
        return met.name, "struck"
    return met.name, "could not be done" if met.problem else "never struck"


# `.harness/last-run.json`: the outcome of each task of the last run, for `harness report` and dashboards.

LAST_RUN = Path(".harness/last-run.json")


class LastRun(BaseModel):
    """The document of last-run.json."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    run: str
    finished: datetime
    error_metrics: dict[str, Any]
    results: tuple[TaskRecord, ...]


def write_last_run(path: Path, run: str, records: Sequence[TaskRecord], finished: datetime | None = None) -> LastRun:
    """Write the file as a whole. `finished` defaults to now."""
    document = LastRun(
        run=run, finished=finished or datetime.now(UTC), error_metrics=error_metrics(records), results=tuple(records)
    )
    write_json(path, document.model_dump(mode="json"))
    return document


def load_last_run(path: Path = LAST_RUN) -> LastRun | None:
    """Load last-run.json; None if there was no run yet; raises ValueError for a file that this version cannot read."""
    try:
        return LastRun.model_validate(read_json(path))
    except FileNotFoundError:
        return None
