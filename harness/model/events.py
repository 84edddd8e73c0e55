"""What the engine says while it runs: one frozen value for each kind, read by the sinks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from harness.model.plan import Plan
from harness.model.record import Attempt, StepRecord, TaskResult
from harness.recovery import Remedy
from harness.recovery.failure import Failure
from harness.spec.steps import Step


@dataclass(frozen=True, slots=True)
class TaskStarted:
    plan: Plan
    at: datetime


@dataclass(frozen=True, slots=True)
class StepStarted:
    plan: Plan
    index: int
    step: Step
    at: datetime


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    plan: Plan
    index: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RemedyChosen:
    """A failed attempt is followed by this; for a Retry the wait is about to begin."""

    plan: Plan
    index: int
    failure: Failure
    remedy: Remedy
    number: int
    """1 for the first remedy of the step."""


@dataclass(frozen=True, slots=True)
class StepEnded:
    plan: Plan
    record: StepRecord


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """`result.error` and `result.artifacts` are set when it failed; its directory is complete on disk."""

    plan: Plan
    result: TaskResult
    at: datetime


Event = TaskStarted | StepStarted | AttemptEnded | RemedyChosen | StepEnded | TaskEnded
