"""The results of an evaluation of agents, as the document that it writes, and the parts that campaigns share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from harness.model.consumption import ModelFigures
from harness.model.statistics import FEWEST_TASKS, TaskTally, mean_pass_hat, mean_rate
from harness.recovery.declaration import Declaration

_EVALUATION_VERSION: Final = 1
Better = Literal["first", "second", "open"]
"""Which of two agents is better, as far as is known."""
_TrialOutcome = Literal["passed", "failed", "void"]


class EvaluationPart(Declaration):
    """A part of the document. What is read again must have been possible."""

    model_config = ConfigDict(allow_inf_nan=False)


_Share = Annotated[float, Field(ge=0, le=1)]
"""A share of trials, or of tasks."""


def first_problem(error: ValidationError) -> str:
    """What is wrong with a document, or a part of it, and where: `cells.0.rate: Field required`."""
    first = error.errors()[0]
    return ": ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))


def rounded(value: float | None) -> float | None:
    """A share with four digits."""
    return None if value is None else round(value, 4)


def rounded_interval(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    """Two bounds with four digits."""
    return None if interval is None else (round(interval[0], 4), round(interval[1], 4))


class MeanRate(EvaluationPart):
    """How much passes, as a mean over tasks: each task has a rate of its own, and each counts the same."""

    tasks: int = Field(description="Number of tasks that have a trial that counts.")
    share: _Share | None = Field(description="Mean of the tasks' own rates, 0 to 1; null if no trial counts.")
    interval: tuple[float, float] | None = Field(
        description="95 % interval of the mean over tasks such as these, by the bootstrap over tasks (BCa); null with "
        f"fewer than {FEWEST_TASKS} tasks."
    )
    pass_hat: tuple[_Share, ...] = Field(
        description="pass^k for k = 1, 2, ...: the probability that k trials of a task all pass, as a mean over the "
        "tasks with at least k trials."
    )

    @classmethod
    def from_tallies(cls, tallies: Sequence[TaskTally], seed: int = 0) -> Self:
        """The rate with the fields that its class has."""
        mean = mean_rate(tallies, seed)
        found = {
            "tasks": mean.tasks,
            "share": rounded(mean.mean),
            "interval": rounded_interval(mean.interval),
            "pass_hat": tuple(round(each.mean or 0.0, 4) for each in mean_pass_hat(tallies)),
            "of": sum(each.counted for each in tallies),
            "good": sum(each.passed for each in tallies),
        }
        return cls(**{name: found[name] for name in cls.model_fields})


class EvaluationTrial(EvaluationPart):
    """One run of one task by one agent, with one fault or without: a line of trials.jsonl."""

    task_id: str
    agent: str
    fault: str | None = Field(description="Name of the fault; null for a clean trial.")
    number: int = Field(description="Number of the trial of this task, agent and fault, counted from 0.")
    attempt: int = Field(1, description="Number of the attempt at this trial, from 1; it is made again if it was void.")
    seed: int = Field(description="Seed of the trial: equal in all agents' trials with the same number.")
    outcome: _TrialOutcome = Field(description="void: infrastructure broke, so it says nothing about the agent.")
    why_void: str = Field("", description="Why it is void; empty if it is not.")
    final_state: str = Field("", description="Final state as in error_report.json; empty if it could not be made.")
    code: str | None = Field(None, description="Code of the task's failure; null if it did not fail.")
    message: str = Field("", description="Message of the failure, without secrets.")
    struck: int = Field(0, description="How often the fault struck.")
    steps: int = Field(0, description="Number of steps that were done or tried.")
    recovered: int = Field(0, description="Number of steps that failed and passed in the end.")
    takeovers: int = Field(0, description="How often another agent went on in its place.")
    models: ModelFigures = Field(ModelFigures(), description="What the calls of models used.")
    started: AwareDatetime
    seconds: float = Field(0, description="Duration of the task in seconds.")
    thinking: float = Field(0, description="Seconds of calls of models that were answered.")
    acting: float = Field(0, description="Seconds of attempts at steps.")
    waiting: float = Field(0, description="The rest: waits, retries of models, the start and the end.")
    artifacts: str | None = Field(None, description="Folder of the failure, relative to the evaluation's folder.")

    @property
    def place(self) -> tuple[str, str, str | None, int]:
        """What it is a trial of: two trials of the same place are attempts at one."""
        return self.task_id, self.agent, self.fault, self.number

    @property
    def passed(self) -> bool | None:
        """True has passed, False has failed, None is void."""
        return None if self.outcome == "void" else self.outcome == "passed"


class EvaluatedTask(EvaluationPart):
    """One task with one agent and one fault or none."""

    task_id: str
    passed: int
    failed: int
    void: int
    rate: _Share | None = Field(description="Share of the trials that count; null if none counts.")
    interval: tuple[float, float] | None = Field(description="Wilson's 95 % interval of the rate of this task.")


class EvaluatedCell(EvaluationPart):
    """One agent, with one fault or without, over all tasks."""

    agent: str
    fault: str | None
    trials: int = Field(description="Number of trials; one that was made again counts once.")
    void: int = Field(description="Number of trials that are void.")
    void_share: _Share
    worst: _Share | None = Field(description="The rate if all void trials had failed.")
    best: _Share | None = Field(description="The rate if all void trials had passed.")
    struck: int = Field(description="Number of trials in which the fault struck.")
    rate: MeanRate
    tasks: tuple[EvaluatedTask, ...]


class AgentTotals(EvaluationPart):
    """What all trials of one agent used, those that were void or made again included."""

    agent: str
    models: ModelFigures
    trials: int = Field(description="Number of trials made.")
    passed: int
    cost_per_success: float | None = Field(
        description="US dollars of all trials for each one that passed; null if none passed or a price is not known."
    )
    steps: int
    recovered: int
    takeovers: int
    seconds: float
    thinking: float
    acting: float
    waiting: float


class Comparison(EvaluationPart):
    """Two agents under one fault or none, in pairs of trials with the same task and seed."""

    first: str
    second: str
    fault: str | None
    tasks: int = Field(description="Number of tasks that have pairs.")
    pairs: int
    both: int
    only_first: int
    only_second: int
    neither: int
    difference: float | None = Field(
        description="Mean over tasks of the first one's rate minus the second one's; null without pairs."
    )
    interval: tuple[float, float] | None = Field(
        description=f"95 % interval of the difference; null with fewer than {FEWEST_TASKS} tasks."
    )
    p_value: float = Field(description="McNemar's exact p.")
    better: Better = Field(description="Which one is better; `open` if that is not known.")
    too_void: bool = Field(description="Whether too many trials of one of the two are void, so that nothing is known.")
    more_trials: int | None = Field(
        description="Trials of each task still needed to show this difference in 4 of 5 evaluations; null if it is 0."
    )
    more_trials_for_5_points: int | None = Field(description="The same for a difference of 5 points.")


class CauseCount(EvaluationPart):
    """A failure code under one fault or none, and how many trials of each agent failed with it."""

    code: str
    fault: str | None
    cause: str = Field(description="What the code means.")
    outcome: _TrialOutcome = Field(description="failed or void.")
    counts: dict[str, int] = Field(description="Agent -> number of trials.")
    example: str = Field(description="The message of the first one.")
    artifacts: str | None = Field(None, description="Folder of the first one, relative to the evaluation's folder.")


class GateResult(EvaluationPart):
    """One threshold of the gate, and whether it was met."""

    key: str
    agent: str
    met: bool
    reason: str


class Evaluation(EvaluationPart):
    """The document."""

    version: Literal[1] = _EVALUATION_VERSION
    started: AwareDatetime
    seconds: float = Field(description="Seconds of all trials.")
    agents: tuple[str, ...]
    faults: tuple[str, ...]
    task_ids: tuple[str, ...]
    trials: int = Field(description="Number of trials of each task, agent and fault.")
    seed: int
    planned: int
    made: int
    again: int = Field(description="Number of trials that were made again because they were void.")
    cells: tuple[EvaluatedCell, ...]
    totals: tuple[AgentTotals, ...]
    comparisons: tuple[Comparison, ...]
    causes: tuple[CauseCount, ...]
    no_verdict: tuple[str, ...] = Field(description="Why there is no verdict: cells with too many void trials.")
    gate: tuple[GateResult, ...] = Field((), description="The thresholds of the gate; empty without a gate.")

    @property
    def complete(self) -> bool:
        return self.made >= self.planned

    @property
    def verdict(self) -> str:
        """The verdict in a few words."""
        if not self.complete:
            return f"interrupted after {self.made} of {self.planned} trials"
        if self.no_verdict:
            return "no verdict"
        if self.gate:
            return "gate passed" if all(each.met for each in self.gate) else "gate NOT passed"
        return f"{self.planned} trials"
