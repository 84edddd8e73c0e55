"""Tasks from Python, as specs/003 7.1 writes them: load, assign, execute."""

from __future__ import annotations

import atexit
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.compile import compile_plan
from harness.record import TaskResult
from harness.settings import load_settings
from harness.spec.load import Loaded, find_tasks, load_file
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from harness.wiring import SyncHarness


def load_task(task: str | Path) -> TaskSpec:
    """A task by the path of its file, or by its id among the files below `tasks/` of the project.

    `T[case]` is one case of a task with `parametrize`; of several cases one must be chosen before the task can be run.
    Raises SpecError for a file that cannot be used, LookupError for an id that no file has.
    """
    path = Path(task)
    loaded = load_file(path, needs_steps=False) if path.exists() else _by_id(str(task))
    return loaded.spec.placed(loaded.folder, loaded.source)


def execute_task(task: TaskSpec) -> TaskResult:
    """Run a task to its end; failures are in the result. Raises SpecError when it cannot be run as it stands.

    Browser and services are started with the first task and end with the process.
    """
    harness = _harness(_project())
    place = task.place
    folder, source = place if place else (Path.cwd(), None)
    plan = compile_plan(task, settings=harness.settings, run_id=harness.run_id, folder=folder, source=source)
    return harness.run(plan, lambda _: None)


def _by_id(task_id: str) -> Loaded:
    root = _project() / "tasks"
    for path in find_tasks([root]) if root.is_dir() else ():
        try:
            loaded = load_file(path, needs_steps=False)
        except SpecError:
            continue  # a broken neighbour is not what was asked for
        for each in (loaded, *expand(loaded)):
            if each.spec.task_id == task_id:
                return each
    raise LookupError(f"no task file below {root} has the task_id {task_id!r}")


def _project() -> Path:
    """The nearest folder, from here upwards, with a pyproject.toml."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file()), here)


@lru_cache
def _harness(root: Path) -> SyncHarness:
    from harness.wiring import SyncHarness

    harness = SyncHarness(load_settings(root))
    atexit.register(harness.close)
    return harness
