"""The results of an evaluation of agents: the document that it writes, and its figures in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError

from harness.model.consumption import ModelFigures, money_text, tokens_text
from harness.model.statistics import FEWEST_TASKS, TaskTally, mean_pass_hat, mean_rate
from harness.recovery.declaration import Declaration
from harness.spec.fault_plan import CLEAN
from harness.spec.names import how_many

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
    pass_hat_tasks: tuple[int, ...] = Field(
        (), description="Number of these tasks for each k: fewer than `tasks` while an evaluation is not complete."
    )

    @classmethod
    def from_tallies(cls, tallies: Sequence[TaskTally], seed: int = 0) -> Self:
        """The rate with the fields that its class has."""
        mean, hats = mean_rate(tallies, seed), mean_pass_hat(tallies)
        found = {
            "tasks": mean.tasks,
            "share": rounded(mean.mean),
            "interval": rounded_interval(mean.interval),
            "pass_hat": tuple(round(each.mean or 0.0, 4) for each in hats),
            "pass_hat_tasks": tuple(each.tasks for each in hats),
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
    trajectory: str | None = Field(
        None, description="File with the agent's way, of a trial that passed too, relative to the evaluation's folder."
    )

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
        description="Trials of each task still needed to show this difference on these tasks in 4 of 5 evaluations, if "
        f"pairs go on to differ as often; null if it is 0, and with {FEWEST_TASKS} tasks or more: there the interval "
        "over tasks decides too, which more trials may not narrow."
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


# The figures of an evaluation in words: the same in terminal, Markdown, page and gate.

_Bounds = tuple[float, float] | None


def share_text(share: float | None) -> str:
    """`87 %`; `nothing counts` if no trial does."""
    return "nothing counts" if share is None else f"{share * 100:.0f} %"


def points_text(difference: float) -> str:
    """`+5 points`."""
    number = f"{difference * 100:+.1f}".removesuffix(".0")
    return f"{'0' if number in ('+0', '-0') else number} points"


def interval_text(interval: _Bounds) -> str:
    """`71 to 93 %`, or that there is none."""
    if interval is None:
        return f"not given below {FEWEST_TASKS} tasks"
    return f"{interval[0] * 100:.0f} to {interval[1] * 100:.0f} %"


def condition_text(fault: str | None) -> str:
    """The name of a fault; `clean` without one."""
    return fault or CLEAN


def void_text(cell: EvaluatedCell) -> str:
    """`3 of 20: 70 to 85 %`: how many are void, and the rate if all had failed or passed; `0` if none is."""
    if not cell.void or cell.worst is None or cell.best is None:
        return "0"
    return f"{cell.void} of {cell.trials}: {cell.worst * 100:.0f} to {cell.best * 100:.0f} %"


def hat_text(cell: EvaluatedCell, k: int) -> str:
    """pass^k of a cell; empty if no task has so many trials. `25 % (1 of 4 tasks)`: the others have fewer."""
    hats, tasks = cell.rate.pass_hat, cell.rate.pass_hat_tasks
    if k > len(hats):
        return ""
    partial = f" ({tasks[k - 1]} of {cell.rate.tasks} tasks)" if tasks and tasks[k - 1] < cell.rate.tasks else ""
    return f"{share_text(hats[k - 1])}{partial}"


def shown_ks(trials: int) -> tuple[int, ...]:
    """The values of k that are shown: 1, 2, 3, 5, 8, ..., and the number of trials."""
    return tuple(sorted({k for k in (1, 2, 3, 5, 8, 13, 21) if k < trials} | {trials}))


def _cost_text(total: AgentTotals) -> str:
    """The cost of an agent: `$0.62`, and how many calls have no known price."""
    if not total.models.calls:
        return "no model"
    if total.models.unpriced_calls:
        return f"{money_text(total.models.cost_usd)} and {total.models.unpriced_calls} unpriced calls"
    return money_text(total.models.cost_usd)


def use_cells(total: AgentTotals) -> tuple[str, ...]:
    """What an agent used, as the cells of a table (`USE_HEAD`)."""
    models = total.models
    tokens = f"{tokens_text(models.input_tokens)} / {tokens_text(models.output_tokens)}" if models.calls else ""
    times = " / ".join(f"{each:.1f}" for each in (total.thinking, total.acting, total.waiting))
    counts = (str(each) for each in (total.steps, total.recovered, total.takeovers))
    each = "not known" if total.cost_per_success is None else money_text(total.cost_per_success)
    cost = (_cost_text(total), each if models.calls else "")
    return (total.agent, str(total.trials), str(models.calls or ""), tokens, *cost, times, *counts)


USE_HEAD = (
    "agent", "trials", "calls", "tokens in / out", "cost", "per success", "s thinking / acting / waiting", "steps",
    "recovered", "takeovers",
)  # fmt: skip


_MOST_DECIDED = 2
"""Comparisons that the headline has; the page, the tables and the document have all."""


def headline(found: Evaluation) -> str:
    """The verdict on all of it: the gate's, or which agents are better."""
    if not found.complete or found.no_verdict or found.gate or not found.comparisons:
        return found.verdict
    decided = [f"{_head(each)} ({condition_text(each.fault)})" for each in found.comparisons if each.better != "open"]
    more = (f"and {len(decided) - _MOST_DECIDED} more",) if len(decided) > _MOST_DECIDED else ()
    return ", ".join((*decided[:_MOST_DECIDED], *more)) or "no agent is better, as far as is known"


