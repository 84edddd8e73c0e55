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
    return next((case for case in only if spec.task_id.endswith(f"[{case.id}]")), None)


def base_id(spec: TaskSpec) -> str:
    """The `task_id` in the file: `T` for the case `T[a]`."""
    case = case_of(spec)
    return spec.task_id.removesuffix(f"[{case.id}]") if case else spec.task_id


def param(spec: TaskSpec) -> Mapping[str, Any] | None:
    """The values of `${param.x}`; None while it is undecided which of several cases is meant."""
    found = cases(spec)
    if not found:
        return {}
    return found[0].values if len(found) == 1 else None


def expand(loaded: Loaded) -> tuple[Loaded, ...]:
    """One task for each case, named `TASK_ID[case]`; the task itself if it has no cases or is one already."""
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
