"""What is refused when a file is loaded is refused by the browser, and what the browser reads is not refused."""

from __future__ import annotations

from random import Random
from typing import Any

from playwright.async_api import Error as PlaywrightError
from pydantic import TypeAdapter

from harness.browser.locating import in_playwright, locate
from harness.criteria import PageQuery
from harness.recovery.locators import Selector
from harness.spec.context import ContextOptions
from harness.spec.selectors import SelectorError, check_selector
from tests.browser.site import PAGES
from tests.browser.stage import Stage, failed, passed
from tests.unit.spec.selectors import GOOD, MALFORMED

INSERTED = "[]()\"'\\.#:=>,* 5a~/|"
ONLY_HERE = (
    "needs a whole number", "needs true or false", "unknown pseudo-class", "no condition on an attribute", "its quote",
    "a pattern is closed", "needs a selector in double",
)  # fmt: skip
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
        await page.locator(in_playwright(page, selector)).count()
    except PlaywrightError:
        return False
    return True


LOCATOR: TypeAdapter[str] = TypeAdapter(Selector)
PAGES["/locators"] = """<!doctype html><title>Locators</title>
<label>User name <input id=user data-testid=user data-qa=u></label><label for=mail>E-mail</label>
<input id=mail placeholder="name@example.test" title="Your e-mail">
<button id=save>Save</button><button id=all disabled>Save all</button>
<img id=logo alt="The logo" width=9 height=9><table><tr id=ann><td>Ann</td><td><a href="#">Edit</a></td></tr>
<tr id=bob><td>Bob</td><td><a href="#">Edit</a></td></tr></table>
<iframe id=frame title=inside srcdoc="<label>Card <input id=card></label>"></iframe>"""
FOUND: dict[str, tuple[Any, str]] = {
    "user": ({"label": "user NAME"}, "user"),
    "whole label": ('label="User name"', "user"),
    "placeholder": ("placeholder=example.test", "mail"),
    "title": ({"title": "Your e-mail", "exact": True}, "mail"),
    "role": ({"role": "button", "name": "Save", "exact": True}, "save"),
    "state": ({"role": "button", "disabled": True}, "all"),
    "alt": ({"alt": "logo"}, "logo"),
    "test id": ({"test_id": "user"}, "user"),
    "pattern": ({"label": {"matches": "^[Ee]-"}}, "mail"),
    "row": ({"css": "tr", "has_text": "bob"}, "bob"),
    "row by part": ({"css": "tr", "has": {"text": "Edit"}, "has_not_text": "Bob"}, "ann"),
    "last": ({"role": "row", "last": True}, "bob"),
    "within": ({"role": "link", "name": "Edit", "within": "tr >> has-text=Bob"}, ""),
}


async def test_an_element_is_found_as_people_name_it(stage: Stage) -> None:
    session = await stage.at("/locators")
    for name, (selector, found) in FOUND.items():
        text = LOCATOR.validate_python(selector)
        one = locate(session.tab.page, text, None)
        assert await one.get_attribute("id") == (found or None), name
    await passed(session, {"act": "type", "selector": "label=User name", "value": "Ann"})
    await passed(session, {"act": "type", "selector": "label=Card", "frame": {"title": "inside"}, "value": "42"})
    await passed(session, {"act": "click", "selector": {"role": "link", "within": "tr >> has-text=Bob"}})
    read = [PageQuery("value", "label=User name"), PageQuery("value", "label=Card", None, "title=inside")]
    assert [await session.read(query, 20) for query in read] == ["Ann", "42"]
    both = await failed(session, {"act": "click", "selector": {"role": "link", "name": "Edit"}})
    assert (both.code, both.selector) == ("SELECTOR_AMBIGUOUS", 'role=link[name*="Edit"i]')


async def test_a_selector_that_finds_nothing_names_what_is_near(stage: Stage) -> None:
    session = await stage.at("/locators")
    near = {
        'role=button[name="Sav"]': "with the text 'Save'",
        "label=User nane": "with the text 'User name'",
        "tr >> has-text=Bobb": "tr matches, with the text 'BobEdit'",
        "testid=usr": '[data-testid="user"]',
    }
    for selector, said in near.items():
        failure = await failed(session, {"act": "click", "selector": selector})
        assert said in f"{failure.message} {failure.advice} {failure.details}", selector
    names = (
        "<a href=/>Home</a><a href=/ aria-label='Shopping basket'>B</a><a href=/><img alt='Company logo'></a>"
        "<b id=b>Print page</b><a href=/ aria-labelledby=b>P</a>"
    )
    await session.tab.page.set_content(names)
    meant = {"Basket (2)": "Shopping basket", "Our logo": "Company logo", "Print it": "Print page"}
    for name, nearest in meant.items():
        failure = await failed(session, {"act": "click", "selector": {"role": "link", "name": name}})
        assert f"with the text {nearest!r}" in failure.message, name


async def test_the_test_attribute_is_the_one_that_the_task_names(stage: Stage) -> None:
    session = await stage.at("/locators", context=ContextOptions(test_id_attribute="data-qa"))
    await passed(session, {"act": "type", "selector": {"test_id": "u"}, "value": "Ann"})
    missing = await failed(session, {"act": "click", "selector": "testid=user"})
    assert missing.code == "ELEMENT_NOT_FOUND"
