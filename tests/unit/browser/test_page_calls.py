"""What the exception of an ordinary test says: the call, its line, its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.browser.page_tests.calls import CodeLine, FailedCall, assertion_of, failed_call, told
from harness.browser.page_tests.examine import python_failure, unseen_failure
from harness.runner.page_tests import test_id as id_of

HERE = CodeLine("test_shop.py", 3, 'assert page.title() == "Cart"')


def called(
    text: str, api: str = "LocatorAssertions.to_have_text", error: type[Exception] = AssertionError
) -> FailedCall:
    return FailedCall(error(text), HERE, api=api, selector="h1", shown="h1")


@pytest.mark.parametrize(
    ("text", "expected", "actual"),
    [
        ("Locator expected to have text 'Cart'\nActual value: Shop \nCall log:\n  - Expect", "Cart", "Shop"),
        (
            "Locator expected to have text 'it's'\nActual value: None\nError: element(s) not found \nCall log:",
            "it's",
            None,
        ),
        ("Locator expected to be visible\nActual value: hidden \nCall log:\n", "to be visible", "hidden"),
        ("Page title expected to be 'a\nb'\nActual value: c \nCall log:\n", "a\nb", "c"),
        ("my words\nExpected value: '3'\nActual value: 2 \nCall log:\n", "3", "2"),
    ],
)
def test_the_values_of_an_expect(text: str, expected: object, actual: object) -> None:
    found = assertion_of(called(text))
    assert found is not None
    assert (found.expected, found.actual) == (expected, actual)


def test_the_values_of_an_assert_are_those_that_pytest_writes() -> None:
    found = assertion_of(called("assert 'Shop' == 'Cart'\n  \n  - Cart\n  + Shop", api=""))
    assert found is not None
    assert (found.expected, found.actual, found.expression) == ("Cart", "Shop", HERE.text)
    assert assertion_of(called("assert <Page> == None()", api="")) is None
    assert assertion_of(called("assert 1 < 0", api="")) is None


@pytest.mark.parametrize(
    ("api", "text", "misses"),
    [
        ("LocatorAssertions.to_have_text", "Actual value: None\nError: element(s) not found", True),
        ("LocatorAssertions.to_be_visible", "Actual value: None\nError: element(s) not found", True),
        ("LocatorAssertions.not_to_be_visible", "Error: element(s) not found", False),
        ("LocatorAssertions.to_have_count", "Error: element(s) not found", False),
        ("LocatorAssertions.to_have_text", "Actual value: Shop", False),
    ],
)
def test_an_expect_misses_its_element_only_if_it_needs_one(api: str, text: str, *, misses: bool) -> None:
    assert called(text, api).misses_its_element is misses


def test_python_is_told_from_assertions_and_from_playwright(tmp_path: Path) -> None:
    try:
        {}["total"]
    except KeyError as error:
        found = failed_call(error, Path(__file__).parent)
    assert (found.place.file, found.place.text, found.act) == ("test_page_calls.py", '{}["total"]', "KeyError")
    assert python_failure(found).code == "TEST_ERROR"
    assert told(found) == "KeyError: 'total'"
    assert failed_call(KeyError("never raised"), tmp_path).place.file == ""
    looked = FailedCall(AssertionError("assert '' == 'Cart'"), HERE)
    assert python_failure(looked).code == "ASSERTION_FAILED"
    assert "looks once" in python_failure(looked).advice


@pytest.mark.parametrize(
    ("api", "text", "code"),
    [
        ("BrowserType.launch", "BrowserType.launch: Executable doesn't exist", "BROWSER_LAUNCH_FAILED"),
        ("APIRequestContext.get", "connect ECONNREFUSED 127.0.0.1:2", "NET_CONNECTION_REFUSED"),
        ("Browser.new_context", "Target page, context or browser has been closed", "BROWSER_CRASHED"),
        ("Page.click", "Page.click: Playwright connection closed", "DRIVER_GONE"),
        ("BrowserContext.new_page", "Please use browser.new_context()", "ACTION_FAILED"),
    ],
)
def test_the_cause_without_a_page_that_could_be_asked(api: str, text: str, code: str) -> None:
    from playwright.async_api import Error

    assert unseen_failure(called(text, api, Error)).code == code
    assert unseen_failure(called(text, api, Error), hangs=3).code == "TASK_TIMEOUT"


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("tests/test_shop.py::test_buy[chromium]", "tests.test_shop--test_buy-chromium"),
        ("test_shop.py::TestCart::test_buy", "test_shop--TestCart--test_buy"),
    ],
)
def test_the_id_of_a_test_is_readable(nodeid: str, name: str) -> None:
    assert id_of(nodeid) == name
    odd = {id_of(f"test_a.py::test[{value}]") for value in ("a b", "a_b", "a/b", "ä")}
    assert len(odd) == 4
