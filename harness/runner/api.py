"""Tasks from Python: load, assign, inject, execute."""

from __future__ import annotations

import atexit
import contextlib
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from harness.faults.python import (
    InjectedFault,
    InjectionError,
    PendingInjections,
    at_its_binding,
    check,
    fault_of,
    hosts,
    unknown_host,
)
from harness.model.outcome import ended_as_declared
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings, load_settings
from harness.runner.compile import compile_plan
from harness.spec.defaults import Defaults
from harness.spec.faults import FaultBase
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError
from harness.spec.suite import by_name, dependencies, tasks_before
from harness.spec.task import TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.reporting.story import TaskStory
    from harness.runner.sync import BegunRun

PENDING = PendingInjections()
"""The faults that the next task meets."""


class TaskExecution(Struct, frozen=True):
    """A task that `execute_task` has run."""

    story: TaskStory
    settings: Settings


EXECUTED: deque[TaskExecution] = deque(maxlen=10)
"""The last executed tasks, for the report of a test that fails because of them."""
_PASSED: set[tuple[Path, str]] = set()
"""Project and id of each task that ended as it declares when it was executed last."""


def load_task(task: str | Path) -> TaskSpec:
    """Load a task by the path of its file, or by its id among the files below `tasks/` of the project.

    `T[case]` is one case of a task with `parametrize`; of several cases one must be chosen before the task can be run.
    Raises SpecError for a file that cannot be used, LookupError for an unknown id.
    """
    path = Path(task)
    defaults = load_settings(_project()).defaults
    found = load_file(path, needs_steps=False, defaults=defaults) if path.exists() else _by_id(str(task), defaults)
    return found.spec.with_place(found.folder, found.source)


def execute_task(task: TaskSpec) -> TaskResult:
    """Run a task to its end; failures are in the result. Raises SpecError if it cannot be run as it is.

    The tasks that it depends on run first, unless they have passed in this process. If one does not pass, the task is
    not run: its result is `aborted`, and `skipped` says why. Injected faults strike only the task, after its own;
    raises InjectionError (a ValueError) for one that does not fit it. Browser and services are started with the first
    task and end with the process. Resilience events go to the logger `harness.resilience` (`log_profile`), and to
    `.harness/events/<run>.jsonl`; an output that fails is named once on standard error.
    """
    root = _project()
    harness = _run(root).harness
    place = task.place
    folder, source = place if place else (Path.cwd(), None)
    plan = compile_plan(task, settings=harness.settings, run_id=harness.run_id, folder=folder, source=source)
    injected = tuple(at_its_binding(fault, plan) for fault in PENDING.look())
    check(injected, plan, harness.settings)
    PENDING.forget()
    if why := _obstacle(task, folder, root):
        return TaskResult(plan.task_id, plan.key, "aborted", (), datetime.now(UTC), 0, len(plan.steps), skipped=why)
    return _executed(replace(plan, faults=(*plan.faults, *injected)), root)


def _executed(plan: Plan, root: Path) -> TaskResult:
    from harness.reporting.telling import story_of  # the harness has loaded it

    harness, events = (run := _run(root)).harness, run.stream
    result = harness.run(plan, events.on)
    for told in events.fence.unsaid():
        sys.stderr.write(f"{events.clean(told)}\n")
    EXECUTED.append(TaskExecution(story_of(plan, result, harness.archive.redactor), harness.settings))
    passed = ended_as_declared(plan.spec, result)
    (_PASSED.add if passed else _PASSED.discard)((root, plan.task_id))
    return result


