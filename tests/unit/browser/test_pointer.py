"""An act that closes its own page."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError

from harness.browser.acts.pointer import act_to_the_end

PERFORMED = "Target page, context or browser has been closed\nCall log:\n  - performing click action\n"
FOUND = "Target page, context or browser has been closed\nCall log:\n  - locator resolved to <b></b>\n"

TARGET: Any = None


def attempt_of(message: str, *, closed: bool, connected: bool, others: int) -> Any:
    """An attempt whose act raises `message`."""

    async def act(*_: Any) -> None:
        raise PlaywrightError(message)

    browser = SimpleNamespace(is_connected=lambda: connected)
    context = SimpleNamespace(browser=browser, pages=[object()] * others)
    return SimpleNamespace(
        act=act, page=SimpleNamespace(is_closed=lambda: closed), tab=SimpleNamespace(context=context)
    )


async def nothing(_: int) -> None: ...


def test_a_popup_that_closes_itself_was_acted_on() -> None:
    asyncio.run(act_to_the_end(attempt_of(PERFORMED, closed=True, connected=True, others=1), TARGET, nothing))


@pytest.mark.parametrize(
    ("message", "closed", "connected", "others"),
    [
        (FOUND, True, True, 1),
        (PERFORMED, False, True, 1),
        (PERFORMED, True, False, 1),
        (PERFORMED, True, True, 0),
    ],
)
def test_anything_else_is_a_failure(message: str, closed: bool, connected: bool, others: int) -> None:
    attempt = attempt_of(message, closed=closed, connected=connected, others=others)
    with pytest.raises(PlaywrightError):
        asyncio.run(act_to_the_end(attempt, TARGET, nothing))
