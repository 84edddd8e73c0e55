"""Leaves out tasks before `-k` and `-m` do: `only: true` in a file, and `--task-only-changed` by git."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.items import TaskItem
from harness.pytest_plugin.role import role_of, worker_input
from harness.pytest_plugin.selection import task_items
from harness.spec.checks import logins_of
from harness.spec.load import load_file
from harness.spec.loaded import Loaded
from harness.spec.names import how_many
from harness.spec.problems import SpecError
from harness.spec.suite import dependencies, needed_tasks
from harness.spec.used_files import uses

# What git reports as changed.

CHANGED = "taskspec_changed"
"""Key of `worker_input`: the files, since a worker that starts later could see others."""
_OPTION = "--task-only-changed"
_SECONDS = 60
"""How long git may take."""


def changed_files(config: pytest.Config) -> frozenset[Path] | None:
    """The files that `--task-only-changed` is about; None without it. Raises UsageError where git cannot tell."""
    since: str | None = config.getoption("task_only_changed")
    if since is None:
        return None
    told: list[str] | None = worker_input(config).get(CHANGED)
    if told is not None:
        return frozenset(map(Path, told))
    try:
        return frozenset(_changed_since(since, config.rootpath))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        hint = ""
        if (config.invocation_params.dir / since).exists():
            hint = f". To run this file or folder, write {_OPTION}=HEAD {since}"
        raise pytest.UsageError(f"{_OPTION} {since}: git does not say what has changed: {error}{hint}") from error


def _changed_since(since: str, folder: Path) -> list[Path]:
    """The files that differ from a revision, and those that git does not know. Raises ValueError and OSError."""
    if since.startswith("-"):
        raise ValueError("this is no revision")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").strip())
    _git(top, "rev-parse", "--verify", "--quiet", f"{since}^{{commit}}", problem=f"it knows no revision {since!r}")
    known = _git(top, "diff", "--name-only", "--no-renames", "-z", since, "--")
    new = _git(top, "ls-files", "--others", "--exclude-standard", "-z")
    return [(top / name).resolve() for name in f"{known}\0{new}".split("\0") if name]


def _git(folder: Path, *words: str, problem: str = "") -> str:
    """The output of a git command. Raises ValueError with what git says, or with this problem, and OSError."""
    done = subprocess.run(
        ["git", *words], cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
    )
    if done.returncode:
        raise ValueError(problem or done.stderr.strip() or f"git {words[0]} failed")
    return done.stdout


# Which tasks are left.


def focused(tasks: Sequence[Loaded]) -> set[str] | None:
    """The ids of the tasks with `only`, and of those that they depend on; None if no task has it."""
    return _with_dependencies([each for each in tasks if each.spec.only], tasks) or None


def touched(tasks: Sequence[Loaded], changed: Collection[Path], logins: Mapping[str, Loaded]) -> set[str]:
    """The ids of the tasks that use a changed file, and of those that they depend on.

    `logins`: name -> the task that logs in.
    """
    parts = [(task, (task, *(logins[name] for _, name in logins_of(task.spec) if name in logins))) for task in tasks]
    found = [task for task, used in parts if any(uses(each, path) for each in used for path in changed)]
    return _with_dependencies(found, tasks)


def _with_dependencies(chosen: Iterable[Loaded], tasks: Sequence[Loaded]) -> set[str]:
    return needed_tasks([each.spec.task_id for each in chosen], dependencies(tasks))


class Narrowing:
    """Deselects tasks before all else that selects items. Under xdist every worker does it."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._since = config.getoption("task_only_changed")
        self.changed = changed_files(config)
        self._settings = settings
        self.lines: list[str] = []
        """What was left out, and why. The summary says it again: such a run is easily taken for a whole one."""
        self._emptied = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.changed is not None:
            self._keep_touched(config, items, self.changed)
        self._keep_focused(config, items)

    def _keep_touched(self, config: pytest.Config, items: list[pytest.Item], changed: Collection[Path]) -> None:
        tasks = task_items(items)
        left = touched([item.loaded for item in tasks], changed, self._logins())
        kept = [item for item in items if not isinstance(item, TaskItem) or item.task_id in left]
        known = "is not committed" if self._since == "HEAD" else f"has changed since {self._since}"
        number = how_many(len(task_items(kept)), "task")
        self.lines.append(f"{_OPTION}: {number} of {len(tasks)} by what {known}, with their dependencies")
        self._emptied = bool(items) and not kept
        _deselect(config, items, kept)

    def _keep_focused(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        tasks = task_items(items)
        left = focused([item.loaded for item in tasks])
        if left is None:
            return
        kept: list[pytest.Item] = [item for item in tasks if item.task_id in left]
        places = dict.fromkeys(item.loaded.origin.place(("only",)) for item in tasks if item.loaded.spec.only)
        number = (
            f"{len(kept)} of {len(items)} tests" if len(items) > len(tasks) else f"{len(kept)} of {len(tasks)} tasks"
        )
        self.lines.append(f"only: {number} run, because of `only: true` in {', '.join(places)}")
        _deselect(config, items, kept)

    def _logins(self) -> dict[str, Loaded]:
        """Name of a login -> the task that logs in; one that cannot be loaded is told by the tasks that need it."""
        found: dict[str, Loaded] = {}
        for name, login in self._settings.logins.items():
            if login.task is not None:
                with suppress(SpecError):
                    found[name] = load_file(self._settings.root / login.task, defaults=self._settings.defaults)
        return found

    def pytest_report_collectionfinish(self) -> list[str]:
        return self.lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Make a run in which nothing has changed a success; tell the controller of xdist what was left out."""
        if self._emptied and exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK
        if not role_of(session.config).reports:
            session.config.workeroutput[NARROWED] = self.lines  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Take the lines of a worker, all of which leave out the same."""
        self.lines = self.lines or getattr(node, "workeroutput", {}).get(NARROWED, [])


NARROWED = "taskspec_narrowed"
"""Key of `workeroutput`: the lines."""


def _deselect(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    """Reduce the items to these, and let pytest count the others."""
    staying = set(kept)
    if dropped := [item for item in items if item not in staying]:
        config.hook.pytest_deselected(items=dropped)
    items[:] = kept
