"""Writes of repairs and of steps that were left out, which going back must not do twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
from harness.spec.loaded import Loaded
from harness.spec.source import Origin
from harness.spec.task import TaskSpec
from harness.values import replace
from tests.unit.engine.test_checkpoints import CRASH, acts, click, play, types
from tests.unit.fakes import Theatre

AGAIN = {"on_browser_crash": "restart_task", "on_precondition_fail": "attempt_repair"}
FIXED = "json('env', 'fixed') == true"


def repaired(theatre: Theatre, **keys: Any) -> TaskResult:
    """A task whose repair writes; the browser is lost as the precondition is looked at again, once."""
    looks: list[int] = []

    def page(_: float) -> str:
        looks.append(1)
        if len(looks) == 2:
            raise Failed(CRASH)
        return "ready" if len(looks) > 3 else "new"

    def fix(_: Any) -> Passed:
        theatre.world.environment["fixed"] = True
        return Passed()

    theatre.session.page["title"] = page
    theatre.session.script = [fix]
    repairs = [{"steps": [click("#fix", effect="write", **keys)]}]
    return play(theatre, preconditions=["title() == 'ready'"], repairs=repairs, error_recovery=AGAIN)


def test_a_write_of_a_repair_that_nobody_can_tell_of_is_not_gone_back_over() -> None:
    theatre = Theatre()
    result = repaired(theatre)
    assert acts(theatre) == ["#fix"]
    assert result.failure is not None
    assert result.failure.code == "BROWSER_CRASHED"
    assert "step -1 is a write without `done_when`" in result.failure.message


def test_a_write_of_a_repair_that_stands_is_not_done_again() -> None:
    theatre = Theatre()
    result = repaired(theatre, done_when=FIXED)
    assert result.ok
    assert acts(theatre) == ["#fix", "#a", "#b", "#c", "#d"]
    assert "effect_already_done" in types(result)


def test_what_a_repair_wrote_before_the_task_began_is_nothing_to_go_back_over() -> None:
    theatre = Theatre()
    theatre.session.page["title"] = lambda _: "ready" if theatre.session.acts else "new"
    theatre.session.script = [Passed(), Passed(), CRASH]
    repairs = [{"steps": [click("#fix", effect="write")]}]
    result = play(theatre, preconditions=["title() == 'ready'"], repairs=repairs, error_recovery=AGAIN)
    assert result.ok
    assert acts(theatre) == ["#fix", "#a", "#b", "#a", "#b", "#c", "#d"]


SKIPPED: dict[str, Any] = {"optional": True, "effect": "write"}
UNSURE = Failure("STEP_TIMEOUT", "too late", effect=Effect.POSSIBLE)


@pytest.mark.parametrize("effect", [Effect.NONE, Effect.POSSIBLE, Effect.DONE])
def test_a_write_that_was_left_out_and_may_have_been_done_is_not_gone_back_over(effect: Effect) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), replace(UNSURE, effect=effect), CRASH]
    steps = [click("#a"), click("#buy", **SKIPPED), click("#c")]
    result = play(theatre, checkpoints=[1], steps=steps, error_recovery={})
    if effect is Effect.NONE:
        assert result.ok
        assert acts(theatre) == ["#a", "#buy", "#c", "#buy", "#c"]
    else:
        assert result.failure is not None
        assert "step 1 is a write without `done_when`" in result.failure.message
        assert acts(theatre) == ["#a", "#buy", "#c"]


def test_a_write_that_was_left_out_and_stands_is_not_done_again() -> None:
    theatre = Theatre()
    environment: dict[str, Any] = {}

    async def channel(_: str) -> Any:
        if not environment:
            raise Failed(Failure("CHANNEL_UNREADABLE", "away"))
        return environment

    def lost(_: Any) -> Failure:
        environment["bought"] = True
        return CRASH

    theatre.world.channel = channel  # type: ignore[method-assign]
    theatre.session.script = [Passed(), UNSURE, lost]
    buy = click("#buy", done_when="json('env', 'bought') == true", **SKIPPED)
    result = play(theatre, checkpoints=[1], steps=[click("#a"), buy, click("#c")], error_recovery={})
    assert acts(theatre) == ["#a", "#buy", "#c", "#c"]
    assert result.ok
    assert "effect_already_done" in types(result)


def other(task_id: str, **keys: Any) -> Loaded:
    document = {"task_id": task_id, "steps": [click("#fix", effect="write")], "error_recovery": {}, **keys}
    return Loaded(TaskSpec.model_validate(document), Path(f"{task_id}.task.yaml"), Origin(task_id))


def crashed_after_a_repairing_task(theatre: Theatre, **keys: Any) -> TaskResult:
    """A task whose repair is another task, which writes; then the browser is lost, and the main task goes back."""
    theatre.find = {"SETUP": other("SETUP", steps=[click("#fix", effect="write", **keys), click("#then")])}.get

    def fix(_: Any) -> Passed:
        theatre.world.environment["fixed"] = True
        return Passed()

    looks: list[int] = []

    def page(_: float) -> str:
        looks.append(1)
        if len(looks) == 2:
            raise Failed(CRASH)
        return "ready" if len(looks) > 3 else "new"

    theatre.session.page["title"] = page
    theatre.session.script = [fix]
    return play(theatre, preconditions=["title() == 'ready'"], repairs=[{"task": "SETUP"}], error_recovery=AGAIN)


def test_what_a_task_wrote_as_a_repair_is_not_gone_back_over() -> None:
    theatre = Theatre()
    result = crashed_after_a_repairing_task(theatre)
    assert acts(theatre) == ["#fix", "#then"]
    assert result.failure is not None
    assert result.failure.code == "BROWSER_CRASHED"


def test_a_task_that_repairs_again_is_told_what_stands() -> None:
    theatre = Theatre()
    result = crashed_after_a_repairing_task(theatre, done_when=FIXED)
    assert result.ok
    assert acts(theatre) == ["#fix", "#then", "#then", "#a", "#b", "#c", "#d"]


def test_a_repair_for_two_preconditions_is_applied_once() -> None:
    theatre = Theatre()
    repairs = [{"steps": [click("#fix", effect="write")], "memory": {"a": 1}}]
    wanted = ["mem('a') == 1", "mem('b') == 2"]
    result = play(theatre, preconditions=wanted, repairs=repairs, error_recovery=AGAIN)
    assert acts(theatre) == ["#fix"]
    assert result.failure is not None
    assert "mem('b')" in result.failure.message


def test_the_hook_repairs_a_precondition_once_and_what_it_answered_is_remembered() -> None:
    theatre = Theatre()
    asked: list[str] = []

    async def hook(_plan: Any, precondition: str, _memory: Any) -> Any:
        asked.append(precondition)
        return {"ready": 1}

    looks: list[int] = []

    def page(_: float) -> str:
        looks.append(1)
        if len(looks) == 1:
            raise Failed(CRASH)
        return "there"

    theatre.session.page["title"] = page
    theatre.repair = hook
    wanted = ["mem('ready') == 1", "title() == 'there'"]
    result = play(theatre, preconditions=wanted, error_recovery=AGAIN)
    assert (result.ok, asked) == (True, ["mem('ready') == 1"])
    assert result.memory == {"ready": 1}


def test_an_alternative_task_does_not_repair_again_what_its_task_has_repaired() -> None:
    theatre = Theatre()
    repair = {"steps": [click("#fix", effect="write")]}
    set_up = {"preconditions": ["title() == 'ready'"], "repairs": [repair], "error_recovery": AGAIN}
    theatre.find = {"OTHER": other("OTHER", **set_up)}.get
    looks = iter(["new", "ready", "new"])
    theatre.session.page["title"] = lambda _: next(looks)
    theatre.session.script = [Passed(), Failure("INVALID_INPUT", "no such thing")]
    result = play(theatre, fallback_plan={"enabled": True, "alternative_task_id": "OTHER"}, **set_up)
    assert acts(theatre) == ["#fix", "#a"]
    assert result.alternative is not None
    assert result.alternative.failure is not None
    assert result.alternative.failure.code == "OUTCOME_UNKNOWN"


def test_no_alternative_runs_after_a_write_that_the_task_had_gone_back_over() -> None:
    theatre = Theatre()
    theatre.find = {"OTHER": other("OTHER")}.get
    theatre.session.script = [Passed(), Passed(), CRASH, Failure("INVALID_INPUT", "no such thing")]
    theatre.world.environment["fixed"] = True
    steps = [click("#a"), click("#fix", effect="write", done_when=FIXED), click("#c")]
    plan = {"enabled": True, "alternative_task_id": "OTHER"}
    result = play(theatre, steps=steps, checkpoints=[0], error_recovery={}, fallback_plan=plan)
    assert acts(theatre) == ["#a", "#fix", "#c", "#a"]
    assert result.failure is not None
    assert "it might repeat the write of step 1" in result.failure.message
