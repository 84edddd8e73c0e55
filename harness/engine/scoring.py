"""How much of a task was reached: `scoring_checkpoints` and `rubrics` (DESIGN 4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.engine.attempt import ASSERTION, judge
from harness.engine.run import Ending, Run
from harness.model.record import Score, ScorePart, StepRecord
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline
from harness.spec.task import ScoringCheckpoint

SECONDS = 5.0
"""For all parts together."""

Looked = tuple[ScoringCheckpoint, bool, str | None]
"""A part, whether it applies, and why it does not hold (None: it does)."""


async def scored(run: Run, ending: Ending | None) -> Score | None:
    """The score, looked at once when the steps are over, passed or failed; None where none is declared."""
    spec = run.plan.spec
    if not run.plan.scoring and not spec.rubrics:
        return None
    until = Deadline.after(SECONDS, run.ports.clock.now())
    planned = len(run.plan.steps) or len(run.journal.history)
    parts = weighted([await _look(run, part, until) for part in run.plan.scoring])
    return total(parts, spec.rubrics, metrics(parts, run.journal.trace, planned, ending is None))


async def _look(run: Run, part: ScoringCheckpoint, until: Deadline) -> Looked:
    if part.when and part.when.strip() and await _unmet(run, part.when, until) is not None:
        return part, False, f"does not apply: {part.when} does not hold"
    return part, True, await _unmet(run, part.assertion, until)


async def _unmet(run: Run, criterion: str, until: Deadline) -> str | None:
    try:
        outcome = await judge(run, criterion, until, ASSERTION)
    except Failed as failed:
        return failed.failure.message
    return outcome.message if isinstance(outcome, Failure) else None


def weighted(looked: Sequence[Looked]) -> tuple[ScorePart, ...]:
    """The parts with weights that add up to 1 over those that apply; one counts only when those it depends on do."""
    whole = sum(part.weight for part, applies, _ in looked if applies)
    met: dict[str, bool] = {}
    parts = []
    for part, applies, why in looked:
        share = round(part.weight / whole, 6) if applies and whole else 0.0
        reason = why or next((f"depends on {name}" for name in part.depends_on if not met.get(name, True)), "")
        met[part.id] = applies and not reason
        parts.append(ScorePart(part.id, part.name or part.id, share, met[part.id], applies, part.required, reason))
    return tuple(parts)


def metrics(
    parts: Sequence[ScorePart], trace: Sequence[StepRecord], planned: int, succeeded: bool
) -> Mapping[str, float]:
    """The metrics that `rubrics` may weigh, each 0 to 1.

    `SR`: success. `LH-F1`: the harmonic mean of what was reached (the scoring checkpoints; without any: success) and
    of how much of what was tried worked. `cost_efficiency`: the steps of the file over the attempts made.
    """
    attempts = [attempt.passed for record in trace for attempt in record.attempts if 0 <= record.index < planned]
    return rated(parts, len(attempts), sum(attempts), planned, succeeded)


def rated(parts: Sequence[ScorePart], made: int, worked: int, planned: int, succeeded: bool) -> Mapping[str, float]:
    """`metrics` of so many attempts made, and so many that worked."""
    reached = sum(part.weight for part in parts if part.met) if parts else float(succeeded)
    share = worked / made if made else 0.0
    both = reached + share
    cost = min(1.0, planned / made) if made else 0.0
    return {
        "SR": float(succeeded),
        "LH-F1": round(2 * reached * share / both, 4) if both else 0.0,
        "cost_efficiency": round(cost, 4) if succeeded else 0.0,
    }


def total(parts: tuple[ScorePart, ...], rubrics: Mapping[str, float], values: Mapping[str, float]) -> Score:
    """The weighted mean of the rubrics' metrics; without rubrics what was reached of the parts."""
    shown = {name: values[name] for name in rubrics if name in values}
    weight = sum(rubrics[name] for name in shown)
    mean = sum(rubrics[name] * value for name, value in shown.items()) / weight if weight else None
    reached = sum(part.weight for part in parts if part.met)
    return Score(round(reached if mean is None else mean, 4), parts, shown)
