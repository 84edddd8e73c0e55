"""What nearly matches a selector that matches nothing."""

from __future__ import annotations

import pytest

from harness.browser.failures.near_misses import nearest_text, prefixes, similar, without_text


def test_similar_looks_at_the_last_simple_selector_that_the_page_lacks() -> None:
    names = ["#pay-now", ".pay", ".red", '[data-testid="pay"]']
    assert similar("form > #pay_now", names)[0] == "#pay-now"
    assert similar("#pay_now.red", names)[0] == "#pay-now"
    assert similar(".pay.red", names) == ()
    assert similar("button", names) == ()


@pytest.mark.parametrize(
    ("selector", "bare"),
    [
        ("button.lg:has-text('Buy (now)')", "button.lg"),
        ('.row:has-text("A \\"b\\"") >> a:text-is(x)', ".row >> a"),
        ("button.lg", ""),
        (":has-text('x')", ""),
        ("#a >> :text('x')", ""),
    ],
)
def test_a_selector_without_its_conditions_on_text(selector: str, bare: str) -> None:
    assert without_text(selector) == bare


def test_the_text_that_resembles_most_what_was_meant_is_named() -> None:
    texts = ["Title", "Alien", "Solaris", "Stalker"]
    assert nearest_text("#list a:has-text('Solariss')", texts) == "Solaris"
    assert nearest_text("#list a:has-text('Metropolis')", texts) == "Title"
    assert nearest_text("#list a:text-is(Solariss)", []) == ""
    links = ["Home", "Company logo", "Sign in to your account, or make a new one"]
    assert nearest_text('role=link[name*="Signin"i]', links) == links[2]
    assert nearest_text('role=link[name*="Our logo"i]', links) == links[1]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("#a", [("#a", "#a")]),
        (
            "#wrong .monaco-editor >> nth=0",
            [
                ("#wrong", "#wrong"),
                ("#wrong .monaco-editor", ".monaco-editor"),
                ("#wrong .monaco-editor >> nth=0", "nth=0"),
            ],
        ),
        ("form > input[name='a > b'] + i", [("form", "form"), ("form > input[name='a > b']", "input[name='a > b']"),
                                            ("form > input[name='a > b'] + i", "+ i")]),
        ("li:has(a, b) .x", [("li:has(a, b)", "li:has(a, b)"), ("li:has(a, b) .x", ".x")]),
        ("//div/a", [("//div/a", "//div/a")]),
        ("#a >> text=Sign in", [("#a", "#a"), ("#a >> text=Sign in", "text=Sign in")]),
        ("#a, #b", []),
    ],
)  # fmt: skip
def test_the_beginnings_of_a_selector(selector: str, expected: list[tuple[str, str]]) -> None:
    assert prefixes(selector) == expected
