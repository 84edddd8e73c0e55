"""How a task ends: what is missing at the end, whether the declared outcome was shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from harness.criteria import equal, memory_lookup
from harness.model.ports import Json
from harness.model.record import TaskResult, Warning_
from harness.spec.task import Expect, TaskSpec


def shortcomings(spec: TaskSpec, memory: Mapping[str, Json], files: Iterable[Path]) -> Iterator[Warning_]:
    """`memory_keys`, `artifacts` and `expected_memory` that are not there at the end (docs/design/task-files.md)."""
    for key in spec.memory_keys:
        if not _known(memory, key):
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


def _known(memory: Mapping[str, Json], key: str) -> bool:
    return any(value is not None for value in memory_lookup(memory, key))


def reached(spec: TaskSpec, result: TaskResult) -> bool:
    """Whether the task did what it should: it passed, or showed the outcome that it declares in `expect`."""
    return result.ok if spec.expect is None else not unmet(spec.expect, result)


def unmet(expect: Expect, result: TaskResult) -> list[str]:
    """In what a result differs from the outcome that its task declares; empty when it shows it."""
    failure = result.failure
    pairs = {
        "final_state": (expect.final_state, result.final_state),
        "error_type": (expect.error_type, failure.type if failure else None),
        "code": (expect.code, failure.code if failure else None),
        "step_index": (expect.step_index, result.failed_index),
    }
    found = [
        f"{name}: expected {wanted}, was {actual}"
        for name, (wanted, actual) in pairs.items()
        if wanted is not None and wanted != actual
    ]
    shown = {warning.type for warning in result.warnings}
    return found + [f"warning {name} was not given" for name in expect.warnings if name not in shown]
