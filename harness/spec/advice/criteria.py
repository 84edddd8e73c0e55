"""Warnings about criteria that hold before the first step: a task cannot fail them, so its success proves nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Never

from harness.criteria import (
    Criterion,
    CriterionError,
    Json,
    PageQuery,
    PathError,
    ValueExpression,
    evaluate,
    parse,
    parse_value,
)
from harness.criteria.syntax import MEMORY_FUNCTIONS, Read, Selected, walk
from harness.recovery.families import ErrorType
from harness.resilience import Deadline
from harness.spec.expressions import checked_cases, expressions, steps_of
from harness.spec.loaded import Loaded
from harness.spec.problems import JsonPath, Problem
from harness.spec.references import ReferenceScope, interpolate, interpolate_criterion
from harness.spec.rounds import Guard
from harness.spec.source import Origin
from harness.spec.steps import Assert
from harness.spec.task import TaskSpec

# The texts of a task with references filled in, and the keys that are written while it runs.

_OF_A_RUN = ("${env:", "${totp:", "${fake.", "${now")
"""References whose values only a run knows."""


def scopes(spec: TaskSpec) -> list[ReferenceScope]:
    """The values that references have in each case, at least one scope. Variables and memory stay unresolved."""
    found = []
    for values in [case.values for case in checked_cases(spec)] or [{}]:
        early = ReferenceScope(param=values)
        inputs, persona = (interpolate(each, early, last=False) for each in (spec.inputs, spec.persona))
        found.append(ReferenceScope(inputs, persona, param=values))
    return found


def written(spec: TaskSpec) -> set[str]:
    """The memory keys that steps and repairs write, and those of the lists of `for_each`."""
    remembered = {key for _, step in steps_of(spec) for key in step.remember}
    remembered |= {Guard.read(text).key for _, step in steps_of(spec) for text in step.guards} - {""}
    return remembered | {key for repair in spec.repairs for key in repair.memory}


def shares_memory(spec: TaskSpec) -> bool:
    """Return whether other tasks may write the memory that this task reads."""
    return bool(spec.episode_id or spec.dependencies or any(repair.task for repair in spec.repairs))


def hooked(spec: TaskSpec) -> bool:
    """Return whether a hook of the project may write memory before the first step."""
    return bool(spec.preconditions) and spec.error_recovery.on_precondition_fail.strategy == "attempt_repair"


def declares_failure(spec: TaskSpec) -> bool:
    """Return whether the task is expected to fail: then whatever makes it fail is intended."""
    return spec.expect is not None and spec.expect.fails


def _judges_no_criteria(spec: TaskSpec) -> bool:
    """Return whether the task must fail before its success criteria are judged."""
    expect = spec.expect
    if expect is None or not expect.fails or expect.step_index == len(spec.steps):
        return False
    return (
        expect.code != "CRITERIA_UNMET" if expect.code is not None else expect.error_type != ErrorType.ASSERTION_FAILED
    )


def touches(key: str, keys: Iterable[str]) -> bool:
    """Return whether a key is this one, lies in it, or contains it. A key with a reference may be any key."""
    own = _parts(key)
    return any(
        "${" in key + other or all(a == b or "*" in (a, b) for a, b in zip(own, _parts(other), strict=False))
        for other in keys
    )


def _parts(key: str) -> list[str]:
    """The parts of a path; a filter may lead to any record, as `*` does."""
    return [part for part in re.split(r"[.\[\]]+", re.sub(r"\[\?[^\]]*\]", ".*", key)) if part]


class UnknownError(Exception):
    """A criterion needs a value that is known only during a run."""


def criteria_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning if there are no success criteria, and one for each that is true from the start."""
    ends_with_a_check = bool(spec.steps) and isinstance(spec.steps[-1], Assert)
    if not (spec.success_criteria or ends_with_a_check or declares_failure(spec)):
        message = "no `success_criteria`: the task passes when its steps do"
        hint = "say what must be true at the end"
        yield origin.problem(("success_criteria",), message, hint=hint, key=True, severity="warning")
    if spec.success_criteria and _judges_no_criteria(spec):
        message = "never judged: the task must fail before, as its `expect` declares"
        hint = "say in `criteria` of `expect` what the page must show then, and leave out `success_criteria`"
        yield origin.problem(("success_criteria",), message, hint=hint, key=True, severity="warning")
    every = scopes(spec)
    for path, text in _judging_criteria(spec):
        if reason := _true_before(spec, text, every):
            hint = "check something that the steps cause"
            yield origin.problem(path, f"true before the first step: {reason}", hint=hint, severity="warning")


