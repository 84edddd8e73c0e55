"""The result of one task as a small document; error rates of a run; last-run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.consumption import ModelCallLine, ModelFigures
from harness.model.figures import Verdict, success_rates, verdict
from harness.model.report import FaultReport
from harness.model.tool_use import ToolFigures, of_all_tools
from harness.recovery.catalog import FAMILIES, Family
from harness.recovery.families import Suspect
from harness.reporting.files import json_text, read_json, write_text
from harness.reporting.story import StoryAttempt, StoryFailure, StoryStep, TaskStory
from harness.reporting.words import shortened, site_of
from harness.spec.task import FinalState

# Error rates of a run.


def error_metrics(records: Iterable[TaskRecord], earlier: Iterable[TaskRecord] = ()) -> dict[str, Any]:
    """The numbers of failed tasks by kind, and how often each rule overcame its kind of failure (0 to 1).

    `records`: the last execution of each task; `earlier`: those before it (`--reruns`), whose recoveries count too.
    """
    counts, breakdown = Counter[Verdict](), Counter[str]()
    pairs = [pair for record in earlier for pair in record.recoveries]
    for record in records:
        counts[record.verdict] += 1
        pairs += record.recoveries
        if record.verdict == "failed":
            breakdown[_kind(record)] += 1
    return {
        "total_tasks": counts.total(),
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
_UNMATCHED = 50
"""The number of selectors that matched nothing that are kept of one task."""
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
    place: str = Field("", description="The same for people, as `pre`, `3`, `5.2` (of a group) or `end`.")
    act: str
    target: str = ""
    seconds: float = Field(0, description="Of all attempts, without the waits between them.")
    passed: bool = True
    skipped: bool = Field(False, description="It failed, and the task went on without it.")
    left_out: str = Field("", description="Why it was not due: its `when` did not hold.")
    went_back_to: int | None = Field(None, description="It failed, and the task went back to before this step.")
    attempts: tuple[AttemptLine, ...] = ()


def _line(step: StoryStep) -> StepLine:
    return StepLine(
        index=step.index,
        place=step.place,
        act=step.act,
        target=shortened(step.worked_on, _TARGET),
        seconds=round(step.seconds or 0, 3),
        passed=step.passed,
        skipped=step.skipped,
        left_out=shortened(step.left_out, _MESSAGE),
        went_back_to=step.went_back_to,
        attempts=tuple(_attempt(attempt, step) for attempt in step.attempts),
    )


def _attempt(attempt: StoryAttempt, step: StoryStep) -> AttemptLine:
    """The line of an attempt; a step that passed at once needs no note."""
    told = step.extra_attempts or not attempt.passed
    return AttemptLine(
        t=round(attempt.t, 3),
        seconds=round(attempt.seconds or 0, 3),
        passed=attempt.passed,
        code=attempt.code or None,
        note=shortened(attempt.note, _MESSAGE) if told else "",
    )


FaultState = Literal["struck", "never struck", "could not be done"]


class TaskRecord(BaseModel):
    """One task of a run, small enough to keep and to send from an xdist worker to its controller."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    task_id: str
    key: str
    final_state: FinalState
    source: str = ""
    location: str = Field("", description="The file; of a failed step that is written in another one, its line.")
    steps_source: str = Field("", description="The file that its steps stand in.")
    error_type: str | None = None
    code: str | None = None
    family: Family | None = None
    step_index: int | None = None
    place: str = Field("", description="Where it failed, in words: `at step 5.2 (6 of 0-8)`.")
    message: str = ""
    summary: str = Field("", description="Of a failure its code, place, and the criterion or step, in a line.")
    reason: str | None = Field(
        None, description="Of the message what the summary and a comparison of values do not say; None: not known."
    )
    expected: bool = Field(False, description="It failed, and `expect` declares that.")
    known_defect: str = Field("", description="Its `expected_failure`. If it failed so, it is `expected`.")
    unexpected: bool = Field(
        False, description="It has an `expect`, and did not show that outcome, or an `expected_failure`, and passed."
    )
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
    unmatched: tuple[str, ...] = Field(
        (), description="Selectors of criteria that have matched no element, whenever they were looked at."
    )
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

    def place_of(self, index: object) -> str:
        """The place of a step as people read it: `5.2` for one of a group."""
        return next((line.place for line in self.steps if line.index == index and line.place), str(index))

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


