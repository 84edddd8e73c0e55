"""An invalid fault is not the step's mistake: the hint names the fault, and where it stands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.faults.network import name_fault, prepare
from harness.model.ports import Injection, Undo
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.runner.compile import compile_plan
from harness.spec.faults import PageCrash
from tests.unit.faults.conftest import ManualClock
from tests.unit.faults.test_injector import CLICK, play
from tests.unit.spec.files import HEAD, loaded, write

WRONG = Failure("INVALID_INPUT", "no CSS selector")


class Refusing:
    """Hands that take no fault."""

    async def strike(self, strike: Injection) -> Undo | None:
        raise Failed(WRONG)


def test_the_hint_names_the_fault_and_its_line() -> None:
    fault = PageCrash().with_source("a.faults.yaml:7")
    hint = name_fault(Failed(WRONG), fault).failure.hint
    assert hint.startswith("Fix the fault `page_crash` (a.faults.yaml:7) as ")
    assert "(injected from Python)" in name_fault(Failed(WRONG), PageCrash()).failure.hint


def test_what_is_not_the_faults_mistake_keeps_its_hint() -> None:
    failed = Failed(Failure("CHANNEL_UNREADABLE", "it is down"))
    assert name_fault(failed, PageCrash()) is failed


def test_faults_know_the_line_that_declares_them(tmp_path: Path) -> None:
    text = HEAD + "faults:\n  - {kind: page_crash}\n  - {kind: popup, url: '/${inputs.u}'}\ninputs: {u: x}\n"
    plan = write(tmp_path, "faults:\n  - {kind: page_crash}\n", "p.faults.yaml")
    task = loaded(tmp_path, text)
    faults = compile_plan(task, settings=Settings(faults=(plan,)), run_id="r").faults
    assert [each.source for each in faults] == [f"{task.source}:6", f"{task.source}:7", f"{plan}:2"]


def test_the_injector_blames_the_fault_that_could_not_strike() -> None:
    async def main() -> None:
        async with play({"kind": "page_crash"}) as one:
            one.injector.attach(Refusing())
            with pytest.raises(Failed) as caught:
                await one.step(0, CLICK)
            assert caught.value.failure.hint.startswith("Fix the fault `page_crash`")
            assert one.injector.results()[0].problem == WRONG.message

    asyncio.run(main())


def test_a_host_that_there_is_not_is_the_faults_mistake(tmp_path: Path) -> None:
    text = HEAD + "faults: [{kind: hang, url: 'http://a.b/*'}]\n"
    faults = compile_plan(loaded(tmp_path, text), settings=Settings(), run_id="r").faults
    with pytest.raises(Failed) as caught:
        asyncio.run(prepare(faults, hosts={"shop.local": 1}, clock=ManualClock()))
    assert "Fix the fault `hang`" in caught.value.failure.hint
    assert "t.task.yaml:5)" in caught.value.failure.hint
