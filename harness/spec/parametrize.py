"""`parametrize`: one file, many cases; `${param.x}` stands for the values of a case (docs/design/task-files.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any

from msgspec import Struct

from harness.spec.loaded import Loaded
from harness.spec.task import TaskSpec
from harness.values import replace

MOST_CASES = 1000
LONGEST_ID = 60
_ID = re.compile(r"[\w+@=-](?:[\w .+@=-]*[\w+@=-])?")


def is_case_id(name: str) -> bool:
    """Return whether a name may be used in node ids, on command lines and in directory names."""
    return len(name) <= LONGEST_ID and ".." not in name and _ID.fullmatch(name) is not None


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
    whole = spec.task_id.removesuffix(_suffix(spec.profile))
    return next((case for case in only if whole.endswith(f"[{case.id}]")), None)


def base_id(spec: TaskSpec) -> str:
    """The `task_id` of all cases: `T` for the case `T[a]`, and `T[mobile]` for `T[a][mobile]`, with that profile."""
    case, profile = case_of(spec), _suffix(spec.profile)
    return spec.task_id.removesuffix(profile).removesuffix(_suffix(case.id if case else None)) + profile


def _suffix(name: str | None) -> str:
    return f"[{name}]" if name else ""


def with_profile(loaded: Loaded, name: str) -> Loaded:
    """The same task with a browser profile, as `TASK_ID[name]`. It depends on tasks with the same profile."""
    spec, suffix = loaded.spec, _suffix(name)
    changed = {
        "task_id": spec.task_id + suffix,
        "dependencies": tuple(other + suffix for other in spec.dependencies),
        "episode_id": spec.episode_id and spec.episode_id + suffix,
    }
    return replace(loaded, spec=spec.model_copy(update=changed).with_profile(name), warnings=())


def param(spec: TaskSpec) -> Mapping[str, Any] | None:
    """The values of `${param.x}`; None while it is undecided which of several cases is meant."""
    found = cases(spec)
    if not found:
        return {}
    return found[0].values if len(found) == 1 else None


def expand(loaded: Loaded, profiles: Sequence[str] = ()) -> tuple[Loaded, ...]:
    """One task for each case, named `TASK_ID[case]`; the task itself if it has no cases or is one already.

    With `profiles`, each of them once for each browser profile, named `TASK_ID[case][profile]`.
    """
    found = _expanded(loaded)
    return tuple(with_profile(each, name) for each in found for name in profiles) or found


def task_named(task_id: str, tasks: Sequence[Loaded]) -> Loaded | None:
    """The one of these tasks that an id names, with the browser profile that the id ends in; None if there is none."""
    if found := next((each for each in tasks if each.spec.task_id == task_id), None):
        return found
    whole, bracket, profile = task_id.removesuffix("]").rpartition("[")
    if not bracket or not is_case_id(profile):
        return None
    return next((with_profile(each, profile) for each in tasks if each.spec.task_id == whole), None)


def _expanded(loaded: Loaded) -> tuple[Loaded, ...]:
    if case_of(loaded.spec) is not None:
        return (loaded,)
    found = cases(loaded.spec)
    return tuple(replace(loaded, spec=_task_for_case(loaded.spec, case), warnings=()) for case in found) or (loaded,)


def _task_for_case(spec: TaskSpec, case: Case) -> TaskSpec:
    """The task for this one case."""
    changed = {"task_id": f"{spec.task_id}[{case.id}]", "parametrize": [{"id": case.id, **case.values}]}
    return spec.model_copy(update=changed)


def _rows(declared: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The names and values of each case; for lists their cross product, in which the last name changes fastest."""
    if not isinstance(declared, Mapping):
        return declared[: MOST_CASES + 1]
    combinations = product(*declared.values()) if declared else ()
    return (dict(zip(declared, values, strict=True)) for values in islice(combinations, MOST_CASES + 1))


def _declared_id(row: Mapping[str, Any]) -> str | None:
    name = row.get("id")
    return name if isinstance(name, str) and name else None


def _values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


def _unique_id(number: int, row: Mapping[str, Any], taken: set[str]) -> str:
    """An id that no other case has; some disks do not distinguish `A` from `a`."""
    name = "-".join(_simple_values(_values(row).values()))
    if name.casefold() in taken or not is_case_id(name):
        name = f"case{number}"
        while name.casefold() in taken:
            name += "_"
    taken.add(name.casefold())
    return name


def _simple_values(values: Iterable[Any]) -> Iterator[str]:
    """Simple values as the file writes them. Another value has no text, and then the case gets no name."""
    for value in values:
        if isinstance(value, str):
            yield value or "\0"
        else:
            yield json.dumps(value)