def task_record(story: TaskStory) -> TaskRecord:
    """The record of a task."""
    file, counted = story.file, story.figures
    return TaskRecord(
        task_id=story.task_id,
        key=story.key,
        final_state=story.final_state,
        source=file.source,
        location=file.location,
        steps_source=file.steps_source,
        step_index=story.failed_index,
        expected=story.expected,
        unexpected=story.unexpected,
        refused=story.refused,
        seconds=round(story.seconds, 3),
        steps_completed=story.steps_completed,
        steps_total=story.steps_total,
        retries=counted.retries,
        successful_retries=counted.successful_retries,
        fallbacks=counted.fallbacks,
        recovered=counted.recovered,
        score=None if story.score is None else story.score.total,
        warnings=story.warnings,
        declared=file.declared,
        recoveries=counted.by_rule,
        faults=dict(sorted(map(_fault, story.faults), key=lambda pair: pair[1] == "struck")),
        artifacts=story.artifacts or None,
        started=story.started,
        goal=file.goal,
        feature=file.family,
        episode=file.episode,
        priority=file.priority,
        tags=file.tags,
        steps=tuple(map(_line, story.steps)),
        unmatched=story.unmatched[:_UNMATCHED],
        baselines=story.baselines,
        agent=story.agent,
        takeovers=len(story.takeovers),
        models=story.models,
        calls=story.model_calls,
        tools=story.tools,
        **(_of_failure(story.failure, story.cause) if story.failure else {}),
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


def _of_failure(failure: StoryFailure, cause: str) -> dict[str, Any]:
    return {
        "error_type": failure.type,
        "code": failure.code,
        "family": failure.family,
        "place": failure.place,
        "message": failure.message,
        "summary": cause,
        "reason": "; ".join(filter(None, (failure.reason, *(f"also unmet: {each}" for each in failure.also_unmet)))),
        "hint": failure.hint,
        "suspect": failure.suspect,
        "selector": failure.selector,
        "site": site_of(failure.url),
        "service": failure.service,
        "crashes": failure.crashes,
    }


def _fault(fault: FaultReport) -> tuple[str, FaultState]:
    """Name and result of a fault. Several of one name are one fault in several places, and one strike is enough."""
    if fault.struck:
        return fault.id, "struck"
    return fault.id, "could not be done" if fault.problem else "never struck"


# `.harness/last-run.json`: the outcome of each task of the last run, for `harness report` and dashboards.

LAST_RUN = Path(".harness/last-run.json")


class LastRun(BaseModel):
    """The document of last-run.json."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    run: str
    finished: datetime
    error_metrics: dict[str, Any]
    results: tuple[TaskRecord, ...]


def write_last_run(
    path: Path,
    run: str,
    records: Iterable[TaskRecord],
    finished: datetime | None = None,
    metrics: dict[str, Any] | None = None,
) -> None:
    """Write the file as a whole, one record after the other. `finished` defaults to now.

    `metrics`: of `error_metrics`, where the records can be gone through only once.
    """
    records = [*records] if metrics is None else records
    metrics = error_metrics(records) if metrics is None else metrics
    document = LastRun(run=run, finished=finished or datetime.now(UTC), error_metrics=metrics, results=())
    write_text(path, _with_results(document, records))


def _with_results(document: LastRun, records: Iterable[TaskRecord]) -> Iterator[str]:
    head, _, _ = json_text(document.model_dump(mode="json")).rpartition("[]\n}")
    yield f"{head}["
    number = 0
    for number, each in enumerate(records, 1):
        yield (",\n" if number > 1 else "\n") + indent(json_text(each.model_dump(mode="json")), "    ")
    yield "\n  ]\n}\n" if number else "]\n}\n"


def load_last_run(path: Path = LAST_RUN) -> LastRun | None:
    """Load last-run.json; None if there was no run yet; raises ValueError for a file that this version cannot read."""
    try:
        return LastRun.model_validate(read_json(path))
    except FileNotFoundError:
        return None
