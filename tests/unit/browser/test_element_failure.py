"""Why an element could not be acted on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.browser.failures.classify import element_failure
from harness.browser.failures.scene import CallLog, Facts
from harness.recovery.catalog import Effect

SCENE: Any = SimpleNamespace(
    place=None,
    page=SimpleNamespace(url="http://shop.test/"),
    selector="#b",
    what="type #b",
    within=2.0,
    patience=1.0,
    pictures=False,
    watch=SimpleNamespace(loading={}),
)
LOOK = ("locator resolved to <input/>", "attempting fill action", "waiting for element to be visible, enabled")
AGAIN = ("element is not enabled", "retrying fill action", "waiting 20ms", LOOK[-1])


@pytest.mark.parametrize(
    ("lines", "facts", "code", "effect"),
    [
        (LOOK, Facts(1), "STEP_TIMEOUT", Effect.POSSIBLE),
        (LOOK, Facts(1, disabled=True), "STEP_TIMEOUT", Effect.POSSIBLE),  # what the act did may have disabled it
        (LOOK + AGAIN, Facts(1, disabled=True), "ELEMENT_DISABLED", Effect.NONE),
        (LOOK + AGAIN, Facts(1, visible=False), "ELEMENT_HIDDEN", Effect.NONE),
        (LOOK + AGAIN, Facts(1), "STEP_TIMEOUT", Effect.POSSIBLE),  # it has become ready, and may be filled
        (LOOK + AGAIN, None, "STEP_TIMEOUT", Effect.POSSIBLE),
        ((*LOOK, *AGAIN[:-1]), Facts(1, disabled=True), "ELEMENT_DISABLED", Effect.NONE),
    ],
)
def test_an_element_that_was_never_ready_says_so_whenever_its_time_ends(
    lines: tuple[str, ...], facts: Facts | None, code: str, effect: Effect
) -> None:
    failure = element_failure(SCENE, facts, CallLog(lines))
    assert (failure.code, failure.effect) == (code, effect)


CLICKED = ("locator resolved to <b/>", "attempting click action")
PASSED_BY = ("element is not stable", "retrying click action", "<body>…</body> intercepts pointer events")


@pytest.mark.parametrize(
    ("lines", "facts", "code"),
    [
        ((*CLICKED, *PASSED_BY), Facts(1), "ELEMENT_UNSTABLE"),
        ((*CLICKED, PASSED_BY[-1]), Facts(1, endless="slide"), "ELEMENT_UNSTABLE"),
        ((*CLICKED, *PASSED_BY), Facts(1, covered_by="<div>"), "ELEMENT_COVERED"),
        ((*CLICKED, PASSED_BY[-1]), Facts(1), "ELEMENT_COVERED"),
    ],
)
def test_an_element_that_moves_away_from_under_the_pointer_is_not_covered(
    lines: tuple[str, ...], facts: Facts, code: str
) -> None:
    """On a busy machine two looks at a moving element may find it at the same place."""
    assert element_failure(SCENE, facts, CallLog(lines)).code == code
