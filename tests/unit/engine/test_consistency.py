"""Memory against the environment: compared, settled by the declared side, or the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.engine import run_task
from harness.model.record import TaskResult
from harness.recovery.failure import Passed
from harness.reporting.console import table
from harness.reporting.telling import story_of
from tests.unit.fakes import Theatre

CLICK = {"act": "click", "selector": "#a"}
BOUND = {"card": "env.last4"}


def play(theatre: Theatre, strategy: str | None = None, **spec: Any) -> TaskResult:
    rules = {"on_state_inconsistency": strategy} if strategy else {}
    document = {"steps": [CLICK], "state_bindings": BOUND, "memory": {}, "error_recovery": rules, **spec}
    return asyncio.run(theatre.play(**document))


def theatre(here: Any, there: Any) -> Theatre:
    made = Theatre()
    made.world.entries_["card"] = here
    made.world.environment["last4"] = there
    return made


def types(result: TaskResult) -> list[str]:
    return [warning.type for warning in result.warnings]


def test_what_agrees_is_not_spoken_of() -> None:
    result = play(theatre("1234", 1234))
    assert (result.final_state, result.warnings) == ("completed", ())
    assert len(result.history) == 1


@pytest.mark.parametrize("strategy", [None, "trust_env"])
def test_trust_env_writes_memory(strategy: str | None) -> None:
    stage = theatre("1234", "7777")
    result = play(stage, strategy)
    assert stage.world.entries_["card"] == "7777"
    assert types(result) == ["state_inconsistency_resolved"]
    assert result.warnings[0].details == {"trusted": "environment", "memory": "1234", "environment": "7777"}
    assert result.final_state == "completed"


def test_trust_memory_writes_the_environment_through_its_channel() -> None:
    stage = theatre("1234", "7777")
    result = play(stage, "trust_memory")
    assert stage.world.environment["last4"] == "1234"
    assert result.warnings[0].details["trusted"] == "memory"


def test_abort_ends_the_task_with_both_values() -> None:
    result = play(theatre("1234", "7777"), "abort")
    assert (result.final_state, result.failed_index) == ("aborted", 0)
    assert result.failure is not None
    assert result.failure.code == "STATE_INCONSISTENT"
    assert result.failure.type == "state_inconsistency"
    assert result.failure.assertion is not None
    assert (result.failure.assertion.actual, result.failure.assertion.expected) == ("1234", "7777")


@pytest.mark.parametrize(("choice", "kept"), [("environment", "7777"), ("memory", "1234")])
def test_a_person_decides(choice: str, kept: str) -> None:
    stage = theatre("1234", "7777")
    asked: list[str] = []

    async def ask(question: str, choices: tuple[str, ...]) -> str:
        asked.append(question)
        assert choices == ("environment", "memory")
        return choice

    stage.ask = ask
    result = play(stage, "manual_resolution")
    assert result.ok
    assert (stage.world.entries_["card"], stage.world.environment["last4"]) == (kept, kept)
    assert "1234" in asked[0]
    assert "7777" in asked[0]


def test_without_a_person_manual_resolution_fails_with_both_values() -> None:
    result = play(theatre("1234", "7777"), "manual_resolution")
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.message.endswith("nobody decided which value is right")
    assert result.failure.assertion is not None
    assert (result.failure.assertion.actual, result.failure.assertion.expected) == ("1234", "7777")


def test_what_is_not_remembered_yet_is_not_compared() -> None:
    stage = Theatre()
    stage.world.environment["last4"] = "7777"
    assert play(stage, "abort").ok


def test_looking_steps_are_not_followed_by_a_comparison_but_the_end_is() -> None:
    stage = theatre("1234", "7777")
    result = play(stage, "abort", steps=[{"act": "wait", "selector": "#a"}, {**CLICK, "effect": "read"}])
    assert result.failed_index == 2
    assert len(stage.session.acts) == 2


def test_a_binding_is_compared_after_the_step_that_changed_it() -> None:
    stage = theatre("1234", "1234")

    def change(_: Any) -> Passed:
        stage.world.environment["last4"] = "7777"
        return Passed()

    stage.session.script = [change]
    result = play(stage, "abort", steps=[CLICK, CLICK])
    assert result.failed_index == 0


def test_the_screen_shows_the_step_and_what_differs_after_it() -> None:
    stage = theatre("1234", "7777")
    plan = stage.plan(steps=[CLICK], state_bindings=BOUND, error_recovery={"on_state_inconsistency": "abort"})
    result = asyncio.run(run_task(plan, stage.ports()))
    rows = [(row.act, row.status, row.failing) for row in table(story_of(plan, result))]
    assert rows == [("click", "ok", False), ("assert", "FAILED", True)]


@pytest.mark.parametrize("strategy", ["trust_env", "trust_memory"])
def test_a_channel_that_does_not_answer_does_not_outlast_the_task(strategy: str) -> None:
    stage = theatre("1234", "7777")
    asked: list[str] = []

    async def once(name: str) -> Any:
        asked.append(name)
        if len(asked) > 1:
            await asyncio.sleep(60)
        return stage.world.environment

    def nearly_over(_: Any) -> Passed:
        stage.clock.time = 9.9
        return Passed()

    stage.world.channel = once  # type: ignore[method-assign]
    stage.session.script = [nearly_over]
    result = play(stage, strategy, timeout=10)
    assert result.failure is not None
    assert result.failure.message.endswith("channel `env` did not answer before the task's end")


def test_nothing_in_the_environment_is_not_trusted() -> None:
    result = play(theatre("1234", "7777"), state_bindings={"card": "env.lats4"})
    assert (result.final_state, result.memory) == ("failed", {"card": "1234"})
    assert result.failure is not None
    assert "the channel `env` has no value at lats4" in result.failure.message
