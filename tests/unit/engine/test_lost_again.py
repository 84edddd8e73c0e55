"""What is lost on the way back, or more than once in a step; and a retry that goes back instead."""

from __future__ import annotations

import pytest

from harness.recovery.catalog import Effect
from harness.recovery.failure import Circumstances, Failure, Passed
from tests.unit.engine.test_checkpoints import acts, click, play, types
from tests.unit.fakes import Theatre

CRASH = Failure("BROWSER_CRASHED", "gone", tainted=True)
HUNG = Failure("PAGE_UNRESPONSIVE", "hung", tainted=True)
PAGE_CRASH = Failure("PAGE_CRASHED", "crashed", tainted=True)
RESET = Failure("NET_CONNECTION_RESET", "reset", details={"method": "POST"}, effect=Effect.POSSIBLE)
ASKED = Failure("CHANNEL_UNREADABLE", "nothing listens")


def test_a_loss_on_the_way_back_is_tried_again_in_a_new_browser() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), Failure("PAGE_CRASHED", "crashed", tainted=True)]
    theatre.session.restoring = [CRASH, ()]
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert result.ok
    assert [restart for _, restart in theatre.session.restored] == [False, True]
    assert types(result) == ["browser_restarted", "checkpoint_restored"]


def test_losses_on_the_way_back_count() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), CRASH]
    theatre.session.restoring = [CRASH, CRASH]
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert len(theatre.session.restored) == 2
    assert result.failure is not None
    assert (
        "lost 3 times within 5 minutes: permanent for this task; this happened on the way back"
        in result.failure.message
    )


def test_a_site_that_does_not_answer_on_the_way_back_is_asked_again() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), CRASH]
    theatre.session.restoring = [Failure("NET_CONNECTION_REFUSED", "refused")] * 3 + [()]
    assert play(theatre, checkpoints=[1], error_recovery={}).ok
    theatre.session.script = [Passed(), CRASH]
    theatre.session.restoring = [Failure("NET_CONNECTION_REFUSED", "refused")] * 4
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert result.failure is not None
    assert result.failure.code == "NET_CONNECTION_REFUSED"


def test_every_hang_in_a_step_counts() -> None:
    theatre = Theatre()
    theatre.session.script = [CRASH, HUNG, HUNG]
    result = play(theatre, checkpoints=[0], error_recovery={})
    assert acts(theatre) == ["#a"] * 3
    assert result.failure is not None
    assert "permanent" in result.failure.message


def test_a_page_that_crashes_after_it_hung_has_remedies_of_its_own() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), HUNG, PAGE_CRASH]
    result = play(theatre, error_recovery={})
    assert result.ok
    assert acts(theatre) == ["#a", "#b", "#b", "#b", "#c", "#d"]
    assert theatre.session.renewed == 2


@pytest.mark.parametrize("others", [Circumstances(innocent=True), Circumstances(shared=True)])
def test_a_loss_that_others_may_have_made_has_remedies_of_its_own(others: Circumstances) -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), PAGE_CRASH, PAGE_CRASH.also(others)]
    result = play(theatre, error_recovery={})
    assert result.ok
    assert acts(theatre) == ["#a", "#b", "#b", "#a", "#b", "#c", "#d"]


def test_a_page_that_crashes_twice_in_a_step_is_opened_again_once() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), PAGE_CRASH, PAGE_CRASH]
    result = play(theatre, error_recovery={})
    assert acts(theatre) == ["#a", "#b", "#b"]
    assert result.failure is not None
    assert result.failure.code == "PAGE_CRASHED"


def test_what_may_have_been_posted_is_gone_back_over_once_where_all_is_put_back() -> None:
    theatre = Theatre()
    theatre.world.whole = True
    theatre.session.script = [Passed(), RESET]
    result = play(theatre, checkpoints=[1], error_recovery={}, steps=[click("#a"), click("#b")])
    assert result.ok
    assert types(result) == ["checkpoint_restored"]
    theatre.session.script = [Passed(), RESET, RESET]
    result = play(theatre, checkpoints=[1], error_recovery={}, steps=[click("#a"), click("#b")])
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"


def test_what_may_have_been_posted_is_left_alone_where_the_environment_stays() -> None:
    theatre = Theatre()
    theatre.session.script = [Passed(), RESET]
    result = play(theatre, checkpoints=[1], error_recovery={})
    assert result.failure is not None
    assert result.failure.code == "OUTCOME_UNKNOWN"