def precondition_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for preconditions that the task's own memory never meets, if nothing else may write it."""
    if shares_memory(spec) or hooked(spec) or declares_failure(spec):
        return
    every = scopes(spec)
    for number, text in enumerate(spec.preconditions):
        read = [(_read(text, scope), scope) for scope in every]
        if all(criterion is not None and _verdict(spec, criterion, scope) is False for criterion, scope in read):
            message = "never holds: memory does not have this value before the first step, and nothing else writes it"
            hint = "set it up in `memory`, or in `repairs` with `on_precondition_fail: attempt_repair`"
            yield origin.problem(("preconditions", number), message, hint=hint, severity="warning")


_COUNTED = re.compile(r"(?P<of>.+)\.(?:length(?:\(\))?|size\(\))\Z", re.DOTALL)
"""Matches a length as in JavaScript; a key with such a name is written `['length']`."""


def path_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for paths that use a JavaScript length, or begin with `$` as in JSONPath: they name no key."""
    every = scopes(spec)
    for path, text, is_value in expressions(spec):
        if (expression := _read_any(text, is_value, every[0])) is None:
            continue
        for read in (node for node in walk(expression.tree) if isinstance(node, Read)):
            if read.function in ("json", "mem") and (meant := _probable_mistake(read)):
                within = (text, read.offset) if expression.text == text else None
                message = f"`{read.source}` looks for a key that is called `{meant[0]}`"
                yield origin.problem(path, message, hint=meant[1], within=within, severity="warning")


def _probable_mistake(read: Read) -> tuple[str, str] | None:
    """The key that is probably a mistake, and what to write instead."""
    *before, key = read.arguments
    shown = [f"'{each}'" for each in before]
    if found := _COUNTED.match(key):
        last = key[len(found["of"]) + 1 :]
        counted = f"{read.function}({', '.join([*shown, repr(found['of'])])}).length"
        return last, f"to count, write {counted}; a key of that name is written ['{last}']"
    if key.startswith(("$.", "$[")):
        return "$", f"a path begins at the document itself: write {key[1:].removeprefix('.')!r}"
    return None


def _read_any(text: str, is_value: bool, scope: ReferenceScope) -> Criterion | ValueExpression | None:
    """Parse a criterion or a value; None if it cannot be parsed, which another check reports."""
    try:
        filled = interpolate_criterion(text, scope, last=False)
        return parse_value(filled) if is_value else parse(filled)
    except (CriterionError, PathError):
        return None


def unseen_advice(tasks: Sequence[Loaded], unmatched: Mapping[str, Sequence[Collection[str]]]) -> Iterator[Problem]:
    """Yield a warning for each criterion that only denies what nothing has matched: of a wrong selector it is true.

    `unmatched`: task -> for each time that it passed, the selectors that have matched nothing. What matches in one task
    is no mistake in another one.
    """
    read = [(task, *_selectors(task.spec)) for task in tasks if task.spec.task_id in unmatched]
    matched = {
        each for task, known, _ in read for missed in unmatched[task.spec.task_id] for each in known - set(missed)
    }
    for task, _, denied in read:
        missed = set(chain.from_iterable(unmatched[task.spec.task_id])) - matched
        for path, selector in denied:
            if selector in missed:
                message = f"nothing has matched {selector!r} in the last run: of a wrong selector this is true, too"
                hint = "check the selector, or look for it before, where it must be there"
                yield task.origin.problem(path, message, hint=hint, severity="warning")


def denies(spec: TaskSpec) -> bool:
    """Return whether a criterion of the task only says that something is not there."""
    return bool(_selectors(spec)[1])


def _selectors(spec: TaskSpec) -> tuple[set[str], list[tuple[JsonPath, str]]]:
    """The selectors that a task reads or acts on; and those of criteria that only deny them, with their places."""
    known = {str(step.target) for _, step in steps_of(spec) if step.target is not None}
    denied: list[tuple[JsonPath, str]] = []
    every = scopes(spec)
    for path, text, is_value in expressions(spec):
        expression = _read_any(text, is_value, every[0])
        if expression is not None:
            known |= {_named(each) for each in expression.selectors}
            denied += [(path, _named(each)) for each in sorted(expression.denied, key=str)]
    return known, denied


def _named(selected: Selected) -> str:
    selector, frame = selected
    return f"{frame} >>> {selector}" if frame else selector


def _judging_criteria(spec: TaskSpec) -> Iterator[tuple[JsonPath, str]]:
    """The criteria that the task is judged by."""
    yield from ((("success_criteria", number), text) for number, text in enumerate(spec.success_criteria))
    relaxed = spec.fallback_plan.relaxed_success_criteria
    yield from ((("fallback_plan", "relaxed_success_criteria", at), text) for at, text in enumerate(relaxed))
    for number, part in enumerate(spec.scoring_checkpoints):
        yield ("scoring_checkpoints", number, "assertion"), part.assertion


def _true_before(spec: TaskSpec, text: str, every: list[ReferenceScope]) -> str:
    """The reason why a criterion holds before the first step in every case; empty if it does not or is not known."""
    read = [(criterion, scope) for scope in every if (criterion := _read(text, scope)) is not None]
    if len(read) < len(every):
        return ""
    if all(_is_precondition(spec, criterion, scope) for criterion, scope in read):
        return "it is a precondition too"
    if all(not _may_change(spec, criterion) and _verdict(spec, criterion, scope) is True for criterion, scope in read):
        of_memory = any(f"{name}(" in text for name in MEMORY_FUNCTIONS) or "${memory." in text
        return "memory has this value already, and no step changes it" if of_memory else "it always holds"
    return ""


def _read(text: str, scope: ReferenceScope) -> Criterion | None:
    try:
        return parse(interpolate_criterion(text, scope, last=False))
    except (CriterionError, PathError):  # an environment variable has to be filled in first
        return None


def _is_precondition(spec: TaskSpec, criterion: Criterion, scope: ReferenceScope) -> bool:
    others = (_read(other, scope) for other in spec.preconditions)
    return any(other is not None and other.tree == criterion.tree for other in others)


def _verdict(spec: TaskSpec, criterion: Criterion, scope: ReferenceScope) -> bool | None:
    """The result of the criterion with the initial memory; None if only a run can tell."""
    if any(before in criterion.text for before in _OF_A_RUN):
        return None
    entries = interpolate(spec.memory, scope)
    locale = None if spec.browser is None else spec.browser.locale
    asked = evaluate(criterion, MemoryAlone(entries, locale), NoTime(), Deadline.after(0.0, 0.0))
    try:
        asked.send(None)
    except StopIteration as settled:
        return bool(settled.value.holds)
    except UnknownError:
        return None
    asked.close()
    return None


def _may_change(spec: TaskSpec, criterion: Criterion) -> bool:
    """Return whether a step, a repair, the environment or another task may write what the criterion reads."""
    changing = written(spec) | set(spec.state_bindings)
    known_here = all(key in spec.memory for key in criterion.memory_keys)
    chosen_by_agent = not spec.only_its_steps
    others = shares_memory(spec) and not known_here
    return chosen_by_agent or others or any(touches(key, changing) for key in criterion.memory_keys)


class MemoryAlone:
    """Sources that know only the initial memory."""

    def __init__(self, entries: dict[str, Any], locale: str | None) -> None:
        self._entries = entries
        self.locale = locale

    async def page(self, query: PageQuery, until: float) -> Never:  # noqa: ARG002 (as criteria.Sources has it)
        raise UnknownError(query)

    async def memory(self) -> dict[str, Json]:
        return self._entries

    async def channel(self, name: str) -> Never:
        raise UnknownError(name)

    async def happened(self, function: str, pattern: str, until: float) -> Never:  # noqa: ARG002 (as criteria.Sources has it)
        raise UnknownError(function)

    async def result(self) -> Never:
        raise UnknownError

    def of(self, user: str) -> MemoryAlone:  # noqa: ARG002 (as criteria.Sources has it)
        return self

    def now(self) -> Never:
        raise UnknownError


class NoTime:
    """A clock that cannot wait: the result of a wait is unknown before the run."""

    def now(self) -> float:
        return 0.0

    def wall(self) -> datetime:
        raise UnknownError

    async def sleep(self, seconds: float) -> Never:
        raise UnknownError(seconds)
