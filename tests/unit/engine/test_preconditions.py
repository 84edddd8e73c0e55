"""What must hold before the first step: repaired, skipped, or the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.model.consumption import ModelFigures
from harness.model.figures import model_calls
from harness.model.inference import ModelCall, Usage
from harness.model.ports import LeftOut
from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from tests.unit.fakes import Theatre

HOME = "mem('address.primary') == 'home'"
REPAIR = {"on_precondition_fail": "attempt_repair"}


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**{"preconditions": [HOME], "error_recovery": REPAIR, **spec}))


def types(result: TaskResult) -> list[str]:
    return [warning.type for warning in result.warnings]


def other(task_id: str, **spec: Any) -> Loaded:
    document = {"task_id": task_id, "steps": [{"act": "click", "selector": f"#{task_id}"}], **spec}
    return Loaded(TaskSpec.model_validate(document), Path(f"{task_id}.task.yaml"), Origin(task_id))


def test_abort_with_warning_does_nothing_of_the_task() -> None:
    theatre = Theatre()
    result = play(theatre, error_recovery={})
    assert (result.final_state, theatre.session.acts) == ("aborted", [])
    assert theatre.archive.kept[0][1].step_index == -1


def test_memory_values_repair_a_precondition() -> None:
    theatre = Theatre()
    result = play(theatre, repairs=[{"memory": {"address.primary": "home"}}])
    assert result.final_state == "completed"
    assert types(result) == ["precondition_repaired"]
    assert result.memory == {"address.primary": "home"}
    assert len(theatre.session.acts) == 1


def test_repaired_means_looked_at_again_and_true() -> None:
    theatre = Theatre()
    result = play(theatre, repairs=[{"memory": {"address.primary": "elsewhere"}}])
    assert result.final_state == "aborted"
    assert result.failure is not None
    assert result.failure.code == "PRECONDITION_NOT_MET"
    assert result.failed_index == -1
    assert theatre.session.acts == []


def test_a_repair_is_only_for_the_precondition_it_names() -> None:
    theatre = Theatre()
    theatre.world.entries_["b"] = 2
    repairs = [
        {"precondition": "mem('b') == 2", "memory": {"b": 2, "used": "b"}},
        {"precondition": "mem('a') == 1", "memory": {"a": 1}},
    ]
    result = play(theatre, preconditions=["mem('a') == 1", "mem('b') == 2"], repairs=repairs)
    assert result.memory == {"a": 1, "b": 2}


def test_steps_repair_a_precondition() -> None:
    theatre = Theatre()
    theatre.session.page["text #x"] = "home"
    steps = [
        {"act": "click", "selector": "#fix"},
        {"act": "wait", "value": 0, "remember": {"address.primary": "text('#x')"}},
    ]
    result = play(theatre, repairs=[{"steps": steps}])
    assert result.ok
    assert [step.act for _, step, *_ in theatre.session.acts] == ["click", "wait", "open"]
    assert [record.index for record in result.history] == [-1, -1, -1, 0]


def test_a_repair_whose_write_has_an_unknown_outcome_ends_the_task_as_that() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("NET_TIMEOUT", "no answer", effect=Effect.POSSIBLE)]
    result = play(theatre, repairs=[{"steps": [{"act": "click", "selector": "#fix", "effect": "write"}]}])
    assert result.failure is not None
    assert (result.failure.code, result.failed_index, len(theatre.session.acts)) == ("OUTCOME_UNKNOWN", -1, 1)
    assert result.failure.message.startswith("The repair of a precondition failed: ")


def test_a_repair_that_fails_is_told_with_the_precondition() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("INVALID_INPUT", "no such button")]
    result = play(theatre, repairs=[{"steps": [{"act": "click", "selector": "#fix"}]}])
    assert result.final_state == "aborted"
    assert result.failure is not None
    assert "its repair failed: no such button" in result.failure.message


def test_a_task_repairs_a_precondition_in_the_same_world() -> None:
    theatre = Theatre()
    theatre.find = {"SETUP": other("SETUP", memory={"address.primary": "home"})}.get
    plans: list[Any] = []

    async def stage(plan: Any, folder: Any) -> Any:
        plans.append(plan)
        theatre.stage = None
        opened = await theatre.open_stage(plan, folder)
        theatre.stage = stage
        return opened

    theatre.stage = stage

    def set_up(_: Any) -> Passed:
        theatre.world.entries_["address.primary"] = "home"
        return Passed()

    theatre.session.script = [set_up]
    result = play(theatre, repairs=[{"task": "SETUP"}])
    assert result.ok
    assert [plan.task_id for plan in plans] == ["T-1", "SETUP"]
    assert plans[1].world == plans[0].world
    assert (plans[0].fresh, plans[1].fresh) == (True, False)
    assert [event.plan.task_id for event in theatre.events].count("SETUP") == 0


def test_what_a_task_that_repairs_has_used_is_in_the_figures() -> None:
    theatre = Theatre()
    theatre.find = {"SETUP": other("SETUP")}.get
    call = ModelCall(
        agent="mine", model="claude", provider="anthropic", identifier="haiku", step=0, attempt=1,
        at=theatre.clock.wall(), seconds=1.0, first_token=None, usage=Usage(900, 100), cost=0.25, outcome="answered",
    )  # fmt: skip
    theatre.model_calls = (call,)  # of each task
    theatre.session.script = [Failure("INVALID_INPUT", "no such button")]
    result = play(theatre, repairs=[{"task": "SETUP"}])
    assert [(each.task_id, each.ok) for each in result.inner] == [("SETUP", False)]
    assert model_calls(result) == (call, call)
    assert result.error is not None
    assert result.error.models_total == ModelFigures.of((call, call))


def test_a_task_that_repairs_and_fails_is_told() -> None:
    theatre = Theatre()
    theatre.find = {"SETUP": other("SETUP")}.get
    theatre.session.script = [Failure("INVALID_INPUT", "no such button")]
    result = play(theatre, repairs=[{"task": "SETUP"}])
    assert result.failure is not None
    assert "SETUP: no such button" in result.failure.message


def test_without_any_repair_the_task_says_so() -> None:
    result = play(Theatre())
    assert result.failure is not None
    assert "no repair is declared for it" in result.failure.message


def test_the_hook_repairs_with_memory_values() -> None:
    theatre = Theatre()
    asked: list[Any] = []

    async def hook(plan: Any, precondition: str, memory: Any) -> Any:
        asked.append((plan.task_id, precondition, dict(memory)))
        return {"address.primary": "home"}

    theatre.repair = hook
    result = play(theatre, memory={})
    assert result.ok
    assert asked == [("T-1", HOME, {})]


def test_a_hook_that_cannot_repair_is_no_repair() -> None:
    theatre = Theatre()

    async def hook(*_: Any) -> bool:
        return False

    theatre.repair = hook
    result = play(theatre)
    assert result.failure is not None
    assert "no repair is declared for it" in result.failure.message


def test_a_hook_may_leave_the_task_out() -> None:
    theatre = Theatre()

    async def hook(*_: Any) -> bool:
        raise LeftOut("not on this site")

    theatre.repair = hook
    result = play(theatre)
    assert (result.skipped, result.ok, result.failure) == ("not on this site", False, None)
    assert (theatre.archive.kept, len(theatre.archive.skips)) == ([], 1)
    assert theatre.session.closed


def test_skip_task_leaves_the_task_out() -> None:
    theatre = Theatre()
    result = play(theatre, error_recovery={"on_precondition_fail": "skip_task"})
    assert "Precondition not met" in result.skipped
    assert (result.ok, result.failure, result.error) == (False, None, None)
    assert theatre.archive.kept == []
    assert theatre.archive.passes == []
    assert len(theatre.archive.skips) == 1
    assert theatre.session.closed


def test_a_new_browser_goes_back_to_what_the_repairs_have_set_up() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("BROWSER_CRASHED", "gone", tainted=True)]
    result = play(theatre, repairs=[{"memory": {"address.primary": "home"}}])
    assert result.final_state == "completed"
    assert result.memory == {"address.primary": "home"}
    assert theatre.session.restored[0][0] is not None


def test_a_task_that_repairs_has_no_more_time_than_the_task() -> None:
    theatre = Theatre()
    wait = {"act": "wait", "selector": "#never", "timeout": 100}
    theatre.find = {"SETUP": other("SETUP", timeout=200, steps=[wait])}.get
    theatre.session.script = [Failure("STEP_TIMEOUT", "too late")]
    result = play(theatre, timeout=10, step_timeout=5, repairs=[{"task": "SETUP"}])
    assert result.failure is not None
    assert (result.failure.code, result.elapsed) == ("PRECONDITION_NOT_MET", 10)
    assert "SETUP: Task timeout: exceeded 10s" in result.failure.message


async def _raising(*_: Any) -> Any:
    raise ValueError("boom")


async def _slow(*_: Any) -> Any:
    raise TimeoutError


@pytest.mark.parametrize(
    ("hook", "told"), [(_raising, "failed: ValueError: boom"), (_slow, "took longer than the task's 300s")]
)
def test_a_hook_that_fails_is_told_as_such(hook: Any, told: str) -> None:
    theatre = Theatre()
    theatre.repair = hook
    result = play(theatre)
    assert result.failure is not None
    assert result.failure.code == "PRECONDITION_NOT_MET"
    assert f"pytest_taskspec_repair {told}" in result.failure.message


def test_a_repair_and_its_steps_are_within_the_budget() -> None:
    steps = [{"act": "click", "selector": "#fix"}] * 3
    theatre = Theatre()
    result = play(theatre, repairs=[{"steps": steps}], budget={"max_steps": 2})
    assert len(theatre.session.acts) == 2
    assert result.failure is not None
    assert (
        "its repair failed: Budget exceeded: `max_steps` allows 2 steps, and another one was to begin"
        in result.failure.message
    )
    result = play(Theatre(), repairs=[{"memory": {"address.primary": "home"}}], budget={"max_retries": 0})
    assert result.failure is not None
    assert result.failure.code == "BUDGET_EXCEEDED"
