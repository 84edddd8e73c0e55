"""What is surely no CSS selector; what may be one is left to the browser."""

from __future__ import annotations

import pytest

from harness.spec.fault_checks import css_flaw

GOOD = (
    "#a", ".b", "*", "a > b", "a,b", "[data-x]", '[data-x="a(b"]', 'a[href^="http://x.y/"]', "a[href$='.pdf' i]",
    "#a\\:b", "a:not(.b):nth-child(2n+1)", "li:nth-of-type(-n + 3)", "svg|a", "a /* b = c */ d", "[a='x]']", "#é",
    "a:has(> img)", "input[type=checkbox]", "[data-id~=x]", "a::before", "[a|=b]", "#-a", "a:is(.x, #y)", ".\\31 23",
    "[xlink\\:href]", '[a="say \\"x\\""]', "a:lang(en)", "button.primary:hover + p ~ i",
)  # fmt: skip


@pytest.mark.parametrize("selector", GOOD)
def test_css_is_taken(selector: str) -> None:
    assert css_flaw(selector) is None


@pytest.mark.parametrize(
    ("selector", "problem", "offset"),
    [
        ("#x[[", "there is a `[` inside a `[`", 3),
        ("a[b", "`[` is never closed", 1),
        ("a:is(b", "`(` is never closed", 4),
        ("a)", "`)` has no counterpart", 1),
        ("[a)", "`)` has no counterpart", 2),
        ("[a='x]", "the quote ' is never closed", 3),
        ("text=Foo", "`text=` names an engine", 0),
        ("a, role=button[name=x]", "`role=` names an engine", 3),
        ("//a", "it is an XPath", 0),
        ("(//a)[1]", "it is an XPath", 1),
        ("a >> b", "`>>` chains selectors", 2),
        ("a:has-text('x')", "`:has-text`: Playwright knows it", 1),
        ("a:visible", "`:visible`: Playwright knows it", 1),
        ("a,", "there is nothing after the `,`", 1),
        (", a", "there is nothing before the `,`", 0),
        ("##a", "no name follows the `#`", 0),
        ("a.1", "no name follows the `.`", 1),
        ("a {", "`{` means nothing there", 2),
        ("  ", "it is empty", 0),
    ],
)
def test_what_is_none_is_told_with_its_place(selector: str, problem: str, offset: int) -> None:
    flaw = css_flaw(selector)
    assert flaw is not None
    assert (flaw.problem.startswith(problem), flaw.offset) == (True, offset), flaw
