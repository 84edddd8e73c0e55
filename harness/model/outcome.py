"""Compares the end of a task with what it declares: missing results, the outcome in `expect`, and its score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.criteria import equal, memory_lookup
from harness.model.ports import Json
from harness.model.record import Score, ScorePart, StepRecord, TaskResult, Warning_
from harness.spec.task import Expect, ScoringCheckpoint, TaskSpec


def shortcomings(spec: TaskSpec, memory: Mapping[str, Json], files: Iterable[Path]) -> Iterator[Warning_]:
    """Yield a warning for each of `memory_keys`, `artifacts` and `expected_memory` that is missing at the end."""
    for key in spec.memory_keys:
        if not any(value is not None for value in memory_lookup(memory, key)):
            yield Warning_("memory_key_missing", f"memory_keys names {key!r}, which no step wrote", None, {"key": key})
    names = {name for path in files for name in (path.name, path.stem)}
    for wanted in spec.artifacts:
        if wanted not in names:
            yield Warning_(
                "artifact_missing", f"artifacts names {wanted!r}, which no step kept", None, {"name": wanted}
            )
    for key, expected in spec.expected_memory.items():
        found = memory_lookup(memory, key)
        actual = found[0] if found else None
        if not equal(actual, expected):
            text = f"memory {key!r} is {actual!r}, expected_memory.json has {expected!r}"
            yield Warning_("memory_differs", text, None, {"key": key, "expected": expected, "actual": actual})


def ended_as_declared(spec: TaskSpec, result: TaskResult) -> bool:
    """Return whether the task did what it should: it passed, or showed the outcome that it declares in `expect`."""
    return result.ok if spec.expect is None else not outcome_differences(spec.expect, result)


def outcome_differences(expect: Expect, result: TaskResult) -> list[str]:
    """The differences between a result and the outcome that its task declares; empty if it shows it."""
    failure = result.failure
    found = differences(
        expect,
        result.final_state,
        failure.type if failure else None,
        failure.code if failure else None,
        result.failed_index,
    )
    shown = {warning.type for warning in result.warnings}
    return [*found, *result.unlike_expected] + [
        f"warning {name} was not given" for name in expect.warnings if name not in shown
    ]


def differences(
    expect: Expect, final_state: str, error_type: str | None, code: str | None, step_index: int | None
) -> list[str]:
    """The differences between an end and the declared one, apart from warnings."""
    actual = {"final_state": final_state, "error_type": error_type, "code": code, "step_index": step_index}
    return [
        f"{name}: expected {wanted}, was {actual[name]}"
        for name in actual
        if (wanted := getattr(expect, name)) is not None and wanted != actual[name]
    ]


# The score of a task: `scoring_checkpoints` and `rubrics` (docs/decisions/005). Pure.

Looked = tuple[ScoringCheckpoint, bool, str | None]
"""A part, whether it applies, and why it does not hold (None: it does)."""


def score_of(
    looked: Sequence[Looked], rubrics: Mapping[str, float], attempts: Mapping[str, int], succeeded: bool
) -> Score:
    """The weighted mean of the rubrics' metrics; without rubrics, the sum of the parts that are met.

    `attempts`: see `attempts_of`.
    """
    parts = _weighted(looked)
    values = metrics(parts, attempts, succeeded)
    shown = {name: values[name] for name in rubrics if name in values}
    weight = sum(rubrics[name] for name in shown)
    mean = sum(rubrics[name] * value for name, value in shown.items()) / weight if weight else None
    reached = sum(part.weight for part in parts if part.met)
    return Score(round(reached if mean is None else mean, 4), parts, shown)


def _weighted(looked: Sequence[Looked]) -> tuple[ScorePart, ...]:
    """The parts with weights that add up to 1 over those that apply; one is met only if those it depends on are."""
    whole = sum(part.weight for part, applies, _ in looked if applies)
    met: dict[str, bool] = {}
    parts = []
    for part, applies, why in looked:
        share = round(part.weight / whole, 6) if applies and whole else 0.0
        reason = why or next((f"depends on {name}" for name in part.depends_on if not met.get(name, True)), "")
        met[part.id] = applies and not reason
        parts.append(ScorePart(part.id, part.name or part.id, share, met[part.id], applies, part.required, reason))
    return tuple(parts)


def attempts_of(trace: Sequence[StepRecord], planned: int) -> dict[str, int]:
    """The number of steps `planned`, of attempts at them `made`, and of those that `passed`."""
    made = [attempt.passed for record in trace for attempt in record.attempts if 0 <= record.index < planned]
    return {"planned": planned, "made": len(made), "passed": sum(made)}


def metrics(parts: Sequence[ScorePart], attempts: Mapping[str, int], succeeded: bool) -> Mapping[str, float]:
    """The metrics that `rubrics` may weigh, each 0 to 1.

    `SR`: success. `LH-F1`: the harmonic mean of the share of the goal that was reached (by the scoring checkpoints, or
    else by success) and the share of attempts that worked. `cost_efficiency`: the steps of the file over the attempts
    made.
    """
    made = attempts["made"]
    reached = sum(part.weight for part in parts if part.met) if parts else float(succeeded)
    share = attempts["passed"] / made if made else 0.0
    both = reached + share
    cost = min(1.0, attempts["planned"] / made) if made else 0.0
    return {
        "SR": float(succeeded),
        "LH-F1": round(2 * reached * share / both, 4) if both else 0.0,
        "cost_efficiency": round(cost, 4) if succeeded else 0.0,
    }
