"""The task files as they are now, for evidence that names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from harness.regrade.documents import UnusableEvidenceError
from harness.regrade.recorded import Recorded
from harness.reporting.files import inside
from harness.spec.defaults import Defaults
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError

DefaultsOf = Callable[[Path], Sequence[Defaults]]
"""Task file -> the defaults of its project."""


def no_defaults(_file: Path) -> Sequence[Defaults]:
    """The file says everything itself."""
    return ()


class NamedTasks:
    """The files that were named: tasks are found in them by their id."""

    def __init__(self, specs: Iterable[Path], defaults: DefaultsOf = no_defaults) -> None:
        """Raises SpecError for a file that is none, or has errors."""
        files = (_cases(path, defaults) for path in find_tasks(specs))
        self._tasks: Mapping[str, Loaded] = {each.spec.task_id: each for cases in files for each in cases}

    def of(self, evidence: Recorded) -> Loaded:
        """Raises UnusableEvidenceError."""
        if evidence.task_id not in self._tasks:
            raise UnusableEvidenceError("no file of --spec has its task_id")
        return self._tasks[evidence.task_id]


class OwnTasks:
    """The file that the evidence itself names, when it is in one of these folders: evidence is not trusted."""

    def __init__(self, roots: Sequence[Path], defaults: DefaultsOf = no_defaults) -> None:
        self._roots = roots
        self._cases = cache(partial(_cases, defaults=defaults))

    def of(self, evidence: Recorded) -> Loaded:
        """Raises UnusableEvidenceError."""
        if not evidence.source:
            raise UnusableEvidenceError("it does not say which file it is of; name it with --spec")
        path = next((root / evidence.source for root in self._roots if _there(root, evidence.source)), None)
        if path is None:
            raise UnusableEvidenceError(f"its file {evidence.source} is not there; name it with --spec")
        try:
            cases = self._cases(path)
        except SpecError as error:
            raise UnusableEvidenceError(f"its file has errors: {str(error).splitlines()[0]}") from error
        found = next((case for case in cases if case.spec.task_id == evidence.task_id), None)
        if found is None:
            raise UnusableEvidenceError(f"its file {evidence.source} has no such task any more")
        return found


def _there(root: Path, source: str) -> bool:
    path = root / source
    try:
        return path.is_file() and inside(root, path)
    except (OSError, ValueError):  # a name that no file can have
        return False


def _cases(path: Path, defaults: DefaultsOf) -> tuple[Loaded, ...]:
    return expand(load_file(path, needs_steps=False, defaults=defaults(path)))
