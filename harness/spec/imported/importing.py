"""Suites of Playwright tests as task files. Every test is written or reported; nothing of a suite is executed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from harness.spec.imported.project import SuiteProject
from harness.spec.imported.script import steps_of
from harness.spec.imported.suite import FollowedTest, tests_of
from harness.spec.imported.written import Groups, WrittenTask, task_of
from harness.spec.recorded.journey import Omission

Result = Literal["complete", "draft", "none"]


class ImportedTest(Struct, frozen=True):
    """One test, or one case of it, with the task that it became."""

    file: Path
    name: str
    statements: int
    task: WrittenTask | None
    """None if the test leads to no step."""
    followed: FollowedTest

    @property
    def result(self) -> Result:
        if self.task is None:
            return "none"
        return "draft" if self.task.missing else "complete"

    @property
    def missing(self) -> tuple[Omission, ...]:
        return tuple(self.followed.script.missing) if self.task is None else self.task.missing


class Import:
    """The import of the files of a suite."""

    def __init__(self, given: Mapping[str, str], taken: Iterable[str] = ()) -> None:
        self._project = SuiteProject(given)
        self._taken = {name.casefold() for name in taken}
        self.groups = Groups()

    def tests(self, file: Path) -> list[ImportedTest]:
        """The tests of a file. Raises OSError, SyntaxError, UnicodeDecodeError for one that cannot be read."""
        return [self._one(test, file) for test in tests_of(self._project, file)]

    def _one(self, test: FollowedTest, file: Path) -> ImportedTest:
        shown = f"{test.name}[{test.case}]" if test.case else test.name
        task = None
        if steps_of(test.script.lines):
            task = task_of(test, self._id(test, file), file, self.groups)
        return ImportedTest(file, shown, test.script.statements, task, test)

    def again(self, one: ImportedTest, why: Omission) -> ImportedTest:
        """The same test as a draft, because of one more thing that is missing."""
        assert one.task is not None
        task = task_of(one.followed, one.task.task_id, one.file, self.groups, (why,))
        return ImportedTest(one.file, one.name, one.statements, task, one.followed)

    def _id(self, test: FollowedTest, file: Path) -> str:
        stem = re.sub(r"^test_|_test$|\.(spec|test)$", "", file.stem)
        name = re.sub(r"^test_?", "", test.name) if test.name != "run" else stem
        bare = re.sub(r"[^\w.-]+", "-", (f"{name}-{test.case}" if test.case else name or stem).replace("_", "-")).strip(
            "-."
        )[:120]
        bare = bare or stem
        wanted = (bare, f"{stem}-{bare}".replace("_", "-"), *(f"{bare}-{number}" for number in range(2, 10_000)))
        found = next(each for each in wanted if each.casefold() not in self._taken)
        self._taken.add(found.casefold())
        return found
