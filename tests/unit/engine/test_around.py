"""The steps around a task: their order, their time, and what their failure means."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.engine.around import AFTER_SECONDS
from harness.engine.due import rest_of_group
from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from tests.unit.fakes import Theatre

BROKEN = Failure("INVALID_INPUT", "no such thing")


def click(name: str) -> dict[str, Any]:
    return {"act": "click", "selector": f"#{name}"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    around = {"before_each": [click("before")], "after_each": [click("after"), click("last")]}
    return asyncio.run(theatre.play(**{**around, "steps": [click("own")], **spec}))


def acts(theatre: Theatre) -> list[Any]:
    return [step.selector for _, step, _, _ in theatre.session.acts]


def test_they_are_done_around_the_steps_and_have_no_number_among_them() -> None:
    theatre = Theatre()
    result = play(theatre, checkpoints=[0])
    assert (result.final_state, result.steps_total) == ("completed", 1)
    assert acts(theatre) == ["#before", "#own", "#after", "#last"]
    assert [record.index for record in result.history] == [-1, 0, 2, 2]
    assert [record.step.note for record in result.history] == ["before_each", None, "after_each", "after_each"]


def test_the_preconditions_are_judged_after_what_sets_them_up() -> None:
    theatre = Theatre()
    theatre.session.script = [lambda _: theatre.world.entries_.update(a=1) or Passed()]
    assert play(theatre, preconditions=["mem('a') == 1"]).final_state == "completed"
    assert acts(theatre)[:2] == ["#before", "#own"]


def test_a_failure_before_leaves_out_the_task_and_not_what_tidies_up() -> None:
    theatre = Theatre()
    theatre.session.script = [BROKEN]
    result = play(theatre)
    assert acts(theatre) == ["#before", "#after", "#last"]
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == ("HOOK_FAILED", -1)
    assert result.failure.message == "A step of `before_each` failed: no such thing (INVALID_INPUT)"


def test_a_failure_after_fails_a_task_that_passed_and_is_told_of_one_that_failed() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), BROKEN]
    result = play(theatre)
    assert acts(theatre) == ["#before", "#own", "#after"]
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.code == "HOOK_FAILED"
    theatre = Theatre()
    theatre.session.script = [Passed(), BROKEN, *[Failure("OPTION_NOT_FOUND", "no frame")] * 9]
    result = play(theatre)
    assert result.failure is not None
    assert result.failure.code == "INVALID_INPUT"
    assert [each.message for each in result.warnings if each.type == "after_each_failed"] == [
        "A step of `after_each` failed: no frame (OPTION_NOT_FOUND)"
    ]


def test_a_defect_in_what_tidies_up_takes_no_evidence_along(monkeypatch: pytest.MonkeyPatch) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), BROKEN]

    def defect(run: Any, record: Any, left: Any) -> Any:
        return rest_of_group(run, record, left) if record.index < 1 else 1 / 0

    monkeypatch.setattr("harness.engine.around.rest_of_group", defect)
    result = play(theatre)
    assert result.failure is not None
    assert result.failure.code == "INVALID_INPUT"
    told = [each.message for each in result.warnings if each.type == "after_each_failed"]
    assert told == ["A step of `after_each` failed: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize("code", ["OUTCOME_UNKNOWN", "BROWSER_CRASHED", "SERVICE_DOWN"])
def test_what_is_known_of_the_cause_stays(code: str) -> None:
    theatre = Theatre()
    theatre.session.script = [Failure(code, "so it is", effect=Effect.NONE)] * 20
    result = play(theatre, after_each=[], error_recovery={"on_browser_crash": "abort"})
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == (code, -1)
    assert result.failure.message.startswith("A step of `before_each` failed: so it is")
    assert result.failure.details["hook"] == "before_each"


def test_they_have_a_time_of_their_own_when_that_of_the_task_is_over() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed()]
    within: list[float] = []
    perform = theatre.session.perform

    async def slow(step: Any, limit: float, patience: float) -> Any:
        within.append(limit)
        if step.selector == "#own":
            theatre.clock.time += 500
        return await perform(step, limit, patience)

    theatre.session.perform = slow  # type: ignore[method-assign]
    result = play(theatre, timeout=20, step_timeout=300, steps=[click("own"), click("late")])
    assert acts(theatre) == ["#before", "#own", "#after", "#last"], (result.failure, result.warnings)
    assert result.failure is not None
    assert result.failure.code == "TASK_TIMEOUT"
    assert within[2] == within[3] == AFTER_SECONDS


def test_a_task_that_runs_inside_another_has_none() -> None:
    theatre = Theatre()
    document = {"task_id": "T-2", "steps": [click("other")], "after_each": [click("never")]}
    spec = TaskSpec.model_validate(document)
    theatre.find = {"T-2": Loaded(spec, Path("T-2"), Origin("T-2"))}.get
    plan = {"enabled": True, "alternative_task_id": "T-2"}
    theatre.session.script = [Passed(), BROKEN]
    result = play(theatre, fallback_plan=plan)
    assert acts(theatre) == ["#before", "#own", "#other", "#after", "#last"]
    assert result.final_state == "partial_success"
    theatre.session.acts.clear()
    theatre.session.script = [Passed(), BROKEN, Passed(), BROKEN]
    result = play(theatre, fallback_plan=plan)
    assert result.failure is not None
    assert (result.final_state, result.failure.code) == ("failed", "HOOK_FAILED")
    assert "alternative" not in result.failure.message