def _obstacle(task: TaskSpec, folder: Path, root: Path) -> str:
    """Run the tasks that a task depends on; returns why it cannot be run, or an empty text.

    Raises SpecError for one that cannot be run as it is.
    """
    if not task.dependencies:
        return ""
    harness = _run(root).harness
    places = [each for each in (root / "tasks", folder) if each.is_dir()]
    tasks = {each.spec.task_id: each for each in _readable(places, harness.settings.defaults)}
    names, graph = by_name(tasks.values()), dependencies([*tasks.values()])
    if absent := next((name for name in task.dependencies if name not in names), None):
        return f"depends on {absent}, which no task file below {', '.join(map(str, places))} has"
    needed = tuple(dict.fromkeys(each for name in task.dependencies for each in names[name]))
    for name in tasks_before(task.task_id, {**graph, task.task_id: needed}):
        if (root, name) in _PASSED:
            continue
        result = _executed(compile_plan(tasks[name], settings=harness.settings, run_id=harness.run_id), root)
        if (root, name) not in _PASSED:
            failure = result.failure.message if result.failure else result.skipped or result.final_state
            return f"depends on {name}, which did not pass: {harness.archive.redactor.text(failure)}"
    return ""


def inject(fault: Mapping[str, Any] | FaultBase, *more: Mapping[str, Any] | FaultBase) -> InjectedFault:
    """Inject faults into the next `execute_task`, as under `faults:` in a file, or as `harness.spec.faults`.

    As a context manager they strike every task of the block. Raises InjectionError for a value that is no fault.
    """
    return PENDING.add(*map(fault_of, (fault, *more)))


def inject_network_failure(duration: float = 2000, *, host: str | None = None, step: int = 0) -> InjectedFault:
    """Make every host of the project's services refuse for `duration` milliseconds from the beginning of a step.

    With `host`, only that one refuses. Raises InjectionError if there are no hosts, and for an unknown host.
    """
    known = hosts(load_settings(_project()))
    if not known and host is None:
        raise InjectionError(
            "inject_network_failure: the project has no hosts in [tool.harness.services] that could refuse; "
            'inject({"kind": "offline", "seconds": 2}) takes the browser off the network instead'
        )
    refusal = {"kind": "refuse", "seconds": duration / 1000, "step": step}
    if host is not None:
        if host.lower() not in known:
            raise InjectionError(f"inject_network_failure: {unknown_host(host, known)}")
        return inject({**refusal, "host": host})
    name = f"network-failure-{duration:g}-{step}"  # one name, since it is one fault to the reader of a report
    return inject(*({**refusal, "host": each, "id": name} for each in known))


def simulate_delayed_state_update(
    key: str, value: Any, delay: float = 3, channel: str = "env", *, meanwhile: Any = None, step: int | None = None
) -> InjectedFault:
    """Delay a value of the environment by `delay` seconds from the beginning of a step.

    `key` is a path in the channel, or the name of one of the task's `state_bindings`, whose place is meant. Without
    `step` it is the first step before which the place exists, which the task may make itself. Until then it has the
    value `meanwhile`; without it the one that it had before, or null if that is `value` already. Raises InjectionError
    for an impossible delay.
    """
    fault = {"path": key, "value": value, "seconds": delay, "channel": channel, "meanwhile": meanwhile}
    return inject({"kind": "delayed_state", **fault, "step": step or 0, "when_there": step is None})


def clear_faults() -> None:
    """Remove all injected faults."""
    PENDING.clear()


def _by_id(task_id: str, defaults: Sequence[Defaults]) -> Loaded:
    root = _project() / "tasks"
    for path in find_tasks([root]) if root.is_dir() else ():
        try:
            loaded = load_file(path, needs_steps=False, defaults=defaults)
        except SpecError:
            continue  # another file with an error does not concern this task
        if found := task_named(task_id, (loaded, *expand(loaded))):
            return found
    raise LookupError(f"no task file below {root} has the task_id {task_id!r}")


def _readable(folders: Sequence[Path], defaults: Sequence[Defaults]) -> Iterator[Loaded]:
    """The tasks below some folders, each case as one. Files with errors do not concern the others."""
    for path in find_tasks(folders):
        with contextlib.suppress(SpecError):
            yield from expand(load_file(path, needs_steps=False, defaults=defaults))


def _project() -> Path:
    """The nearest folder with a pyproject.toml, from here upwards."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file()), here)


@lru_cache
def _run(root: Path) -> BegunRun:
    """The run of this process in a project. In pytest, `.harness/events.jsonl` leads to pytest's own run."""
    from harness.runner.sync import BegunRun

    run = BegunRun(load_settings(root), leads=False)
    atexit.register(run.close)
    return run
