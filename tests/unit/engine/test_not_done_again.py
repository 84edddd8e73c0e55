"""Writes of repairs and of steps that were left out, which going back must not do twice."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure, Passed
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
