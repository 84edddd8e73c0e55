"""What the page's answer means."""

from __future__ import annotations

from harness.browser.failures.scene import Facts, facts_of


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
