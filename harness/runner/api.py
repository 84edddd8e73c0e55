"""Tasks from Python: load, assign, inject, execute."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from harness.faults.python import InjectedFault, InjectionError, PendingInjections, check, fault_of, hosts, unknown_host
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings, load_settings
from harness.reporting.telemetry.sinks import begun_stream
from harness.reporting.telemetry.stream import Telemetry
from harness.runner.compile import compile_plan
from harness.spec.defaults import Defaults
from harness.spec.faults import FaultBase
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.names import new_run_id
from harness.spec.parametrize import expand, task_named
from harness.spec.problems import SpecError
from harness.spec.task import TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.reporting.redaction import Redactor
    from harness.runner.harness import SyncHarness

PENDING = PendingInjections()
"""The faults that the next task meets."""


class TaskExecution(Struct, frozen=True):
    """A task that `execute_task` has run."""

    plan: Plan
    result: TaskResult
    settings: Settings
    redactor: Redactor


EXECUTED: deque[TaskExecution] = deque(maxlen=10)
"""The last executed tasks, for the report of a test that fails because of them."""


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

    Injected faults strike it after its own; raises InjectionError (a ValueError) for one that does not fit it. Browser
    and services are started with the first task and end with the process. Resilience events go to the logger
    `harness.resilience` (`log_profile`), and to `.harness/events/<run>.jsonl`.
    """
    harness, events = _harness(_project())
    place = task.place
    folder, source = place if place else (Path.cwd(), None)
    plan = compile_plan(task, settings=harness.settings, run_id=harness.run_id, folder=folder, source=source)
    injected = PENDING.look()
    check(injected, plan, harness.settings)
    PENDING.forget()
    struck = replace(plan, faults=(*plan.faults, *injected))
    result = harness.run(struck, events.on)
    EXECUTED.append(TaskExecution(struck, result, harness.settings, harness.redactor))
    return result


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
    key: str, value: Any, delay: float = 3, channel: str = "env", *, meanwhile: Any = None, step: int = 0
) -> InjectedFault:
    """Delay the value at the path `key` of an environment channel by `delay` seconds from the beginning of a step.

    Until then the path has the value `meanwhile`, or without it, the one that it had before. A path that the task
    itself creates exists only from a later `step` on. Raises InjectionError for an impossible delay.
    """
    fault = {"path": key, "value": value, "seconds": delay, "channel": channel, "meanwhile": meanwhile, "step": step}
    return inject({"kind": "delayed_state", **fault})


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


def _project() -> Path:
    """The nearest folder with a pyproject.toml, from here upwards."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file()), here)


@lru_cache
def _harness(root: Path) -> tuple[SyncHarness, Telemetry]:
    from harness.reporting.redaction import Redactor
    from harness.runner.harness import SyncHarness

    settings, run = load_settings(root), new_run_id(datetime.now(UTC), os.getpid())
    # This process may run in pytest, with a run of its own: `.harness/events.jsonl` leads to that one.
    events = begun_stream(settings, run, Redactor.of(settings), leads=False)
    harness = SyncHarness(settings, run, events.emit)
    atexit.register(events.close)
    atexit.register(harness.close)
    return harness, events
