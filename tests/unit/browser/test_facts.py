"""What the page's answer means."""

from __future__ import annotations

from harness.browser.facts import Facts, facts_of, similar


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
