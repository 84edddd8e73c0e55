"""What a call log says."""

from __future__ import annotations

import pytest

from harness.browser.failures.scene import CallLog
from harness.recovery.catalog import Effect

HEAD = 'Locator.click: Timeout 1000ms exceeded.\nCall log:\n  - waiting for locator("#b")\n'
FOUND = HEAD + '    - locator resolved to <button id="b">x</button>\n  - attempting click action\n'


@pytest.mark.parametrize(
    ("message", "found", "effect"),
    [
        (HEAD, False, Effect.NONE),
        (FOUND, True, Effect.NONE),
        (FOUND + "    - performing click action\n", True, Effect.POSSIBLE),
        (FOUND + "    - performing click action\n    - click action done\n", True, Effect.DONE),
        ("no log at all", False, Effect.NONE),
    ],
)
def test_found_and_effect(message: str, found: bool, effect: Effect) -> None:
    log = CallLog.of(message)
    assert (log.found, log.effect) == (found, effect)


FILL = HEAD + '    - locator resolved to <input id="b"/>\n    - fill("b")\n  - attempting fill action\n'
LOOK = "    2 x waiting for element to be visible, enabled and editable\n"
NOT_YET = "      - element is not enabled\n    - retrying fill action\n      - waiting 20ms\n"
FILES = HEAD + '    - locator resolved to <input id="b" type="file" multiple/>\n'


@pytest.mark.parametrize(
    ("message", "unsaid"),
    [
        (FILL, True),
        (FILL + LOOK, True),
        (FILL + LOOK + NOT_YET, False),
        (FILL + LOOK + NOT_YET + LOOK, True),
        (FILL.replace("fill action", "select option action"), True),
        (FOUND, False),
        (FOUND + "    - waiting for element to be visible, enabled and stable\n", False),
        (FILES, True),
        (FILES + "  - attempting click action\n", False),
        (HEAD + "    - locator resolved to <label>File</label>\n", True),
        (HEAD, False),
    ],
)
def test_what_is_done_inside_the_page_is_not_said(message: str, unsaid: bool) -> None:
    log = CallLog.of(message)
    assert log.ends_in_silent_call is unsaid
    assert log.effect is (Effect.POSSIBLE if unsaid else Effect.NONE)


def test_covering_and_colours() -> None:
    log = CallLog.of(FOUND + '\x1b[2m    - <div id="o">x</div> intercepts pointer events\x1b[22m\n')
    assert log.covering == '<div id="o">x</div>'


def test_the_browsers_own_log_is_cut_off() -> None:
    log = CallLog.of(HEAD + "Browser logs:\n<launching> performing click action")
    assert log.effect is Effect.NONE
    assert log.tail == ['waiting for locator("#b")']


DRAG = "Locator.drag_to: Timeout 900ms exceeded.\nCall log:\n  - attempting move and down action\n"
DOWN = (
    DRAG + "    - performing move and down action\n    - move and down action done\n  - attempting move and up action\n"
)


@pytest.mark.parametrize(
    ("message", "dragging", "effect"),
    [
        (DOWN + "    - <i>x</i> intercepts pointer events\n", True, Effect.POSSIBLE),
        (DOWN + "    - performing move and up action\n    - move and up action done\n", False, Effect.DONE),
        (FOUND, False, Effect.NONE),
    ],
)
def test_a_drag_is_done_when_the_pointer_lets_go(message: str, dragging: bool, effect: Effect) -> None:
    log = CallLog.of(message)
    assert (log.dragging, log.effect) == (dragging, effect)


@pytest.mark.parametrize(
    ("message", "untouched"),
    [
        (HEAD, True),
        (FOUND, True),
        (FOUND + "    - performing click action\n", False),
        (HEAD + "    - locator resolved to <form></form>\n", False),
        ("Locator.click: Target page, context or browser has been closed", False),
    ],
)
def test_untouched_is_what_was_still_waited_for(message: str, untouched: bool) -> None:
    assert CallLog.of(message).untouched is untouched
