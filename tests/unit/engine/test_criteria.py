"""Success criteria hold together or not at all, and wait for themselves as long as `expect_timeout` says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.model.events import ResilienceActed
from harness.model.record import TaskResult
from harness.recovery.failure import Failed, Failure, suspect_of
from tests.unit.fakes import FakeWorld, Theatre

RETRY = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 2}}
FIRST, SECOND = "url() includes '/a'", "exists('#b')"


def play(theatre: Theatre, **spec: Any) -> TaskResult:
    return asyncio.run(theatre.play(**spec))


def from_a_to_b(at: float) -> Theatre:
    """A page that leaves /a for /b, which has the element."""
    theatre = Theatre()
    theatre.session.page = {
        "url": lambda now: "http://shop.local/a" if now < at else "http://shop.local/b",
        "exists #b": lambda now: now >= at,
    }
    return theatre


@pytest.mark.parametrize("more", [{"error_recovery": RETRY}, {"expect_timeout": 5}])
def test_criteria_that_never_hold_at_one_moment_are_not_met(more: dict[str, Any]) -> None:
    result = play(from_a_to_b(1.5), success_criteria=[FIRST, SECOND], **more)
    assert result.failure is not None
    assert (result.failure.code, result.final_state) == ("CRITERIA_UNMET", "failed")
    words = "do not hold together: criterion 1 held at 0.0 s and no longer when criterion 2 held at"
    assert words in result.failure.message
    assert "url() is 'http://shop.local/b'" in result.failure.message
    assert result.failure.details["criterion"] == FIRST


def test_criteria_that_hold_late_and_together_are_met() -> None:
    theatre = Theatre()
    theatre.session.page = {"url": "http://shop.local/a", "exists #b": lambda now: now >= 1.5}
    result = play(theatre, success_criteria=[FIRST, SECOND], error_recovery=RETRY)
    assert result.final_state == "completed"
    assert [record.step.describe() for record in result.history[-1:]] == [f"assert ALL[{FIRST}, {SECOND}]"]


def test_where_nothing_waits_no_second_look_is_needed() -> None:
    theatre = Theatre()
    theatre.session.page = {"url": "http://shop.local/a", "exists #b": True}
    result = play(theatre, success_criteria=[FIRST, SECOND], expect_timeout=5)
    assert (result.final_state, len(result.history)) == ("completed", 3)


@pytest.mark.parametrize(
    "criterion", ["exists('#b')", "text('#b') == 'x'", "ALL[url() includes '/a', count('#b') == 2]"]
)
def test_an_element_of_a_criterion_that_is_in_a_frame(criterion: str) -> None:
    theatre = Theatre()
    theatre.session.page = {"url": "http://shop.local/a", "exists #b": False, "count #b": 0, "frame #b": "#inner"}
    result = play(theatre, success_criteria=[criterion])
    assert result.failure is not None
    assert result.error is not None
    assert result.failure.details["in_frame"] == "#inner"
    assert result.error.hint.startswith("#b is in the frame #inner: write `frame='#inner'` after the selector.")


STOCK: dict[str, Any] = {
    "exists h1": True, "count h1": 2, "text h1": "Site", "text h1 >> nth=0": "Site", "text h1 >> nth=1": "Stock",
}  # fmt: skip


@pytest.mark.parametrize(
    "criterion", ["text('h1') == 'Stock'", "text('h1') includes 'toc'", "text('h1') matches '^St'"]
)
def test_another_match_that_has_the_text_is_named(criterion: str) -> None:
    theatre = Theatre()
    theatre.session.page = STOCK
    result = play(theatre, success_criteria=[criterion])
    assert result.error is not None
    assert result.error.hint == (
        "h1 matches 2 elements, and the first that is shown was read; number 2 has 'Stock': select that one, such as "
        "`h1 >> nth=1`."
    )
    assert result.failure is not None
    assert suspect_of(result.failure) == "task"


@pytest.mark.parametrize("criterion", ["text('h1') == 'Stocks'", "text('h1') != 'Site'", "NOT[text('h1') == 'Site']"])
def test_no_other_match_is_named_if_none_has_the_text_or_another_would_prove_nothing(criterion: str) -> None:
    theatre = Theatre()
    theatre.session.page = STOCK
    result = play(theatre, success_criteria=[criterion])
    assert result.error is not None
    assert "nth" not in result.error.hint


@pytest.mark.parametrize(("wanted", "meant"), [("24.99", True), ("24.5", False), ("'24.99'", False)])
def test_a_text_that_is_compared_with_the_number_in_it(wanted: str, *, meant: bool) -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #n": True, "count #n": 1, "text #n": "$24.99"}
    result = play(theatre, success_criteria=[f"text('#n') == {wanted}"])
    assert result.error is not None
    assert ("write the criterion `number(text('#n')) == 24.99`" in result.error.hint) is meant


def test_an_element_that_is_on_the_page_is_sought_in_no_frame() -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #b": True, "text #b": "y", "frame #b": "#inner"}
    result = play(theatre, success_criteria=["text('#b') == 'x'"])
    assert result.failure is not None
    assert "in_frame" not in result.failure.details


def test_what_was_said_of_a_stretch_of_time_is_not_asked_again() -> None:
    """A message that came and went was there; the address beside it must be right when all else is."""
    theatre = Theatre()
    theatre.session.page = {
        "url": "http://shop.local/a",
        "exists #toast": lambda now: 1 <= now < 2,
        "exists #b": lambda now: now >= 3,
    }
    criteria = ["EVENTUALLY(exists('#toast'))", FIRST, "EVENTUALLY(exists('#b'))"]
    assert play(theatre, success_criteria=criteria).final_state == "completed"
    theatre = from_a_to_b(1.5)
    result = play(theatre, success_criteria=[f"{FIRST} && EVENTUALLY({SECOND})"])
    assert result.failure is not None
    assert "criterion 1 held at" in result.failure.message


def test_the_relaxed_criteria_may_do_for_those_that_do_not_hold_together() -> None:
    plan = {"enabled": True, "relaxed_success_criteria": [SECOND]}
    result = play(from_a_to_b(1.5), success_criteria=[FIRST, SECOND], error_recovery=RETRY, fallback_plan=plan)
    assert result.final_state == "partial_success"


def test_a_criterion_too_deep_for_a_common_one_is_looked_at_alone() -> None:
    theatre = from_a_to_b(1.5)
    deep = "NOT[" * 48 + SECOND + "]" * 48
    result = play(theatre, success_criteria=[FIRST, deep], error_recovery=RETRY)
    assert result.failure is not None
    assert (result.failure.code, result.failure.details["criterion"]) == ("CRITERIA_UNMET", FIRST)


def test_expect_timeout_is_how_long_a_criterion_and_an_assert_wait_for_themselves() -> None:
    theatre = Theatre()
    state = lambda now: "done" if now >= 3 else "busy"  # noqa: E731
    theatre.session.page = {"text #state": state, "exists #b": lambda now: now >= 6}
    steps = [{"act": "assert", "selector": "#state", "value": "done"}, {"act": "assert", "expr": "exists('#b')"}]
    result = play(theatre, steps=steps, success_criteria=["exists('#b')"], expect_timeout=4)
    assert result.final_state == "completed"
    assert 6 <= theatre.clock.time < 6.5
    assert not any(isinstance(event, ResilienceActed) for event in theatre.events)


@pytest.mark.parametrize("step", [{"selector": "#state", "value": "done"}, {"expr": "text('#state') == 'done'"}])
def test_what_does_not_hold_in_that_time_fails_and_the_rule_applies(step: dict[str, Any]) -> None:
    theatre = Theatre()
    theatre.session.page = {"text #state": "busy"}
    result = play(theatre, steps=[{"act": "assert", **step}], expect_timeout=4, error_recovery=RETRY)
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == ("ASSERTION_FAILED", 0)
    assert "4 s" in result.failure.message
    assert theatre.clock.time == pytest.approx(4 + 2 + 4, abs=0.01)


def test_it_waits_no_longer_than_the_step_and_a_precondition_does_not_wait() -> None:
    theatre = Theatre()
    theatre.session.page = {"text #state": "busy"}
    steps = [{"act": "assert", "selector": "#state", "value": "done", "timeout": 1}]
    play(theatre, steps=steps, expect_timeout=60)
    assert theatre.clock.time == pytest.approx(1, abs=0.01)
    theatre = Theatre()
    assert play(theatre, preconditions=["exists('#b')"], expect_timeout=60).final_state == "aborted"
    assert theatre.clock.time == 0


def test_it_is_a_limit_of_the_task_and_scaled_like_the_others() -> None:
    theatre = Theatre()
    theatre.settings = theatre.settings.model_copy(update={"timeout_scale": 2.0})
    assert theatre.plan(expect_timeout=3).expect_timeout == 6
    assert theatre.plan().expect_timeout == 0


class FlickeringWorld(FakeWorld):
    """A world whose channel cannot be read before a moment."""

    clock: Any
    good_from: float
    code: str

    async def channel(self, name: str) -> Any:
        if self.clock.now() < self.good_from:
            raise Failed(Failure(self.code, f"channel `{name}`: it is not JSON"))
        return self.environment


@pytest.mark.parametrize("code", ["DATA_CORRUPTION", "CHANNEL_UNREADABLE"])
def test_a_bad_reading_of_a_channel_is_no_verdict_while_the_expect_timeout_lasts(code: str) -> None:
    def ended(good_from: float, expect: float, what: str = code, **more: Any) -> TaskResult:
        theatre = Theatre()
        world = FlickeringWorld({"total": 20}, {"t": 20})
        world.clock, world.good_from, world.code = theatre.clock, theatre.clock.now() + good_from, what
        theatre.world = world
        criteria = ["json('env', 'total') == 20", "json('env', 'total') < 30"]
        return play(theatre, **{"success_criteria": criteria, "expect_timeout": expect, **more})

    assert ended(1.0, 5).final_state == "completed"
    bound = ended(1.0, 5, state_bindings={"t": "env.total"}, success_criteria=[])
    assert (bound.final_state, bound.failure) == ("completed", None), "a binding is read again, too"
    lost = ended(60.0, 5, state_bindings={"t": "env.total"}, success_criteria=[])
    assert lost.failure is not None
    assert lost.failure.code == code, "and it is not left out"
    never = ended(60.0, 5)
    assert never.failure is not None
    assert never.failure.code == code, "what cannot be read is no criterion that does not hold"
    assert 4 < never.elapsed < 30
    if code == "DATA_CORRUPTION":  # the other one has a rule by which it is tried again
        assert ended(0.5, 0).failure is not None
    refused = ended(1.0, 5, "INVALID_INPUT")
    assert refused.failure is not None
    assert (refused.failure.code, refused.elapsed < 1) == ("INVALID_INPUT", True)
