"""Compares the end of a task with what it declares: missing results, and the outcome in `expect`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.criteria import equal, memory_lookup
from harness.model.ports import Json
from harness.model.record import TaskResult, Warning_
from harness.spec.task import Expect, TaskSpec


def shortcomings(spec: TaskSpec, memory: Mapping[str, Json], files: Iterable[Path]) -> Iterator[Warning_]:
    """Yield a warning for each of `memory_keys`, `artifacts` and `expected_memory` that is missing at the end.

    docs/design/task-files.md describes these three lists.
    """
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
