"""What is legal in a task and unwise: warnings that `harness validate` shows, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.spec.advice.checkpoints import checkpoint_advice
from harness.spec.advice.criteria import criteria_advice
from harness.spec.advice.idle import idle_advice
from harness.spec.advice.limits import limit_advice
from harness.spec.advice.promises import promise_advice
from harness.spec.advice.selectors import selector_advice
from harness.spec.advice.waits import wait_advice
from harness.spec.advice.writes import write_advice
from harness.spec.loaded import Loaded
from harness.spec.origin import Origin
from harness.spec.problems import Problem
from harness.spec.task import TaskSpec

_RULES: tuple[Callable[[TaskSpec, Origin], Iterator[Problem]], ...] = (
    write_advice,
    criteria_advice,
    selector_advice,
    limit_advice,
    wait_advice,
    checkpoint_advice,
    idle_advice,
    promise_advice,
)


def advice(loaded: Loaded) -> Iterator[Problem]:
    """Warnings, in the order of the file. They never keep a task from running."""
    found = [problem for rule in _RULES for problem in rule(loaded.spec, loaded.origin)]
    yield from sorted(found, key=lambda each: (each.file != loaded.source, each.file, each.line or 0, each.column or 0))
