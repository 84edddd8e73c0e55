"""Judges an evaluation by its gate, each threshold with its reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from pydantic import ValidationError

from harness.model.consumption import money_text
from harness.model.evaluation import (
    EvaluatedCell,
    Evaluation,
    GateResult,
    first_problem,
    hat_text,
    interval_text,
    points_text,
    share_text,
)
from harness.model.statistics import FEWEST_TASKS, difference_interval, same_everywhere
from harness.runner.evaluation.summary import Shape, says_nothing
from harness.spec.evaluation_gate import EvaluationGate


def read_evaluation(file: Path) -> Evaluation:
    """Read an evaluation.json. Raises ValueError for a file that is none, or OSError."""
    try:
        return Evaluation.model_validate_json(file.read_bytes())
    except ValidationError as error:
        raise ValueError(f"{file}: is no evaluation: {first_problem(error)}") from None


def gate_problem(gate: EvaluationGate, shape: Shape, earlier: Evaluation | None) -> str:
    """Why the gate cannot judge an evaluation of this shape; empty if it can."""
    agents, trials = shape.agents, shape.trials
    if strange := [name for name in gate.agents or () if name not in agents]:
        return f"agents: `{strange[0]}` is not evaluated: --agents has {', '.join(agents)}"
    if gate.min_pass_k is not None and gate.min_pass_k.k > trials:
        return f"min_pass_k: k is {gate.min_pass_k.k}, but there are only {trials} trials of each task"
    found = (_unfit(earlier, name, shape.task_ids) for name in gate.agents or agents) if earlier is not None else ()
    return next((f"no_worse_than: the earlier evaluation {why}" for why in found if why), "")


def _unfit(earlier: Evaluation, agent: str, task_ids: Collection[str]) -> str:
    """Why an agent cannot be compared with the earlier evaluation; empty if it can."""
    cell = _clean(earlier, agent)
    if agent not in earlier.agents:
        return f"has no agent `{agent}`: it has {', '.join(earlier.agents)}"
    if not earlier.complete:
        return f"was interrupted after {earlier.made} of {earlier.planned} trials: go on with it (--resume) first"
    if cell is None or says_nothing(cell):
        return f"has no verdict on `{agent}`, because too many of its trials without faults are void"
    if not any(each.task_id in task_ids and each.rate is not None for each in cell.tasks):
        return f"has none of these tasks: it has {', '.join(earlier.task_ids[:3])}" + (
            ", ..." if len(earlier.task_ids) > 3 else ""
        )
    return ""


def judged_by(gate: EvaluationGate, found: Evaluation, earlier: Evaluation | None) -> tuple[GateResult, ...]:
    """The thresholds, met or not. `earlier`: the evaluation that `no_worse_than` names."""
    return tuple(each for name in gate.agents or found.agents for each in _of_agent(gate, found, earlier, name))


def _of_agent(gate: EvaluationGate, found: Evaluation, earlier: Evaluation | None, agent: str) -> Iterator[GateResult]:
    cell = _clean(found, agent)
    if cell is None:
        return
    for key, (met, reason) in {**_rates(gate, cell), **_cost(gate, found, agent)}.items():
        yield GateResult(key=key, agent=agent, met=met, reason=reason)
    if earlier is not None and (before := _clean(earlier, agent)):
        met, reason = _no_worse(cell, before, gate.margin, found.seed)
        yield GateResult(key="no_worse_than", agent=agent, met=met, reason=reason)


def _clean(found: Evaluation, agent: str) -> EvaluatedCell | None:
    return next((each for each in found.cells if (each.agent, each.fault) == (agent, None)), None)


_Judged = Mapping[str, tuple[bool, str]]


def _rates(gate: EvaluationGate, cell: EvaluatedCell) -> _Judged:
    found: dict[str, tuple[bool, str]] = {}
    if gate.min_pass is not None:
        share, spread = cell.rate.share, interval_text(cell.rate.interval)
        met = share is not None and share >= gate.min_pass
        found["min_pass"] = met, f"{share_text(share)} passed (95 %: {spread}), wanted at least {gate.min_pass:g}"
    if gate.min_pass_k is not None:
        k, wanted = gate.min_pass_k.k, gate.min_pass_k.share
        hats = cell.rate.pass_hat
        value = hats[k - 1] if k <= len(hats) else None
        met = value is not None and value >= wanted
        found["min_pass_k"] = met, f"pass^{k} is {hat_text(cell, k) or share_text(None)}, wanted at least {wanted:g}"
    return found


def _cost(gate: EvaluationGate, found: Evaluation, agent: str) -> _Judged:
    if gate.max_cost is None:
        return {}
    total = next(each for each in found.totals if each.agent == agent)
    wanted = f"wanted at most {money_text(gate.max_cost)}"
    if total.models.unpriced_calls:
        return {"max_cost": (False, f"{total.models.unpriced_calls} calls have no known price, {wanted}")}
    if total.cost_per_success is None:
        return {"max_cost": (False, f"nothing passed, and {money_text(total.models.cost_usd)} was spent, {wanted}")}
    met = total.cost_per_success <= gate.max_cost
    return {"max_cost": (met, f"{money_text(total.cost_per_success)} for each success, {wanted}")}


def _no_worse(now: EvaluatedCell, before: EvaluatedCell, margin: float, seed: int) -> tuple[bool, str]:
    """Whether the agent is surely not worse than before by more than the margin, on the tasks of both."""
    old = {each.task_id: each.rate for each in before.tasks if each.rate is not None}
    pairs = [(each.rate, old[each.task_id]) for each in now.tasks if each.rate is not None and each.task_id in old]
    if not pairs:
        return False, "no task is in both evaluations"
    differences = [one - other for one, other in pairs]
    difference, spread = fmean(differences), difference_interval(differences, seed)
    told = f"{points_text(difference)} on {len(pairs)} tasks of both"
    if spread is None or same_everywhere(differences):
        without = f"no interval below {FEWEST_TASKS} tasks" if spread is None else "the same in each"
        return difference >= -margin - 1e-9, f"{told} ({without}), wanted at least {points_text(-margin)}"
    between = f"95 %: {points_text(spread[0])} to {points_text(spread[1])}"
    why = f"{told} ({between}), wanted the lower bound at least {points_text(-margin)}"
    return spread[0] >= -margin - 1e-9, why
