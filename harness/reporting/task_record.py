"""What became of one task, as a small document."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.failure import Failure, Family
from harness.plan import Plan
from harness.record import MetFault, StepRecord, TaskResult
from harness.reporting.redaction import Redactor
from harness.reporting.step_lines import StepLine, step_lines
from harness.spec.parts import FinalState

FaultState = Literal["struck", "never struck", "could not be done"]


class TaskRecord(BaseModel):
    """One task of a run, small enough to keep and to send from an xdist worker to its controller."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    key: str
    final_state: FinalState
    source: str = ""
    error_type: str | None = None
    code: str | None = None
    family: Family | None = None
    step_index: int | None = None
    message: str = ""
    expected: bool = Field(False, description="It failed, and `expect` declares that.")
    unexpected: bool = Field(False, description="It has an `expect`, and did not show that outcome.")
    seconds: float = 0
    steps_completed: int = 0
    steps_total: int = 0
    retries: int = 0
    score: float | None = Field(None, description="0 to 1, of a task that declares scoring checkpoints or rubrics.")
    warnings: tuple[dict[str, JsonValue], ...] = ()
    declared: tuple[str, ...] = Field((), description="Types of warnings that its `expect` declares.")
    recoveries: tuple[tuple[Family, bool], ...] = Field(
        (), description="Each step that went on after a failure: of which family, and whether that was got over."
    )
    faults: dict[str, FaultState] = Field({}, description="Name of each fault -> what became of it.")
    artifacts: str | None = None
    hint: str = Field("", description="What to do about the failure.")
    started: datetime | None = None
    goal: str = ""
    feature: str = Field("", description="The task's `family`.")
    episode: str = ""
    priority: int | None = None
    tags: tuple[str, ...] = ()
    steps: tuple[StepLine, ...] = ()
    selector: str = Field("", description="Of the failure, when it is one of an element.")
    site: str = Field("", description="Host (and port, where it says one) of the page or request that failed.")
    service: str = Field("", description="The service behind the failure, when that is known.")

    @property
    def ok(self) -> bool:
        return self.final_state in ("completed", "partial_success")


def task_record(
    plan: Plan, result: TaskResult, redactor: Redactor | None = None, *, unexpected: bool = False
) -> TaskRecord:
    """The record of a result; its texts are redacted. `unexpected`: it did not show what its `expect` declares."""
    redactor = (redactor or Redactor()).plus(plan.secrets)
    failure = result.failure
    return TaskRecord(
        task_id=result.task_id,
        key=result.key,
        final_state=result.final_state,
        source=plan.source,
        error_type=str(failure.type) if failure else None,
        code=failure.code if failure else None,
        family=failure.family if failure else None,
        step_index=result.failed_index,
        message=redactor.text(failure.message) if failure else "",
        expected=bool(result.error and result.error.expected),
        unexpected=unexpected,
        seconds=round(result.elapsed, 3),
        steps_completed=result.steps_completed,
        steps_total=result.steps_total,
        retries=result.retries,
        score=None if result.score is None else result.score.total,
        warnings=tuple(redactor.json(warning.as_json()) for warning in result.warnings),
        declared=plan.spec.expect.warnings if plan.spec.expect else (),
        recoveries=tuple(pair for record in result.history for pair in _recoveries(record)),
        faults=dict(sorted(map(_fault, result.faults), key=lambda pair: pair[1] == "struck")),
        artifacts=str(result.artifacts) if result.artifacts else None,
        hint=redactor.text(result.error.hint) if result.error else "",
        started=result.started,
        goal=redactor.text(plan.spec.goal),
        feature=plan.spec.family or "",
        episode=plan.spec.episode_id or "",
        priority=plan.spec.priority,
        tags=plan.spec.tags,
        steps=tuple(step_lines(result.history, redactor)),
        selector=redactor.text(failure.selector or "") if failure else "",
        site=redactor.text(site_of(failure.details.get("url"))) if failure else "",
        service=str(failure.details.get("service", "")) if failure else "",
    )


def site_of(url: object) -> str:
    """`shop.local` of `http://shop.local/cart`; empty for what is no address of a site."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:
        return ""
    return parts.netloc.rpartition("@")[2] if parts.scheme in ("http", "https", "ws", "wss") else ""


def _fault(met: MetFault) -> tuple[str, FaultState]:
    """Of several of one name, which are one fault done in several places, it is enough that one struck."""
    if met.count:
        return met.name, "struck"
    return met.name, "could not be done" if met.problem else "never struck"


def _recoveries(record: StepRecord) -> Iterable[tuple[Family, bool]]:
    """A family was got over when the step passed, or in the end failed of something else."""
    tried = (a.outcome.family for a in record.attempts[:-1] if isinstance(a.outcome, Failure))
    last = None if record.passed else record.failure
    return [(family, last is None or last.family is not family) for family in dict.fromkeys(tried)]
