"""What became of one task, as a small document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from harness.model.figures import Verdict, figures, verdict
from harness.model.plan import Plan
from harness.model.record import MetFault, TaskResult
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure
from harness.reporting.console import also_unmet, cause, reason
from harness.reporting.redaction import Redactor
from harness.reporting.step_lines import StepLine, step_lines
from harness.spec.task import FinalState

FaultState = Literal["struck", "never struck", "could not be done"]


class TaskRecord(BaseModel):
    """One task of a run, small enough to keep and to send from an xdist worker to its controller."""

    model_config = ConfigDict(frozen=True)

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
    refused: bool = Field(False, description="It ended as a partial success, under `--taskspec-strict`.")
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
        """It reached its end; whether that is what its file wants is the `verdict`."""
        return self.final_state in ("completed", "partial_success")

    @property
    def verdict(self) -> Verdict:
        """What the task counts as."""
        if self.torn:
            return "failed"
        state, code = self.final_state, self.code
        return verdict(state, code, expected=self.expected, unexpected=self.unexpected, refused=self.refused)


def task_record(
    plan: Plan, result: TaskResult, redactor: Redactor | None = None, *, unexpected: bool = False
) -> TaskRecord:
    """The record of a result; its texts are redacted. `unexpected`: it did not show what its `expect` declares."""
    redactor = (redactor or Redactor()).plus(plan.secrets)
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
        refused=plan.strict and plan.spec.expect is None and result.final_state == "partial_success",
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
        started=result.started,
        goal=redactor.text(plan.spec.goal),
        feature=plan.spec.family or "",
        episode=plan.spec.episode_id or "",
        priority=plan.spec.priority,
        tags=plan.spec.tags,
        steps=tuple(step_lines(result.history, redactor)),
        summary=cause(plan, result, redactor) if failure else "",
        **(_of_failure(failure, redactor) if failure else {}),
    )


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
    }


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
