"""Tasks from Python: load, assign, inject, execute."""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.faults.python import InjectedFault, InjectionError, PendingInjections, check, fault_of, hosts, unknown_host
from harness.model.plan import Plan, new_run_id
from harness.model.record import TaskResult
from harness.model.settings import Settings, load_settings
from harness.reporting.telemetry.log import RunEvents
from harness.runner.compile import compile_plan
from harness.spec.defaults import Defaults
from harness.spec.faults import FaultBase
from harness.spec.load import find_tasks, load_file
from harness.spec.loaded import Loaded
from harness.spec.parametrize import expand
from harness.spec.problems import SpecError
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from harness.reporting.redaction import Redactor
    from harness.runner.harness import SyncHarness

PENDING = PendingInjections()
"""What the next task meets."""


@dataclass(frozen=True, slots=True)
class TaskExecution:
    """A task that `execute_task` has run."""

    plan: Plan
    result: TaskResult
    settings: Settings
    redactor: Redactor


EXECUTED: deque[TaskExecution] = deque(maxlen=10)
"""The last ones, for the report of a test that fails because of them."""


def load_task(task: str | Path) -> TaskSpec:
    """A task by the path of its file, or by its id among the files below `tasks/` of the project.

    `T[case]` is one case of a task with `parametrize`; of several cases one must be chosen before the task can be run.
    Raises SpecError for a file that cannot be used, LookupError for an id that no file has.
    """
    path = Path(task)
    defaults = load_settings(_project()).defaults
    found = load_file(path, needs_steps=False, defaults=defaults) if path.exists() else _by_id(str(task), defaults)
    return found.spec.placed(found.folder, found.source)


def execute_task(task: TaskSpec) -> TaskResult:
    """Run a task to its end; failures are in the result. Raises SpecError when it cannot be run as it stands.

    Faults that were injected strike it after its own; InjectionError (a ValueError) for one that does not fit it.
    Browser and services are started with the first task and end with the process. What resilience does is told to the
    logger `harness.resilience` (`log_profile`), and to `.harness/events/<run>.jsonl`.
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
    """Faults for the next `execute_task`, written as under `faults:` in a file, or as objects of `harness.spec.faults`.

    As a context manager they strike every task of the block. Raises InjectionError for what is no fault.
    """
    return PENDING.add(*map(fault_of, (fault, *more)))


def inject_network_failure(duration: float = 2000, *, host: str | None = None, step: int = 0) -> InjectedFault:
    """For `duration` milliseconds from the beginning of a step on, every host of the project's services refuses.

    With `host`, only that one does. Raises InjectionError when there are none, and when there is no such host.
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
    name = f"network-failure-{duration:g}-{step}"  # one fault to those who read of it, so of one name
    return inject(*({**refusal, "host": each, "id": name} for each in known))


def simulate_delayed_state_update(
    key: str, value: Any, delay: float = 3, channel: str = "env", *, meanwhile: Any = None, step: int = 0
) -> InjectedFault:
    """The value at the path `key` of an environment channel arrives `delay` seconds after the beginning of a step.

    Until then the path holds `meanwhile`; without it, what it held before. A place that the task itself brings about is
    there only from a later `step` on. Raises InjectionError for what cannot be.
    """
    fault = {"path": key, "value": value, "seconds": delay, "channel": channel, "meanwhile": meanwhile, "step": step}
    return inject({"kind": "delayed_state", **fault})


def clear_faults() -> None:
    """Nothing that was injected strikes any more."""
    PENDING.clear()


def _by_id(task_id: str, defaults: Sequence[Defaults]) -> Loaded:
    root = _project() / "tasks"
    for path in find_tasks([root]) if root.is_dir() else ():
        try:
            loaded = load_file(path, needs_steps=False, defaults=defaults)
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
def _harness(root: Path) -> tuple[SyncHarness, RunEvents]:
    from harness.reporting.redaction import Redactor
    from harness.runner.harness import SyncHarness

    settings, run = load_settings(root), new_run_id(datetime.now(UTC), os.getpid())
    # This process may be one of pytest, with a run of its own: `.harness/events.jsonl` leads to that one.
    events = RunEvents(settings, run, Redactor.of(settings), leads=False)
    harness = SyncHarness(settings, run, events.emit)
    atexit.register(events.close)
    atexit.register(harness.close)
    return harness, events