def verdict_sentence(found: Comparison) -> str:
    """Which of the two is better, in a sentence, and what it rests on."""
    return f"{_head(found)} ({condition_text(found.fault)}): {evidence_text(found)}"


def _head(found: Comparison) -> str:
    one, other = found.first, found.second
    if found.better != "open":
        better, worse = (one, other) if found.better == "first" else (other, one)
        # With few tasks, only these tasks are spoken of: their trials say nothing about others.
        few = " on this task" if found.tasks == 1 else f" on these {found.tasks} tasks"
        return f"{better} is better than {worse}" + (few if found.interval is None else "")
    if found.too_void:
        return f"no verdict on {one} and {other}, since too many trials are void"
    return f"whether {one} or {other} is better is not known"


def by_worth(several: Iterable[Comparison]) -> list[Comparison]:
    """What is decided first, the largest difference on top; then what is open, and what has no verdict."""

    def worth(found: Comparison) -> tuple[bool, bool, float]:
        return found.better == "open", found.too_void, -abs(found.difference or 0)

    return sorted(several, key=worth)


def ahead(found: Comparison) -> Comparison:
    """The comparison as the one sees it that has the higher rate: its difference is not below 0."""
    if (found.difference or 0) >= 0:
        return found
    spread, turned = found.interval, {"first": "second", "second": "first", "open": "open"}
    return found.model_copy(
        update={
            "first": found.second,
            "second": found.first,
            "only_first": found.only_second,
            "only_second": found.only_first,
            "difference": -(found.difference or 0),
            "interval": None if spread is None else (-spread[1], -spread[0]),
            "better": turned[found.better],
        }
    )


def evidence_text(found: Comparison) -> str:
    """The difference, its interval, and McNemar's p, as the one ahead sees them."""
    found = ahead(found)
    spread, of = found.interval, f" for {found.first}" if found.better == "open" and found.difference else ""
    between = f"{points_text(spread[0])} to {points_text(spread[1])}" if spread else interval_text(None)
    return (
        f"{points_text(found.difference or 0)}{of} (95 %: {between}), {p_text(found.p_value)} by "
        f"{how_many(found.pairs, 'pair')}, of which {found.only_first} only {found.first} passed and "
        f"{found.only_second} only {found.second}"
    )


def p_text(p_value: float) -> str:
    """`p = 0.0432`, `p < 0.0001`."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.3g}"


def more_text(found: Comparison) -> str:
    """How many trials are missing, and when that is true; empty if the better one is known, or nobody can say it."""
    if found.better != "open" or found.too_void:
        return ""
    wanted = ((found.more_trials, "this difference"), (found.more_trials_for_5_points, "one of 5 points"))
    told = [f"{number} would show {what}" for number, what in wanted if number]
    if not told:
        return ""
    return (
        f"more trials of each task: {' and '.join(told)} on these tasks in four of five evaluations, if pairs go on to "
        "differ as often as here"
    )
