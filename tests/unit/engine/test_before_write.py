"""A write begins only when it is recorded, outside of the process, that its task has begun to write."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.engine import run_task
from harness.model.record import TaskResult
from harness.recovery.failure import Failed, Failure
from harness.values import replace
from tests.unit.fakes import Theatre

STEPS = [
    {"act": "open", "url": "http://shop.local/"},
    {"act": "click", "selector": "#buy", "effect": "write"},
    {"act": "click", "selector": "#pay", "effect": "write"},
]


class Ledger:
    def __init__(self, theatre: Theatre, *, works: bool = True) -> None:
        self._theatre, self._works = theatre, works
        self.asked: list[tuple[str, int]] = []
        """Id of the task, and the number of acts before."""

    async def __call__(self, plan: Any) -> None:
        self.asked.append((plan.task_id, len(self._theatre.session.acts)))
        if not self._works:
            raise Failed(Failure("WORKER_CUT_OFF", "the store did not take it: nothing was sent"))


def play(theatre: Theatre, ledger: Ledger, **spec: Any) -> TaskResult:
    return asyncio.run(run_task(theatre.plan(**spec), replace(theatre.ports(), before_write=ledger)))


def test_it_is_recorded_before_the_act_and_only_for_writes() -> None:
    theatre = Theatre()
    ledger = Ledger(theatre)
    result = play(theatre, ledger, steps=STEPS)
    assert (result.failure, ledger.asked) == (None, [("T-1", 1), ("T-1", 2)])


def test_a_write_that_cannot_be_recorded_is_not_begun() -> None:
    theatre = Theatre()
    result = play(
        theatre, Ledger(theatre, works=False), steps=STEPS, error_recovery={"on_timeout": "retry_from_checkpoint"}
    )
    assert result.failure is not None
    assert (result.failure.code, result.failed_index, len(theatre.session.acts)) == ("WORKER_CUT_OFF", 1, 1)


def test_a_write_of_an_alternative_task_is_the_tasks_own() -> None:
    theatre = Theatre()
    ledger = Ledger(theatre)
    other = theatre.plan(task_id="T-2", steps=STEPS[1:2])
    plan = replace(theatre.plan(steps=[{"act": "click", "selector": "#a"}]), alternative=other)
    theatre.session.script = [Failure("ELEMENT_COVERED", "covered")] * 9
    asyncio.run(run_task(plan, replace(theatre.ports(), before_write=ledger)))
    assert {task for task, _ in ledger.asked} == {"T-1"}
