"""What can be wrong with `parametrize`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.spec.origin import Origin
from harness.spec.parametrize import LONGEST_ID, MOST_CASES, case_of, cases, is_case_id
from harness.spec.problems import Problem, Way, did_you_mean, listed, shown
from harness.spec.task import TaskSpec

_NAME = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST_TASK_ID = 200


def parametrize_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Too few cases, too many, cases that are not alike, names that cannot be used."""
    declared = spec.parametrize
    if not declared:
        if "parametrize" in spec.model_fields_set:
            yield origin.problem(("parametrize",), "no cases: leave `parametrize` out, or give at least one", key=True)
        return
    count = math.prod(map(len, declared.values())) if isinstance(declared, Mapping) else len(declared)
    if count > MOST_CASES:
        yield origin.problem(("parametrize",), "too many cases", expected=f"at most {MOST_CASES}", found=str(count))
        return
    yield from _of_product(declared, origin) if isinstance(declared, Mapping) else _of_list(declared, origin)
    yield from _too_long(spec, origin)


def undecided(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """A task with several cases is not one that can be run."""
    found = cases(spec)
    if len(found) > 1:
        names = [f"{spec.task_id}[{case.id}]" for case in found]
        expected = listed(names) if len(names) < 10 else f"{', '.join(names[:3])}, ... {names[-1]}"
        yield origin.problem(
            ("parametrize",), f"{len(names)} cases, and which one to run is not said", expected=expected
        )


def _of_product(declared: Mapping[str, Sequence[Any]], origin: Origin) -> Iterator[Problem]:
    for name, values in declared.items():
        path: Way = ("parametrize", name)
        if name == "id":
            hint = "call it something else: `id` names a case where cases are listed"
            yield origin.problem(path, "a parameter cannot be called `id`", hint=hint, key=True)
        yield from _bad_name(path, name, origin)
        if not values:
            yield origin.problem(path, "no values: without one there is no case", expected="at least one value")


def _of_list(declared: Sequence[Mapping[str, Any]], origin: Origin) -> Iterator[Problem]:
    names = dict.fromkeys(name for row in declared for name in row if name != "id")
    first: dict[str, int] = {}
    for number, row in enumerate(declared):
        path: Way = ("parametrize", number)
        missing = [f"`{name}`" for name in names if name not in row]
        if missing or not names:
            message = f"the case has no {listed(missing)}" if missing else "the case has no values"
            expected = listed(names) if missing else "at least one name and its value"
            hint = _meant(row, names, declared) if number else ""
            yield origin.problem(path, message, expected=expected, hint=hint)
        yield from (problem for name in row for problem in _bad_name((*path, name), name, origin))
        if "id" in row:
            yield from _bad_id((*path, "id"), row["id"], first, number, origin)


def _meant(row: Mapping[str, Any], names: Mapping[str, None], declared: Sequence[Mapping[str, Any]]) -> str:
    """Of a case that has a misspelt name, and so lacks the right one."""
    missing = [name for name in names if name not in row]
    own = [name for name in row if name != "id" and sum(name in other for other in declared) == 1]
    return next((f"`{name}`: {hint}" for name in own if (hint := did_you_mean(name, missing))), "")


def _bad_name(path: Way, name: str, origin: Origin) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        expected = "a letter, then letters, digits, `_` and `-`"
        yield origin.problem(path, "not a name for a parameter", expected=expected, found=shown(name), key=True)


def _bad_id(path: Way, name: Any, first: dict[str, int], number: int, origin: Origin) -> Iterator[Problem]:
    """`first`: ids seen so far, and the case that has each; case does not count on some disks."""
    if not isinstance(name, str):
        simple = isinstance(name, int | float) and not isinstance(name, bool)
        hint = "put it in quotes" if simple else ""
        yield origin.problem(path, "the id of a case is a text", expected="text", found=shown(name), hint=hint)
    elif not is_case_id(name):
        expected = f"at most {LONGEST_ID} letters, digits, spaces and any of `_ . + @ = -`, no `..`"
        yield origin.problem(path, "not an id for a case", expected=expected, found=shown(name))
    elif first.setdefault(name.casefold(), number) != number:
        message = f"the id `{name}` is that of case {first[name.casefold()]} too"
        yield origin.problem(path, message, hint="every case needs an id of its own; capitals do not count")


def _too_long(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    longest = max((len(case.id) + 2 for case in cases(spec)), default=0)
    if case_of(spec) is None and len(spec.task_id) + longest > _LONGEST_TASK_ID:
        expected = f"at most {_LONGEST_TASK_ID} characters together with the longest id of a case"
        yield origin.problem(("task_id",), "the task_id is too long", expected=expected)
