"""`parametrize`: one file, many cases; `${param.x}` stands for the values of a case (docs/design/task-files.md)."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from msgspec import Struct

from harness.spec.loaded import Loaded
from harness.spec.problems import JsonPath, Problem, did_you_mean, join_or
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from harness.values import replace

_MOST_CASES = 1000
MOST_PARAMETERS = 100
MOST_CHECKED = 5000
"""Texts with references, times the cases whose values are filled in to check them before a run."""
_LONGEST_ID = 60
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST_TASK_ID = 200
_REPETITION = re.compile(r"[1-9]\d*-[1-9]\d*")
_ID = re.compile(r"[\w+@=-](?:[\w .+@=-]*[\w+@=-])?")


def is_case_id(name: str) -> bool:
    """Return whether a name may be used in node ids, on command lines and in directory names."""
    return len(name) <= _LONGEST_ID and ".." not in name and _ID.fullmatch(name) is not None


class Case(Struct, frozen=True):
    """One set of parameter values."""

    id: str
    values: Mapping[str, Any]


def cases(spec: TaskSpec) -> tuple[Case, ...]:
    """The cases in the order of the file; none without `parametrize`. At most one more than is allowed."""
    rows = tuple(_rows(spec.parametrize))
    taken = {name.casefold() for row in rows if (name := _declared_id(row))}
    return tuple(
        Case(_declared_id(row) or _unique_id(number, row, taken), _values(row)) for number, row in enumerate(rows)
    )


def case_of(spec: TaskSpec) -> Case | None:
    """The case of a task that `expand` has made."""
    only = cases(spec) if isinstance(spec.parametrize, list) and len(spec.parametrize) == 1 else ()
    whole = spec.task_id.removesuffix(spec.variant)
    return next((case for case in only if whole.endswith(f"[{case.id}]")), None)


def base_id(spec: TaskSpec) -> str:
    """The `task_id` of all cases: `T` for the case `T[a]`, and `T[mobile]` for `T[a][mobile]`, with that profile."""
    case = case_of(spec)
    return spec.task_id.removesuffix(spec.variant).removesuffix(_suffix(case.id if case else None)) + spec.variant


def _suffix(name: str | None) -> str:
    return f"[{name}]" if name else ""


def _renamed(loaded: Loaded, suffix: str) -> TaskSpec:
    """The same task as `TASK_ID[suffix]`. It depends on tasks with the same suffix, and so does its episode."""
    spec = loaded.spec
    changed = {
        "task_id": spec.task_id + suffix,
        "dependencies": tuple(other + suffix for other in spec.dependencies),
        "episode_id": spec.episode_id and spec.episode_id + suffix,
    }
    return spec.model_copy(update=changed)


def _with_profile(loaded: Loaded, name: str) -> Loaded:
    return replace(loaded, spec=_renamed(loaded, _suffix(name)).with_profile(name), warnings=())


def _repeated(loaded: Loaded, name: str) -> Loaded:
    return replace(loaded, spec=_renamed(loaded, _suffix(name)).with_repetition(name), warnings=())


def param(spec: TaskSpec) -> Mapping[str, Any] | None:
    """The values of `${param.x}`; None while it is undecided which of several cases is meant."""
    found = cases(spec)
    if not found:
        return {}
    return found[0].values if len(found) == 1 else None


def expand(loaded: Loaded, profiles: Sequence[str] = (), repeat: int = 1) -> tuple[Loaded, ...]:
    """One task for each case, named `TASK_ID[case]`; the task itself if it has no cases or is one already.

    With `profiles`, each of them once for each browser profile, named `TASK_ID[case][profile]`. `repeat`: each of those
    so many times, named as by pytest-repeat: `TASK_ID[1-3]`, `TASK_ID[2-3]`, ...
    """
    found = _expanded(loaded)
    found = tuple(_with_profile(each, name) for each in found for name in profiles) or found
    if repeat == 1:
        return found
    return tuple(_repeated(each, f"{number}-{repeat}") for each in found for number in range(1, repeat + 1))


def task_named(task_id: str, tasks: Sequence[Loaded]) -> Loaded | None:
    """The one of these tasks that an id names; None if there is none.

    It has the browser profile and the repetition that the id ends in.
    """
    if found := next((each for each in tasks if each.spec.task_id == task_id), None):
        return found
    whole, bracket, name = task_id.removesuffix("]").rpartition("[")
    if not bracket or not is_case_id(name):
        return None
    if _REPETITION.fullmatch(name):
        there = task_named(whole, tasks)
        return there and _repeated(there, name)
    return next((_with_profile(each, name) for each in tasks if each.spec.task_id == whole), None)


def _expanded(loaded: Loaded) -> tuple[Loaded, ...]:
    if case_of(loaded.spec) is not None:
        return (loaded,)
    found = cases(loaded.spec)
    spec = loaded.spec
    tasks = (
        {"task_id": f"{spec.task_id}[{case.id}]", "parametrize": [{"id": case.id, **case.values}]} for case in found
    )
    return tuple(replace(loaded, spec=spec.model_copy(update=each), warnings=()) for each in tasks) or (loaded,)


def _rows(declared: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The names and values of each case; for lists their cross product, in which the last name changes fastest."""
    if not isinstance(declared, Mapping):
        return declared[: _MOST_CASES + 1]
    combinations = product(*declared.values()) if declared else ()
    return (dict(zip(declared, values, strict=True)) for values in islice(combinations, _MOST_CASES + 1))


