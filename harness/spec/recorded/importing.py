"""Imported tests as tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from harness.spec.recorded.journey import Journey, Omission, journey_of
from harness.spec.recorded.python_tests import ImportedTest, imported_tests
from harness.spec.recorded.text import TaskText

_NOTHING_CHECKED = ("The test expects nothing at its end. Say here what must be true at the end of the task,",)
_EXAMPLE = "for example  \"text('#order-status') == 'confirmed'\""


class ImportedTask(Struct, frozen=True):
    """A test as a task."""

    task_id: str
    text: str
    steps: int
    statements: int
    missing: tuple[Omission, ...]


def imported_tasks(source: str, file: str, taken: Iterable[str] = ()) -> list[ImportedTask]:
    """The tasks of a file with tests; their ids are unlike those in `taken`. Raises SyntaxError."""
    known = {name.casefold() for name in taken}
    found = []
    for test in imported_tests(source, file):
        task_id = _id(test.name, file, known)
        known.add(task_id.casefold())
        found.append(_task(test, task_id, file))
    return found


def _id(name: str, file: str, taken: set[str]) -> str:
    stem = re.sub(r"^test_|_test$", "", file.rpartition("/")[2].removesuffix(".py"))
    bare = re.sub(r"^test_?", "", name) if name != "run" else stem
    bare = (bare or stem).replace("_", "-")
    wanted = (bare, f"{stem}-{bare}".replace("_", "-"), *(f"{bare}-{number}" for number in range(2, 10_000)))
    return next(each for each in wanted if each.casefold() not in taken)


def _task(test: ImportedTest, task_id: str, file: str) -> ImportedTask:
    journey = journey_of(test.actions)
    notes = () if journey.criteria or _checks(journey) else (*_NOTHING_CHECKED, _EXAMPLE)
    text = TaskText(
        head=(f"Imported from {file.rpartition('/')[2]}: {test.name}.", *_unfinished(journey.missing)),
        keys={"task_id": task_id, "goal": test.goal, **test.keys, "expect_timeout": 5},
        steps=journey.steps,
        criteria=journey.criteria,
        criteria_notes=notes,
    )
    steps = len([step for step in journey.steps if step.keys])
    return ImportedTask(task_id, str(text), steps, test.statements, journey.missing)


def _checks(journey: Journey) -> bool:
    return any(step.keys.get("act") in ("assert", "wait") for step in journey.steps)


def _unfinished(missing: Sequence[Omission]) -> Sequence[str]:
    if not missing:
        return ()
    return (f"It is not complete: {len(missing)} parts of the test are missing; each has a comment `MISSING` below.",)
