"""Why an element could not be acted on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.browser.failures.classify import element_failure
from harness.browser.failures.scene import CallLog, Facts
from harness.recovery.catalog import Effect

SCENE: Any = SimpleNamespace(
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
