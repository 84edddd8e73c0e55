"""What was not judged is not met: no recovery skips a criterion or a precondition, and no time-out passes one."""

from __future__ import annotations

import asyncio
from typing import Any, Never

import pytest

from harness.recovery.failure import Failed, Failure
from harness.reporting.story import failed
from tests.unit.fakes import Theatre

CLICK = {"act": "click", "selector": "#a"}


def too_late(_: float) -> Never:
    raise Failed(Failure("STEP_TIMEOUT", "Step timeout: exists(#b) exceeded 2s"))


@pytest.mark.parametrize("key", ["success_criteria", "preconditions"])
def test_what_was_not_judged_is_not_skipped(key: str) -> None:
    theatre = Theatre()
    theatre.session.page = {"exists #b": too_late}
    spec: dict[str, Any] = {"steps": [CLICK], "error_recovery": {"on_timeout": "skip_step"}, key: ["exists('#b')"]}
    result = asyncio.run(theatre.play(**spec))
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.code == "STEP_TIMEOUT"
    assert not any(record.skipped for record in result.history)


def test_a_criterion_of_a_page_that_hung_is_not_judged_on_a_page_opened_anew() -> None:
    theatre = Theatre()
    looks: list[float] = []

    def hangs(within: float) -> bool:
        looks.append(within)
        if len(looks) == 1:
            raise Failed(Failure("PAGE_UNRESPONSIVE", "the page stopped answering", tainted=True))
        return False

    theatre.session.page = {"exists #err": hangs}
    result = asyncio.run(theatre.play(steps=[CLICK], success_criteria=["NOT[exists('#err')]"]))
    assert (result.final_state, len(looks)) == ("failed", 1)
    assert result.failure is not None
    assert result.failure.code == "PAGE_UNRESPONSIVE"


def test_a_step_that_asserts_is_a_step() -> None:
    """It is skipped as its file declares, and then the task is at most a partial success."""
    theatre = Theatre()
    theatre.session.page = {"exists #b": too_late}
    steps = [{"act": "assert", "expr": "exists('#b')"}]
    result = asyncio.run(theatre.play(steps=steps, error_recovery={"on_timeout": "skip_step"}))
    assert result.final_state == "partial_success"


def test_an_assertion_about_elements_none_of_which_is_shown_fails_and_says_so() -> None:
    theatre = Theatre()
    waited: list[float] = []

    async def text(selector: str, frame: str | None, patience: float, within: float = 0) -> Failure:
        theatre.clock.time += patience
        waited.append(patience)
        return Failure("ELEMENT_HIDDEN", f"{selector}: 3 elements match, none is shown", selector)

    theatre.session.text = text  # type: ignore[method-assign]
    steps = [{"act": "assert", "selector": "#x", "value": "done"}]
    result = asyncio.run(theatre.play(steps=steps, expect_timeout=15))
    assert result.failure is not None
    assert result.failure.code == "ASSERTION_FAILED"
    assert result.failure.message == "Assertion failed: #x: 3 elements match, none is shown, expected 'done'"
    assert result.failure.assertion is not None
    told = failed("", "", result.failure.message, result.failure.details, result.failure.assertion.plain)
    assert "3 elements match, none is shown" in told.reason, "the two values do not say why"
    assert waited == [10, 5], "as long as for an element, and as long as for its text"
