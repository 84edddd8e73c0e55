"""Before anything is done again, the pages are stopped from sending, and asked what had left them."""

from __future__ import annotations

import pytest

from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from tests.unit.engine.test_checkpoints import BACK, CRASH, LATE, acts, click, play
from tests.unit.engine.test_fallback import ALTERNATIVE, tasks
from tests.unit.engine.test_takeover import CLICK, OPEN, RESTART, Crew, then
from tests.unit.engine.test_takeover import CRASH as AGENT_FAILED
from tests.unit.engine.test_takeover import play as chained
from tests.unit.fakes import FakeSession, Theatre, post

HUNG = Failure("PAGE_UNRESPONSIVE", "it hangs", effect=Effect.POSSIBLE, tainted=True)
COVERED = Failure("ELEMENT_COVERED", "#b is covered", "#b", effect=Effect.NONE)


def test_a_request_that_leaves_only_when_the_pages_are_stopped_forbids_the_way_back() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    theatre.session.late = [post()]
    result = play(theatre, checkpoints=[0])
    assert acts(theatre) == ["#a", "#b"]
    assert result.failure is not None
    assert "step 0 is a write without `done_when`" in result.failure.message


@pytest.mark.parametrize("declared", [{}, {"effect": "idempotent"}])
def test_the_pages_are_stopped_before_the_task_goes_back(declared: dict[str, str]) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    theatre.session.late = [post()] if declared else []
    steps = [click("#a", **declared), click("#b")]
    assert play(theatre, checkpoints=[0], steps=steps).final_state == "completed"
    assert acts(theatre) == ["#a", "#b", "#a", "#b"]
    assert theatre.session.holds


@pytest.mark.parametrize("failure", [COVERED, Failure("NET_DNS", "no such host")])
def test_a_failure_that_did_nothing_stops_no_page(failure: Failure) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), failure]
    assert play(theatre).final_state == "completed"
    assert acts(theatre) == ["#a", "#b", "#b", "#c", "#d"]
    assert theatre.session.holds == 0


def test_no_page_is_stopped_for_a_way_back_that_does_not_exist() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), LATE]
    result = play(theatre, checkpoints=[2])
    assert "there is no checkpoint at or before step 1" in str(result.failure)
    assert theatre.session.holds == 0


def test_an_act_that_was_cut_off_sends_before_its_page_is_freed() -> None:
    theatre = Theatre()
    theatre.session.script = [HUNG]
    theatre.session.late = [post()]
    result = play(theatre)
    assert acts(theatre) == ["#a"]
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"


@pytest.mark.parametrize(
    ("effect", "tells", "code"),
    [
        (None, True, None),
        (None, False, "OUTCOME_UNKNOWN"),
        ("idempotent", False, None),
        ("write", True, "OUTCOME_UNKNOWN"),
    ],
)
@pytest.mark.parametrize("failure", [HUNG, Failure("PAGE_CRASHED", "gone", effect=Effect.POSSIBLE, tainted=True)])
def test_an_act_is_repeated_only_if_its_page_has_told_that_it_sent_nothing(
    failure: Failure, effect: str | None, code: str | None, *, tells: bool
) -> None:
    theatre = Theatre()
    theatre.session.script, theatre.session.tells = [failure], tells
    result = play(theatre, steps=[click("#a", **({"effect": effect} if effect else {}))], checkpoints=[0])
    assert (result.failure and result.failure.code) == code
    assert len(acts(theatre)) == (1 if code else 2)
    if effect is None and not tells:
        assert "may have sent what could not be seen" in str(result.failure)


def test_a_page_that_hangs_for_good_makes_the_act_before_unsure() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Failure("PAGE_UNRESPONSIVE", "it hangs", tainted=True)]
    theatre.session.script.append(theatre.session.script[1])
    theatre.session.tells = False
    steps = [click("#a"), {"act": "wait", "selector": "#b"}]
    result = play(theatre, steps=steps, checkpoints=[0])
    assert acts(theatre) == ["#a", "#b", "#b"]
    assert result.failure is not None
    assert "step 0 is a write without `done_when`" in result.failure.message


def test_a_browser_that_is_gone_between_the_acts_has_told_what_they_sent() -> None:
    theatre = Theatre()
    theatre.session.script, theatre.session.tells = [Passed(), CRASH], False
    assert play(theatre, checkpoints=[0]).final_state == "completed"
    assert acts(theatre) == ["#a", "#b", "#a", "#b", "#c", "#d"]


def test_what_leaves_before_another_agent_begins_anew_forbids_that() -> None:
    theatre = Theatre()
    theatre.session.late = [post()]
    crew = Crew(builder=then(OPEN, CLICK, AGENT_FAILED), simple=then(CLICK))
    result = chained(crew, theatre, settings=RESTART)
    assert (crew.asked[3], theatre.session.restored) == (("simple", 2), [])
    assert "step 1 may have written" in result.warnings[0].message


def test_an_alternative_task_does_not_run_beside_pages_that_still_send() -> None:
    theatre = Theatre()
    theatre.find = tasks(OTHER={})
    seen: list[int] = []

    def other(session: FakeSession) -> Passed:
        seen.append(session.holds)
        return Passed()

    other.of_session = True  # type: ignore[attr-defined]
    theatre.session.script = [LATE, other]
    result = play(theatre, **ALTERNATIVE, steps=[click("#a")], error_recovery={})
    assert result.alternative is not None
    assert seen == [1]


def test_pages_of_a_step_that_goes_on_send_again() -> None:
    released: list[str] = []

    class Session(FakeSession):
        async def release(self) -> None:
            released.append(acts(theatre)[-1] if theatre.session.acts else "")

    theatre = Theatre()
    theatre.session = Session(theatre.clock)
    theatre.session.script = [HUNG]
    assert play(theatre, error_recovery=BACK).final_state == "completed"
    assert released.count("#a") >= 1


def test_an_agent_is_not_asked_before_it_is_known_what_a_click_may_still_send() -> None:
    """The request leaves after the click has failed: only when the page is stopped is a false `done_when` an answer."""
    theatre = Theatre()
    theatre.session.script = [Passed(), Failure("STEP_TIMEOUT", "too late", effect=Effect.POSSIBLE)]
    theatre.session.late = [post()]
    theatre.session.page["exists #done"] = False
    buy = {**CLICK, "effect": "write", "done_when": "exists('#done')"}
    crew = Crew(builder=then(OPEN, buy, buy))
    result = chained(crew, theatre)
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"
    assert [step.act for _, step, *_ in theatre.session.acts] == ["open", "click"]


def test_a_retry_waits_until_it_is_known_what_the_act_may_still_send() -> None:
    theatre = Theatre()
    theatre.session.script = [Failure("ACTION_FAILED", "the page went elsewhere", effect=Effect.POSSIBLE)]
    theatre.session.late = [post()]
    result = play(theatre, error_recovery={"on_action_failed": "retry"})
    assert acts(theatre) == ["#a"]
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"
