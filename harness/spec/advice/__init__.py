"""Warnings about legal but unwise parts of a task, each with its place; `harness validate` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.spec.advice.criteria import criteria_advice, path_advice, precondition_advice
from harness.spec.advice.rules import (
    baseline_advice,
    checkpoint_advice,
    domain_advice,
    idle_advice,
    limit_advice,
    memory_advice,
    promise_advice,
    selector_advice,
    wait_advice,
)
from harness.spec.advice.writes import write_advice
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem
from harness.spec.source import Origin
from harness.spec.task import TaskSpec

Rule = Callable[[TaskSpec, Origin], Iterator[Problem]]

_RULES: tuple[Rule, ...] = (
    write_advice, criteria_advice, path_advice, selector_advice, limit_advice, wait_advice, checkpoint_advice,
    idle_advice, promise_advice,
)  # fmt: skip
_OF_MEMORY: tuple[Rule, ...] = (memory_advice, precondition_advice)
"""Rules that apply only to a task that begins with the memory of its own file."""


def advice(loaded: Loaded, *, inner: bool = False, virtual_hosts: tuple[str, ...] = ()) -> Iterator[Problem]:
    """The warnings about a task, in the order of its file. They never keep a task from running.

    `inner`: the task does not begin with the memory of its own file alone, because another task runs it inside itself,
    or the system under test keeps the memory. `virtual_hosts` are those of the settings.
    """
    rules = _RULES if inner else (*_RULES, *_OF_MEMORY)
    found = [problem for rule in rules for problem in rule(loaded.spec, loaded.origin)]
    found += domain_advice(loaded.spec, loaded.origin, virtual_hosts)
    found += baseline_advice(loaded.spec, loaded.origin, loaded.folder)
    yield from sorted(found, key=lambda each: (each.file != loaded.source, each.file, each.line or 0, each.column or 0))
