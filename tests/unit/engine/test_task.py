"""A task from start to end: preconditions, memory, criteria, evidence, interruption."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.failure import Failed, Failure
from tests.unit.fakes import Theatre

OPEN = {"act": "open", "url": "http://shop.local/"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def test_a_precondition_that_does_not_hold_keeps_the_task_from_starting() -> None:
    theatre = Theatre()
    result = play(theatre, preconditions=["mem('address') != null"])
    assert (result.final_state, result.failed_index, theatre.session.acts) == ("aborted", -1, [])
    assert result.error is not None
    assert (result.error.error_type, result.error.step_index) == ("precondition_not_met", -1)
    assert "mem('address')" in result.error.error_message


def test_a_precondition_that_holds_is_no_step() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"address": "x"}
    result = play(theatre, preconditions=["mem('address') == 'x'"])
    assert (result.final_state, result.steps_completed, result.steps_total) == ("completed", 1, 1)


def test_success_criteria_are_judged_at_the_end_and_all_that_fail_are_named() -> None:
    theatre = Theatre()
    theatre.session.page = {"text #total": "31.98", "title": "Shop"}
    criteria = ["text('#total') == '30.98'", "title() == 'Shop'", "mem('order') == 'O-1'"]
    result = play(theatre, success_criteria=criteria)
    assert result.failure is not None
    assert (result.failure.code, result.failed_index, result.final_state) == ("CRITERIA_UNMET", 1, "failed")
    assert result.failure.assertion is not None
    assert (result.failure.assertion.expected, result.failure.assertion.actual) == ("30.98", "31.98")
    assert "mem('order')" in result.failure.message
    assert len(result.failure.details["also_unmet"]) == 1


def test_remembered_values_reach_later_steps_and_criteria() -> None:
    theatre = Theatre()
    theatre.session.page = {"text #id": lambda now: "O-7" if now >= 1 else None}
    steps = [
        {**OPEN, "remember": {"orders.last.id": "text('#id')"}},
        {"act": "open", "url": "/o/${memory.orders.last.id}"},
    ]
    result = play(theatre, steps=steps, success_criteria=["mem('orders.last.id') == 'O-7'"])
    assert result.ok
    assert theatre.session.acts[1][1].url == "/o/O-7"
    assert result.memory == {"orders.last.id": "O-7"}


def test_nothing_to_remember_ends_the_task_and_the_act_is_not_repeated() -> None:
    theatre = Theatre()
    result = play(theatre, steps=[{**OPEN, "remember": {"id": "text('#id')"}}])
    assert result.failure is not None
    assert (result.failure.code, len(theatre.session.acts)) == ("NOTHING_TO_REMEMBER", 1)


def test_a_step_that_needs_memory_nobody_wrote_says_which() -> None:
    result = play(Theatre(), steps=[{"act": "open", "url": "/${memory.nowhere}"}])
    assert result.failure is not None
    assert result.failure.code == "MEMORY_MISSING"
    assert "nowhere" in result.failure.message


@pytest.mark.parametrize(
    ("value", "text", "passes"),
    [
        ("approved", "  approved\n", True),
        ("approved", "processing", False),
        ("<= 30", "$24.99", True),
        ("<= 30", "$31", False),
        ("mem('want')", "yes", True),
        ("json('env', 'want')", "no", True),
        ("json('env', 'want')", "yes", False),
        (7, "7", True),
        ("a <= b", "a <= b", True),
    ],
)
def test_assert_compares_text_with_its_value(value: Any, text: str, passes: bool) -> None:
    theatre = Theatre()
    theatre.session.page = {"text #x": text}
    theatre.world.entries_ = {"want": "yes"}
    theatre.world.environment = {"want": "no"}
    result = play(theatre, steps=[{"act": "assert", "selector": "#x", "value": value}])
    assert result.ok is passes


def test_assert_takes_any_criterion() -> None:
    theatre = Theatre()
    theatre.session.page = {"count .item": 3}
    assert play(theatre, steps=[{"act": "assert", "expr": "ALL[count('.item') >= 2, count('.item') < 4]"}]).ok
    assert not play(theatre, steps=[{"act": "assert", "expr": "count('.item') == 2"}]).ok


def test_an_unreadable_page_is_not_a_failed_assertion() -> None:
    theatre = Theatre()

    async def read(*_: Any) -> Any:
        raise Failed(Failure("BROWSER_CRASHED", "gone"))

    theatre.session.read = read  # type: ignore[method-assign]
    result = play(theatre, success_criteria=["title() == 'Shop'"])
    assert result.failure is not None
    assert result.failure.code == "BROWSER_CRASHED"


def test_a_stage_that_cannot_be_opened_is_reported() -> None:
    theatre = Theatre()

    async def stage(*_: Any) -> Any:
        raise Failed(Failure("SERVICE_DOWN", "shop did not start"))

    theatre.stage = stage
    result = play(theatre)
    assert result.error is not None
    assert (result.error.code, result.error.step_index) == ("SERVICE_DOWN", -1)


def test_a_stray_timeout_is_not_blamed_on_the_browser() -> None:
    theatre = Theatre()

    async def perform(*_: Any) -> Any:
        raise TimeoutError("somebody's own")

    theatre.session.perform = perform  # type: ignore[method-assign]
    result = play(theatre)
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == ("INTERNAL_ERROR", 0)


def test_a_defect_of_the_harness_is_a_result_with_its_stack() -> None:
    theatre = Theatre()

    async def perform(*_: Any) -> Any:
        raise ZeroDivisionError("oops")

    theatre.session.perform = perform  # type: ignore[method-assign]
    result = play(theatre)
    assert result.error is not None
    assert result.error.code == "INTERNAL_ERROR"
    assert "ZeroDivisionError" in (result.error.stack_trace or "")


def test_an_interrupted_task_is_aborted_with_its_report() -> None:
    theatre = Theatre()

    async def interrupted() -> TaskResult:
        async def perform(*_: Any) -> Any:
            await asyncio.sleep(60)

        theatre.session.perform = perform  # type: ignore[method-assign]
        task = asyncio.create_task(theatre.play())
        await asyncio.sleep(0.01)
        task.cancel()
        return await task

    result = asyncio.run(interrupted())
    assert (result.final_state, result.failure.code if result.failure else None) == ("aborted", "INTERRUPTED")
    assert len(theatre.archive.kept) == 1
    assert theatre.session.closed


def test_an_interruption_does_not_cut_the_evidence_off() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("STEP_TIMEOUT", "slow")]
    evidence = theatre.session.evidence

    async def slow(*args: Any) -> Any:
        await asyncio.sleep(0.2)
        return await evidence(*args)

    theatre.session.evidence = slow  # type: ignore[method-assign]

    async def interrupted() -> TaskResult:
        task = asyncio.create_task(theatre.play())
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        return await task

    result = asyncio.run(interrupted())
    assert result.failure is not None
    assert result.failure.code == "STEP_TIMEOUT"
    assert len(theatre.archive.kept) == 1


def test_the_report_holds_state_and_evidence() -> None:
    theatre = Theatre()
    theatre.world.entries_ = {"k": "v"}
    theatre.world.environment = {"orders": {}}
    theatre.session.script = [Failure("STEP_TIMEOUT", "slow", details={"pending": "/api"})]
    result = play(theatre)
    assert result.error is not None
    context = result.error.context
    assert context.memory_snapshot == {"k": {"key": "k", "value": "v"}}
    assert context.env_snapshot == {"env": {"orders": {}}}
    assert context.browser_console_logs == ("[ERROR] boom",)
    assert context.model_dump()["pending"] == "/api"


@pytest.mark.parametrize("strict", [False, True])
def test_what_is_missing_at_the_end_is_a_warning_and_strictly_a_failure(strict: bool) -> None:
    theatre = Theatre()
    theatre.settings = theatre.settings.model_copy(update={"strict": strict})
    result = play(theatre, memory_keys=["orders.last.id"], artifacts=["receipt"])
    if strict:
        assert result.failure is not None
        assert "orders.last.id" in result.failure.message
    else:
        assert [w.type for w in result.warnings] == ["memory_key_missing", "artifact_missing"]


def test_an_artifact_is_there_when_a_step_kept_it() -> None:
    result = play(Theatre(), steps=[{**OPEN, "screenshot_id": "home"}], artifacts=["home"])
    assert (result.ok, result.warnings) == (True, ())
