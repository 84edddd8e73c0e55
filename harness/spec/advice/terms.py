"""What the texts of a task come to: references filled in, keys that are written while it runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from harness.spec.interpolate import interpolate
from harness.spec.parametrize import cases
from harness.spec.problems import Way
from harness.spec.references import Scope
from harness.spec.steps import Step
from harness.spec.task import TaskSpec


def scopes(spec: TaskSpec) -> list[Scope]:
    """What references stand for, in each case; at least one. Variables and memory stay open."""
    return [_scope(spec, Scope(param=case.values)) for case in cases(spec)] or [_scope(spec, Scope(param={}))]


def _scope(spec: TaskSpec, early: Scope) -> Scope:
    inputs, persona = (interpolate(values, early, last=False) for values in (spec.inputs, spec.persona))
    return Scope(inputs, persona, param=early.param)


def steps_of(spec: TaskSpec) -> Iterator[tuple[Way, Step]]:
    """The steps of the task and of its repairs."""
    yield from ((("steps", number), step) for number, step in enumerate(spec.steps))
    for number, repair in enumerate(spec.repairs):
        yield from ((("repairs", number, "steps", inner), step) for inner, step in enumerate(repair.steps))


def remembered(spec: TaskSpec) -> set[str]:
    """The memory keys that steps write."""
    return {key for _, step in steps_of(spec) for key in step.remember}


def shares_memory(spec: TaskSpec) -> bool:
    """Whether tasks beside this one may write what it reads."""
    return bool(spec.episode_id or spec.dependencies or any(repair.task for repair in spec.repairs))


def hooked(spec: TaskSpec) -> bool:
    """Whether a hook of the project may write memory before the first step."""
    return bool(spec.preconditions) and spec.error_recovery.on_precondition_fail.strategy == "attempt_repair"


def declares_failure(spec: TaskSpec) -> bool:
    """Whether the task is there to show a failure: then what makes it fail is meant."""
    return spec.expect is not None and spec.expect.final_state in ("failed", "aborted")


def touches(key: str, keys: Iterable[str]) -> bool:
    """Whether one of the keys is this one, lies inside of it, or holds it. A key with a reference may be any."""
    return any("${" in key + other or _overlap(_parts(key), _parts(other)) for other in keys)


def _parts(key: str) -> list[str]:
    return [part for part in re.split(r"[.\[\]]+", key) if part]


def _overlap(one: list[str], other: list[str]) -> bool:
    return all(a == b or "*" in (a, b) for a, b in zip(one, other, strict=False))
