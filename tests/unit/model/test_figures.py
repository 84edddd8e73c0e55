"""What counts as a retry, a fallback and a recovery; the events of the same runs say the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.model.events import ResilienceActed
from harness.model.figures import FIGURES, Figures, TaskDone, figures, verdict
from harness.recovery.catalog import Family
from harness.recovery.failure import Failure, Passed
from tests.unit.fakes import Theatre

REFUSED = Failure("NET_CONNECTION_REFUSED", "refused")
ABSENT = Failure("ELEMENT_NOT_FOUND", "nothing matches #a", "#a")
SLOW = Failure("STEP_TIMEOUT", "too slow")
CRASH = Failure("BROWSER_CRASHED", "gone")
COVERED = Failure("ELEMENT_COVERED", "covered")
UNMET = "mem('address') == 'home'"
CLICKS = [{"act": "click", "selector": name} for name in ("#a", "#b", "#c")]
OTHERS = {"strategy": "try_fallback_selector", "fallback_selectors": {"#a": ["#x", "#y"]}}
REPAIR = {"on_precondition_fail": "attempt_repair"}


def played(*script: Any, **spec: Any) -> tuple[Figures, Theatre, list[str]]:
    """The figures, and the types of warnings. What the events add up to is compared at once."""
    theatre = Theatre()
    theatre.session.script = list(script)
    result = asyncio.run(theatre.play(**{"steps": CLICKS, **spec}))
    kinds, found = (
        Counter(each.event.type for each in theatre.events if isinstance(each, ResilienceActed)),
        figures(result),
    )
    assert (kinds["retry"], kinds["fallback"], kinds["recovered"]) == (found.retries, found.fallbacks, found.recovered)
    done = TaskDone.of(result)
    assert (done.retries, done.successful_retries) == (found.retries, found.successful_retries)
    assert (done.fallbacks, done.recovered, done.attempts) == (found.fallbacks, found.recovered, found.attempts)
    return found, theatre, [warning.type for warning in result.warnings]


def counts(found: Figures) -> tuple[int, int, int, int]:
    return found.retries, found.successful_retries, found.fallbacks, found.recovered


def test_of_the_retries_of_a_step_the_last_one_may_have_worked() -> None:
    found, _, _ = played(REFUSED, REFUSED)
    assert counts(found) == (2, 1, 0, 1)
    assert (found.attempts, found.failed_attempts) == (5, 2)
    assert found.by_rule == ((Family.NETWORK, True),)
    found, _, _ = played(*[REFUSED] * 4)
    assert counts(found) == (3, 0, 0, 0)
    assert found.by_rule == ((Family.NETWORK, False),)


def test_a_fallback_is_no_retry() -> None:
    found, _, _ = played(ABSENT, ABSENT, error_recovery={"on_element_not_found": OTHERS})
    assert counts(found) == (0, 0, 2, 1)
    assert found.by_rule == ((Family.ELEMENT, True),)


def test_ways_back_are_retries_of_their_rule() -> None:
    back = {"checkpoints": [1], "error_recovery": {"on_timeout": "retry_from_checkpoint"}}
    found, _, _ = played(fine(), fine(), SLOW, **back)
    assert counts(found) == (1, 1, 0, 1)
    assert found.by_rule == ((Family.TIMEOUT, True),)
    found, _, _ = played(fine(), fine(), SLOW, fine(), SLOW, **back)
    assert counts(found) == (1, 0, 0, 0)
    assert found.by_rule == ((Family.TIMEOUT, False),)
    found, _, _ = played(fine(), CRASH, checkpoints=[1])
    assert counts(found) == (1, 1, 0, 1)
    assert found.by_rule == ((Family.BROWSER, True),)


def fine() -> Passed:
    return Passed()


def test_a_repair_that_helped_counts_once_and_one_that_did_not_is_no_recovery() -> None:
    helped, _, _ = played(preconditions=[UNMET], repairs=[{"memory": {"address": "home"}}], error_recovery=REPAIR)
    assert counts(helped) == (1, 1, 0, 1)
    steps = [{"act": "click", "selector": "#repair"}]
    in_vain, theatre, _ = played(preconditions=[UNMET], repairs=[{"steps": steps}], error_recovery=REPAIR)
    assert len(theatre.session.acts) == 1
    assert counts(in_vain) == (1, 0, 0, 0)
    assert in_vain.by_rule == ((Family.PRECONDITION, False),)
    failed, _, _ = played(preconditions=[UNMET], repairs=[], error_recovery=REPAIR)
    assert counts(failed) == (1, 0, 0, 0)


def test_a_step_of_a_repair_has_its_own_retries() -> None:
    both = [{"steps": [{"act": "click", "selector": "#repair"}], "memory": {"address": "home"}}]
    found, _, _ = played(REFUSED, preconditions=[UNMET], repairs=both, error_recovery=REPAIR)
    assert counts(found) == (2, 2, 0, 2)
    assert set(found.by_rule) == {(Family.NETWORK, True), (Family.PRECONDITION, True)}


def test_a_covered_element_that_is_clicked_in_the_end_did_not_appear_late() -> None:
    found, _, warnings = played(COVERED)
    assert counts(found) == (1, 1, 0, 1)
    assert warnings == ["action_retry_success"]


def test_the_table_of_the_documentation() -> None:
    text = (Path(__file__).parents[3] / "docs" / "figures.md").read_text("utf-8")
    assert [f"| {name} | {meaning} |" in text for name, meaning in FIGURES.items()] == [True] * len(FIGURES)


def test_a_failure_after_fallbacks_names_the_selector_of_the_step() -> None:
    absent = [Failure("ELEMENT_NOT_FOUND", f"nothing matches {name}", name) for name in ("#a", "#x", "#y")]
    _, theatre, _ = played(*absent, error_recovery={"on_element_not_found": OTHERS})
    _, report, _, _ = theatre.archive.kept[0]
    assert report.error_message == "nothing matches #a; its fallbacks were tried in vain: #x, #y"
    assert report.context.model_extra["selector"] == "#a"
    assert report.context.model_extra["fallback_selectors"] == ["#x", "#y"]


def test_the_report_says_which_precondition_and_of_which_address() -> None:
    _, theatre, _ = played(preconditions=[UNMET])
    context = theatre.archive.kept[0][1].context.model_extra
    assert (context["precondition"], context["error"]) == (UNMET, theatre.archive.kept[0][1].error_message)
    theatre = Theatre()
    theatre.session.url = "chrome-error://chromewebdata/"
    theatre.session.script = [Failure("NET_DNS", "no such host", details={"url": "http://shop.test/"})] * 3
    asyncio.run(theatre.play(steps=CLICKS))
    assert theatre.archive.kept[0][1].context.url == "http://shop.test/"


@pytest.mark.parametrize(
    ("arguments", "counted"),
    [
        ({"final_state": "completed"}, "passed"),
        ({"final_state": "partial_success"}, "passed"),
        ({"final_state": "partial_success", "refused": True}, "failed"),
        ({"final_state": "completed", "unexpected": True}, "failed"),
        ({"final_state": "failed", "code": "STEP_TIMEOUT"}, "failed"),
        ({"final_state": "failed", "code": "STEP_TIMEOUT", "expected": True}, "passed as declared"),
        ({"final_state": "failed", "code": "STEP_TIMEOUT", "unexpected": True}, "failed"),
        ({"final_state": "aborted", "code": "INTERRUPTED"}, "not judged"),
        ({"final_state": "failed", "code": "WORKER_CRASHED", "unexpected": True}, "not judged"),
    ],
)
def test_what_a_task_counts_as(arguments: dict[str, Any], counted: str) -> None:
    assert verdict(**{"code": None, **arguments}) == counted
