"""What is refused when a file is loaded is refused by the browser, and what the browser reads is not refused."""

from __future__ import annotations

from random import Random
from typing import Any

from playwright.async_api import Error as PlaywrightError

from harness.spec.selectors import SelectorError, check_selector
from tests.browser.stage import Stage, failed
from tests.unit.spec.selectors import GOOD, MALFORMED

INSERTED = "[]()\"'\\.#:=>,* 5a~/|"
ONLY_HERE = ("needs a whole number", "needs true or false", "unknown pseudo-class", "no condition on an attribute")
"""Problems of parts that Playwright never asks the page about, or takes for something that is never so."""


async def test_selectors_that_are_refused_at_loading_are_refused_in_a_run(stage: Stage) -> None:
    session = await stage.at()
    codes = {selector: (await failed(session, {"act": "click", "selector": selector})).code for selector in MALFORMED}
    assert set(codes.values()) <= {"INVALID_INPUT", "ACTION_FAILED"}, codes


async def test_no_selector_that_the_browser_reads_is_refused(stage: Stage) -> None:
    page = (await stage.at()).tab.page
    found = {selector: refusal(selector) for selector in cases()}
    wrong = [(each, why) for each, why in found.items() if why and await reads(page, each)]
    assert wrong == []


def cases() -> list[str]:
    """The good selectors, and each with one character less or more, by a seed."""
    random = Random(1)
    found = list(GOOD)
    for selector in GOOD:
        for _ in range(6):
            at = random.randrange(len(selector))
            found += [selector[:at] + selector[at + 1 :], selector[:at] + random.choice(INSERTED) + selector[at:]]
    return [each for each in dict.fromkeys(found) if each]


def refusal(selector: str) -> str:
    try:
        check_selector(selector)
    except SelectorError as error:
        return "" if any(words in error.problem for words in ONLY_HERE) else error.problem
    return ""


async def reads(page: Any, selector: str) -> bool:
    try:
        await page.locator(selector).count()
    except PlaywrightError:
        return False
    return True
