"""Checkpoints: taken, gone back to, with stretched limits, once; and what may not be done again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.record import TaskResult
from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failure, Passed
from tests.unit.fakes import Theatre, document, post, sending

LATE = Failure("STEP_TIMEOUT", "too late")
LATE_AND_UNSURE = Failure("STEP_TIMEOUT", "too late", effect=Effect.POSSIBLE)
CRASH = Failure("BROWSER_CRASHED", "gone", tainted=True)
BACK = {"on_timeout": "retry_from_checkpoint"}


def click(name: str, **keys: Any) -> dict[str, Any]:
    return {"act": "click", "selector": name, **keys}


FOUR = [click("#a"), click("#b"), click("#c"), click("#d")]


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**{"steps": FOUR, "error_recovery": BACK, **spec}))


def acts(theatre: Theatre) -> list[str]:
    return [step.selector for _, step, *_ in theatre.session.acts]


def types(result: TaskResult) -> list[str]:
    return [warning.type for warning in result.warnings]


def test_goes_back_to_the_nearest_checkpoint_and_on_from_there() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), Passed(), LATE]
    result = play(theatre, checkpoints=[0, 2])
    assert acts(theatre) == ["#a", "#b", "#c", "#d", "#c", "#d"]
    assert result.final_state == "completed"
    assert types(result) == ["checkpoint_restored", "timeout_escalated"]
    assert result.warnings[0].details["checkpoint"] == 2
    assert [restart for _, restart in theatre.session.restored] == [False]


def test_limits_are_stretched_by_half_from_the_start_of_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [LATE]
    play(theatre, checkpoints=[0], step_timeout=20, timeout=100, steps=[{"act": "wait", "selector": "#a"}])
    assert [within for *_, within, _ in theatre.session.acts] == [20, 30]


def test_a_task_that_timed_out_goes_on_within_the_stretched_time() -> None:
    theatre = Theatre()

    def slow(_: Any) -> Passed:
        theatre.clock.time += 5
        return Passed()

    theatre.session.script = [slow, slow, slow, slow, slow]
    result = play(theatre, checkpoints=[1], timeout=10, step_timeout=9)
    assert result.failure is not None
    assert result.failure.code == "TASK_TIMEOUT"
    assert "exceeded 15s" in result.failure.message
    assert acts(theatre) == ["#a", "#b", "#b"]


def test_the_second_timeout_captures_and_ends() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE, LATE]
    result = play(theatre, checkpoints=[1])
    assert acts(theatre) == ["#a", "#b", "#b"]
    assert result.final_state == "failed"
    assert result.failure is not None
    assert "already extended once" in result.failure.message
    assert theatre.archive.kept[0][1].recovery_strategy == "retry_from_checkpoint"


def test_without_a_checkpoint_before_it_captures_and_ends() -> None:
    theatre = Theatre()
    theatre.session.script = [LATE]
    result = play(theatre, checkpoints=[2])
    assert acts(theatre) == ["#a"]
    assert result.failure is not None
    assert "no checkpoint at or before step 0" in result.failure.message
    assert theatre.session.wanted is not None


def test_memory_is_put_back() -> None:
    theatre = Theatre()
    theatre.session.page["text #x"] = lambda time: f"at {time:g}"
    steps = [click("#a"), {"act": "wait", "value": 3, "remember": {"k": "text('#x')"}}, click("#c")]
    seen: list[Any] = []
    theatre.session.script = [Passed(), lambda _: seen.append(dict(theatre.world.entries_)) or Passed(), LATE]
    theatre.session.script.append(lambda _: seen.append(dict(theatre.world.entries_)) or Passed())
    result = play(theatre, checkpoints=[1], steps=steps)
    assert result.ok
    assert seen == [{}, {}]


def test_differences_after_restoring_are_told() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    theatre.session.restoring = ("#qty: 'saved' 2, is 1",)
    result = play(theatre, checkpoints=[1])
    assert result.ok
    assert types(result) == ["checkpoint_restored", "timeout_escalated", "restore_incomplete"]
    assert result.warnings[2].details["differences"] == ["#qty: 'saved' 2, is 1"]


def test_a_page_that_cannot_be_restored_ends_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    theatre.session.restoring = Failure("NET_CONNECTION_REFUSED", "the site is down")
    result = play(theatre, checkpoints=[1])
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.code == "NET_CONNECTION_REFUSED"


def test_a_checkpoint_that_cannot_be_taken_is_told_and_the_one_before_serves() -> None:
    theatre = Theatre()

    def hung(_: Any) -> Passed:
        theatre.session.saving = Failure("PAGE_UNRESPONSIVE", "hangs")
        return Passed()

    theatre.session.script = [Passed(), hung, Passed(), LATE]
    result = play(theatre, checkpoints=[1, 2])
    assert acts(theatre) == ["#a", "#b", "#c", "#d", "#b", "#c", "#d"]
    assert "checkpoint_not_saved" in types(result)


def test_the_faults_are_asked_at_every_step_that_begins_also_again() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    play(theatre, checkpoints=[1])
    assert theatre.injector.armed == [0, 1, 1, 2, 3]


WRITE = click("#buy", effect="write", done_when="json('env', 'bought') == true")
BLIND = click("#buy", effect="write")


def bought(theatre: Theatre) -> Any:
    def act(_: Any) -> Passed:
        theatre.world.environment["bought"] = True
        return Passed()

    return act


def test_a_write_that_stands_is_not_done_again_after_a_rewind() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), bought(theatre), LATE]
    result = play(theatre, checkpoints=[1], steps=[click("#a"), WRITE, click("#c")])
    assert acts(theatre) == ["#a", "#buy", "#c", "#c"]
    assert result.ok
    assert "effect_already_done" in types(result)


def test_what_a_write_remembered_is_remembered_again_when_it_is_not_done_again() -> None:
    theatre = Theatre()
    theatre.session.page["text #id"] = "ORD-1"
    write = {**WRITE, "remember": {"order": "text('#id')"}}
    theatre.session.script = [bought(theatre), lambda _: theatre.session.page.clear() or LATE]
    result = play(theatre, checkpoints=[0], steps=[write, click("#c")])
    assert acts(theatre) == ["#buy", "#c", "#c"]
    assert result.memory == {"order": "ORD-1"}


def test_a_write_is_done_again_when_the_environment_was_put_back() -> None:
    theatre = Theatre()
    theatre.world.whole = True
    theatre.session.script = [Passed(), bought(theatre), LATE]
    result = play(theatre, checkpoints=[1], steps=[click("#a"), BLIND, click("#c")])
    assert acts(theatre) == ["#a", "#buy", "#c", "#buy", "#c"]
    assert result.ok


def test_an_environment_that_was_not_put_back_whole_leaves_a_blind_write_unknown() -> None:
    theatre = Theatre()
    theatre.world.whole, theatre.world.restoring = True, ("env: shop.orders: differs",)
    theatre.session.script = [Passed(), bought(theatre), LATE]
    result = play(theatre, checkpoints=[1], steps=[click("#a"), BLIND, click("#c")])
    assert acts(theatre) == ["#a", "#buy", "#c"]
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"


def test_a_write_without_done_when_is_not_gone_back_over() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), LATE]
    result = play(theatre, checkpoints=[1], steps=[click("#a"), BLIND, click("#c")])
    assert acts(theatre) == ["#a", "#buy", "#c"]
    assert result.failure is not None
    assert "step 1 is a write without `done_when`" in result.failure.message


@pytest.mark.parametrize(
    ("whole", "shown", "code"),
    [(False, True, "OUTCOME_UNKNOWN"), (True, True, None), (True, False, "OUTCOME_UNKNOWN")],
)
def test_a_write_that_timed_out_with_unknown_effect(whole: bool, shown: bool, code: str | None) -> None:
    """An environment that shows nothing of it may know nothing of it, or not yet."""
    theatre = Theatre()
    theatre.world.whole = whole

    def late(_: Any) -> Failure:
        theatre.world.environment.update({"bought": True} if shown else {})
        return LATE_AND_UNSURE

    theatre.session.script = [late]
    result = play(theatre, checkpoints=[0], steps=[BLIND])
    assert (result.failure.code if result.failure else None) == code
    assert len(theatre.session.acts) == (1 if code else 2)


@pytest.mark.parametrize(
    ("step", "again"),
    [
        (click("#buy", effect="write"), False),
        ({"act": "api", "method": "POST", "url": "http://shop.local/order"}, False),
        ({"act": "submit", "selector": "#search"}, True),
        (click("#log-in"), True),
    ],
)
def test_a_write_of_which_no_channel_shows_anything_was_not_undone(step: dict[str, Any], again: bool) -> None:
    theatre = Theatre()
    theatre.world.whole = True
    seen = step.get("selector") == "#log-in"
    theatre.session.script = [sending(post()) if seen else Passed(), LATE]
    result = play(theatre, checkpoints=[0], steps=[step, click("#c")])
    assert len(theatre.session.acts) == (4 if again else 2)
    assert result.ok == again
    if result.failure is not None:
        assert result.failure.code == "OUTCOME_UNKNOWN"
        assert "no channel had shown what the step did, so nothing was restored" in result.failure.message


CRASHES = {"on_browser_crash": "restart_from_checkpoint"}


def test_a_lost_browser_starts_again_from_the_checkpoint() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), CRASH]
    result = play(theatre, checkpoints=[1], error_recovery=CRASHES)
    assert acts(theatre) == ["#a", "#b", "#c", "#b", "#c", "#d"]
    assert [restart for _, restart in theatre.session.restored] == [True]
    assert types(result) == ["browser_restarted", "checkpoint_restored"]


def test_without_a_checkpoint_a_lost_browser_ends_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), CRASH]
    result = play(theatre, error_recovery=CRASHES)
    assert acts(theatre) == ["#a", "#b"]
    assert theatre.session.restored == []
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == ("BROWSER_CRASHED", 1)
    assert result.failure.message == "gone; there is no checkpoint at or before step 1"


@pytest.mark.parametrize(
    ("strategy", "how"),
    [
        ("restart_task", Circumstances()),
        ("restart_from_checkpoint", Circumstances(innocent=True)),
        (None, Circumstances(shared=True)),
    ],
)
def test_a_task_begins_again_that_says_so_or_may_not_be_to_blame(strategy: str | None, how: Circumstances) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), CRASH.also(how)]
    result = play(theatre, error_recovery={"on_browser_crash": strategy} if strategy else {})
    assert acts(theatre) == ["#a", "#b", "#a", "#b", "#c", "#d"]
    assert theatre.session.restored == [(None, True)]
    assert result.ok
    assert types(result) == ["browser_restarted", "checkpoint_restored"]


@pytest.mark.parametrize("how", [Circumstances(innocent=True), Circumstances(injected=True)])
def test_a_loss_that_others_made_does_not_count(how: Circumstances) -> None:
    theatre = Theatre()
    theatre.session.script = [CRASH.also(how)] * 4 + [CRASH, CRASH]
    result = play(theatre, error_recovery={"on_browser_crash": "restart_task"})
    assert result.ok
    assert acts(theatre)[:7] == ["#a"] * 7


def test_a_loss_that_a_fault_has_made_is_told_apart_once() -> None:
    theatre = Theatre()
    theatre.injector.injected = 1
    theatre.session.script = [CRASH, CRASH]
    result = play(theatre, error_recovery={"on_browser_crash": "restart_task"})
    outcomes = [attempt.outcome for record in result.history for attempt in record.attempts]
    assert [isinstance(each, Failure) and each.circumstances.injected for each in outcomes[:3]] == [True, False, False]


HUNG = Failure("PAGE_UNRESPONSIVE", "hangs", tainted=True)
PAGE_CRASH = Failure("PAGE_CRASHED", "crashed", tainted=True)


def test_a_page_that_hangs_is_freed_and_the_step_done_again_before_the_task_goes_back() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), HUNG, HUNG]
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert acts(theatre) == ["#a", "#b", "#c", "#c", "#b", "#c", "#d"]
    assert theatre.session.renewed == 1
    assert [restart for _, restart in theatre.session.restored] == [False]
    assert result.ok


def test_a_page_that_hangs_again_without_a_checkpoint_ends_the_task() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), HUNG, HUNG]
    result = play(theatre, error_recovery={})
    assert acts(theatre) == ["#a", "#b", "#b"]
    assert result.failure is not None
    assert (result.failure.code, result.failure.type) == ("PAGE_UNRESPONSIVE", "timeout_step")


@pytest.mark.parametrize(("checkpoints", "acted", "renewed"), [([1], "abcbcd", 0), ([], "abccd", 1)])
def test_a_page_that_crashed_goes_back_or_is_opened_again(checkpoints: list[int], acted: str, renewed: int) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Passed(), PAGE_CRASH]
    result = play(theatre, checkpoints=checkpoints, error_recovery={})
    assert acts(theatre) == [f"#{name}" for name in acted]
    assert theatre.session.renewed == renewed
    assert result.ok


def test_the_third_hang_within_five_minutes_is_permanent() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), HUNG, HUNG, HUNG]
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert acts(theatre) == ["#a", "#b", "#b", "#b"]
    assert result.failure is not None
    assert "3 times within 5 minutes" in result.failure.message


def test_the_third_crash_within_five_minutes_is_permanent() -> None:
    theatre = Theatre()
    theatre.session.script = [CRASH, CRASH, CRASH]
    result = play(theatre, error_recovery=CRASHES)
    assert acts(theatre) == ["#a"] * 3
    assert result.failure is not None
    assert "3 times within 5 minutes" in result.failure.message


def test_crashes_far_apart_are_not_permanent() -> None:
    theatre = Theatre()

    def crash_later(_: Any) -> Failure:
        theatre.clock.time += 200
        return CRASH

    theatre.session.script = [crash_later, crash_later, crash_later]
    result = play(theatre, error_recovery=CRASHES, timeout=3600, step_timeout=300)
    assert acts(theatre) == ["#a"] * 4 + ["#b", "#c", "#d"]
    assert result.ok


def test_a_crash_while_a_precondition_is_looked_at_starts_with_the_preconditions_again() -> None:
    theatre = Theatre()
    looks: list[int] = []

    def page(_: float) -> Any:
        looks.append(1)
        if len(looks) == 1:
            raise_failed()
        return "x"

    theatre.session.page["title"] = page
    result = play(theatre, error_recovery=CRASHES, preconditions=["title() == 'x'"])
    assert result.ok
    assert len(looks) == 2


def raise_failed() -> None:
    from harness.recovery.failure import Failed

    raise Failed(CRASH)


def test_skip_step_goes_on_after_a_step_that_was_too_late() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    result = play(theatre, error_recovery={"on_timeout": "skip_step"})
    assert acts(theatre) == ["#a", "#b", "#c", "#d"]
    assert (result.final_state, types(result)) == ("partial_success", ["step_skipped"])
    assert theatre.archive.kept == []


def test_skip_step_does_not_skip_the_end_of_the_task() -> None:
    theatre = Theatre()

    def slow(_: Any) -> Passed:
        theatre.clock.time += 20
        return Passed()

    theatre.session.script = [slow]
    result = play(theatre, error_recovery={"on_timeout": "skip_step"}, timeout=10)
    assert result.failure is not None
    assert result.failure.code == "TASK_TIMEOUT"


def test_a_write_that_ends_the_task_says_that_its_outcome_is_not_known() -> None:
    theatre = Theatre()
    theatre.session.script = [LATE_AND_UNSURE]
    result = play(theatre, steps=[BLIND], error_recovery={"on_timeout": "capture_state_and_abort"})
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == (
        "STEP_TIMEOUT",
        "too late; whether it took effect is not known",
    )


def test_going_back_takes_no_longer_than_the_task_may() -> None:
    theatre = Theatre()
    restore, asked = theatre.session.restore, []

    async def slow(saved: Any, within: float, *, restart: bool, barred: str | None = None) -> Any:
        asked.append(within)
        theatre.clock.time += within
        await restore(saved, within, restart=restart)
        return Failure("NET_TIMEOUT", "no answer")

    theatre.session.restore = slow  # type: ignore[method-assign]
    theatre.session.script = [Passed(), LATE]
    result = play(theatre, timeout=10, step_timeout=9, checkpoints=[1])
    assert asked == [6]
    assert result.elapsed == 15
    assert result.failure is not None
    assert result.failure.code == "TASK_TIMEOUT"
    assert "no answer" in result.failure.message
    assert result.failure.message.endswith("on the way back to the checkpoint before step 1, after: too late")


def test_saving_a_checkpoint_may_take_as_long_as_a_step() -> None:
    theatre, asked = Theatre(), list[float]()
    save = theatre.session.save

    async def noted(within: float) -> Any:
        asked.append(within)
        return await save(within)

    theatre.session.save = noted  # type: ignore[method-assign]
    play(theatre, step_timeout=45, checkpoints=[0])
    assert asked == [45]


def test_a_browser_that_is_lost_at_the_end_of_the_time_is_not_started_again() -> None:
    theatre = Theatre()

    def lost(_: Any) -> Failure:
        theatre.clock.time = 11
        return CRASH

    theatre.session.script = [lost]
    result = play(theatre, timeout=10, checkpoints=[0])
    assert theatre.session.restored == []
    assert result.failure is not None
    assert (result.failure.code, result.failure.message) == ("BROWSER_CRASHED", "gone; no time left to go back")


@pytest.mark.parametrize(("effect", "acted"), [(None, 3), ("idempotent", 5)])
def test_a_click_that_posted_is_a_write_unless_its_file_says_otherwise(effect: str | None, acted: int) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), sending(post()), LATE]
    declared = {"effect": effect} if effect else {}
    result = play(theatre, checkpoints=[1], steps=[click("#a"), click("#b", **declared), click("#c")])
    assert len(theatre.session.acts) == acted
    assert result.ok == (acted == 5)


def test_a_page_that_a_write_opened_is_not_asked_for_again() -> None:
    theatre = Theatre()
    theatre.world.whole = True
    theatre.session.script = [sending(document("http://shop.local/")), LATE]
    first = {"act": "open", "url": "http://shop.local/", "effect": "write"}
    result = play(theatre, checkpoints=[1], steps=[first, click("#c")])
    assert len(theatre.session.acts) == 2
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"
    assert "step 0 (open http://shop.local/), a write, produced http://shop.local/" in result.failure.message