def _declared_id(row: Mapping[str, Any]) -> str | None:
    name = row.get("id")
    return name if isinstance(name, str) and name else None


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


def _unique_id(number: int, row: Mapping[str, Any], taken: set[str]) -> str:
    """An id that no other case has; some disks do not distinguish `A` from `a`."""
    words, length = [], 0
    for value in _values(row).values():
        # Simple values as the file writes them. An empty text, or a value that is not simple, gives no name.
        word = (value or "\0") if isinstance(value, str) else json.dumps(value)
        words.append(word)
        length += len(word) + 1
        if length > _LONGEST_ID + 1:
            break
    name = "-".join(words)
    if name.casefold() in taken or not is_case_id(name):
        name = f"case{number}"
        while name.casefold() in taken:
            name += "_"
    taken.add(name.casefold())
    return name


def parametrize_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield problems for too few or too many cases, cases with different names, and unusable names."""
    declared = spec.parametrize
    if not declared:
        if "parametrize" in spec.model_fields_set:
            yield origin.problem(("parametrize",), "no cases: leave `parametrize` out, or give at least one", key=True)
        return
    count = math.prod(map(len, declared.values())) if isinstance(declared, Mapping) else len(declared)
    if count > _MOST_CASES:
        found = str(count) if count < sys.maxsize else "more"
        yield origin.problem(("parametrize",), "too many cases", expected=f"at most {_MOST_CASES}", found=found)
        return
    yield from _of_product(declared, origin) if isinstance(declared, Mapping) else _of_list(declared, origin)
    longest = max((len(case.id) + 2 for case in cases(spec)), default=0)
    if case_of(spec) is None and len(spec.task_id) + longest > _LONGEST_TASK_ID:
        expected = f"at most {_LONGEST_TASK_ID} characters together with the longest id of a case"
        yield origin.problem(("task_id",), "the task_id is too long", expected=expected)


def undecided(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a problem if a task with several cases is to run as a single task."""
    found = cases(spec)
    if len(found) > 1:
        names = [f"{spec.task_id}[{case.id}]" for case in found]
        expected = join_or(names) if len(names) < 10 else f"{', '.join(names[:3])}, ... {names[-1]}"
        yield origin.problem(
            ("parametrize",), f"{len(names)} cases, and it is not clear which one to run", expected=expected
        )


def _of_product(declared: Mapping[str, Sequence[Any]], origin: Origin) -> Iterator[Problem]:
    for name, values in declared.items():
        path: JsonPath = ("parametrize", name)
        if name == "id":
            hint = "choose another name: `id` names a case where cases are listed"
            yield origin.problem(path, "a parameter cannot be called `id`", hint=hint, key=True)
        yield from _bad_name(path, name, origin)
        if not values:
            yield origin.problem(path, "no values, so there would be no case", expected="at least one value")


def _of_list(declared: Sequence[Mapping[str, Any]], origin: Origin) -> Iterator[Problem]:
    names = dict.fromkeys(name for row in declared for name in row if name != "id")
    first: dict[str, int] = {}
    for number, row in enumerate(declared):
        path: JsonPath = ("parametrize", number)
        missing = [f"`{name}`" for name in names if name not in row]
        if missing or not names:
            message = f"the case has no {join_or(missing)}" if missing else "the case has no values"
            expected = join_or(names) if missing else "at least one name and its value"
            hint = _misspelling_hint(row, names, declared) if number else ""
            yield origin.problem(path, message, expected=expected, hint=hint)
        yield from (problem for name in row for problem in _bad_name((*path, name), name, origin))
        if "id" in row:
            yield from _bad_id((*path, "id"), row["id"], first, number, origin)


def _misspelling_hint(row: Mapping[str, Any], names: Mapping[str, None], declared: Sequence[Mapping[str, Any]]) -> str:
    """A hint for a case that has a misspelt name in place of the right one."""
    missing = [name for name in names if name not in row]
    own = [name for name in row if name != "id" and sum(name in other for other in declared) == 1]
    return next((f"`{name}`: {hint}" for name in own if (hint := did_you_mean(name, missing))), "")


def _bad_name(path: JsonPath, name: str, origin: Origin) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        expected = "a letter, then letters, digits, `_` and `-`"
        yield origin.problem(path, "not a name for a parameter", expected=expected, value=name, key=True)


def _bad_id(path: JsonPath, name: Any, first: dict[str, int], number: int, origin: Origin) -> Iterator[Problem]:
    """Yield problems of a case id. `first`: id -> its case so far; letter case does not count on some disks."""
    if not isinstance(name, str):
        simple = isinstance(name, int | float) and not isinstance(name, bool)
        hint = "put it in quotes" if simple else ""
        yield origin.problem(path, "the id of a case is a text", expected="text", value=name, hint=hint)
    elif not is_case_id(name):
        expected = f"at most {_LONGEST_ID} letters, digits, spaces and any of `_ . + @ = -`, no `..`"
        yield origin.problem(path, "not an id for a case", expected=expected, value=name)
    elif first.setdefault(name.casefold(), number) != number:
        message = f"the id `{name}` is already the id of case {first[name.casefold()]}"
        yield origin.problem(path, message, hint="every case needs its own id; upper and lower case count as the same")
