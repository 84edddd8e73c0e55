"""What the page's answer means."""

from __future__ import annotations

import pytest

from harness.browser.failures.scene import Facts, facts_of, similar, without_text


def test_similar_looks_at_the_last_simple_selector() -> None:
    names = ["#pay-now", ".pay", '[data-testid="pay"]']
    assert similar("form > #pay_now", names)[0] == "#pay-now"
    assert similar("button", names) == ()


def test_no_match() -> None:
    assert facts_of({"count": 0, "matches": [], "names": ["#name"]}, "#nome") == Facts(0, similar=("#name",))


def test_a_match() -> None:
    answer = {
        "count": 1,
        "matches": ["<b>"],
        "names": [],
        "visible": False,
        "disabled": True,
        "covered_by": "<i>",
    }
    facts = facts_of(answer, "b")
    assert (facts.visible, facts.disabled, facts.covered_by) == (False, True, "<i>")


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
