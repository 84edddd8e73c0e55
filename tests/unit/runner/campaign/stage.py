"""A small campaign: two tasks, three faults, and a stand-in for what runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from harness.model.plan import Plan
from harness.model.record import Attempt, MetFault, StepRecord, TaskResult
from harness.model.settings import Settings
from harness.recovery.failure import Failure, Passed
from harness.runner.campaign.trials import Attack, attacks
from harness.runner.loop import LoopThread
from harness.runner.sync import SyncHarness
from harness.runner.trials import TrialRunner
from harness.spec.fault_plan import LoadedFaultPlan, load_fault_plan
from harness.spec.loaded import Loaded
from tests.unit.reporting.sample import START
from tests.unit.spec.files import loaded, task, write

FAULTS = """
name: small
seed: 5
faults:
  - {tasks: A, kind: refuse, host: shop.local, connections: 1, expect: {code: NET_CONNECTION_REFUSED, recovered: true}}
  - {tasks: "*", id: crash, kind: page_crash, step: 1, expect: {recovered: false}}
  - {tasks: A, kind: slow, url: "http://${inputs.host}/*", times: 1, seconds: 1, expect: {code: null, recovered: true}}
"""
REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
CRASHED = Failure("PAGE_CRASHED", "crashed")


def tasks(folder: Path, **fields: Any) -> list[Loaded]:
    a = task(task_id="A", inputs={"host": "shop.local"}, **fields)
    b = task(task_id="B", dependencies=["A"], **fields)
    return [loaded(folder, a, "a.task.json"), loaded(folder, b, "b.task.json")]


def plan(folder: Path, text: str = FAULTS) -> LoadedFaultPlan:
    return load_fault_plan(write(folder, text, "small.faults.yaml"))


def made(folder: Path, text: str = FAULTS, **fields: Any) -> list[Attack]:
    return attacks(plan(folder, text), tasks(folder, **fields), Settings(), "run")


class Runner:
    """Ends tasks as told: a fault's kind -> (what its step fails with first, what the task fails with)."""

    def __init__(self, **endings: tuple[Failure | None, Failure | None]) -> None:
        self.endings = endings
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> TaskResult:
        self.plans.append(plan)
        fault = plan.faults[-1] if plan.faults else None
        first, last = self.endings.get(fault.kind if fault else "clean", (None, None))
        outcomes = [first] if first else []
        outcomes += [last or Passed()]  # type: ignore[list-item]
        tries = tuple(Attempt(plan.steps[0], n, 1, START, outcome) for n, outcome in enumerate(outcomes))
        struck = (MetFault(fault.id, fault, 1, (0.0,)),) if fault else ()
        history = (StepRecord(0, plan.steps[0], tries),)
        state = "failed" if last else "completed"
        index = 0 if last else None
        return TaskResult(plan.task_id, plan.key, state, history, START, 2.0, 3, last, index, faults=struck)  # type: ignore[arg-type]

    async def play(self, plan: Plan, *_: object, quiet: bool = False) -> TaskResult:
        return self(plan)


@contextmanager
def trials(
    runner: Runner, workers: int | Literal["auto"] = 1, slots: int | None = None, **settings: Any
) -> Iterator[TrialRunner]:
    """What makes trials of tasks that end as told, on a loop of its own."""
    loop, there = LoopThread(), Settings(task_workers=workers)
    harness = SimpleNamespace(begin=loop.begin, play=runner.play, slots=slots, settings=there)
    try:
        yield TrialRunner(cast("SyncHarness", harness), lambda _event: None)
    finally:
        loop.close()
