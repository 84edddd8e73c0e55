"""Locators become selectors that people read, and mean the same."""

from __future__ import annotations

import pytest

from harness.spec.recorded.locators import (
    LocatorPart,
    Target,
    UnwritableError,
    raw_target,
    recorded_locator,
    target_of,
)

FORMS = {
    "#buy": LocatorPart("css", "#buy"),
    'role=button[name="Buy"]': LocatorPart("role", "button", exact=True, name="Buy"),
    'role=button[name*="Buy"i]': LocatorPart("role", "button", name="Buy"),
    "role=button[name=/^buy/i]": LocatorPart("role", "button", pattern=True, name="/^buy/i"),
    "role=heading[level=2]": LocatorPart("role", "heading", states=(("level", "2"),)),
    "text=Buy now": LocatorPart("text", "Buy now"),
    'text="Buy"': LocatorPart("text", "Buy", exact=True),
    'text="a >> b"i': LocatorPart("text", "a >> b"),
    "text=/buy/i": LocatorPart("text", "/buy/i", pattern=True),
    "label=User": LocatorPart("label", "User"),
    'placeholder=Your "name"': LocatorPart("placeholder", 'Your "name"'),
    'alt="A pic"': LocatorPart("alt", "A pic", exact=True),
    "testid=x": LocatorPart("test-id", "x", exact=True),
}


@pytest.mark.parametrize("selector", FORMS)
def test_each_kind_of_locator_has_a_form(selector: str) -> None:
    assert target_of([FORMS[selector]]) == Target(selector)


def test_parts_frames_and_conditions_follow_each_other() -> None:
    row = (LocatorPart("css", "li"), LocatorPart("has-text", "Milk"), LocatorPart("nth", "-1"))
    assert target_of(row).selector == 'li:has-text("Milk") >> nth=-1'
    rows = (LocatorPart("css", "li, tr"), LocatorPart("has-text", "Milk"))
    assert target_of(rows).selector == "li, tr >> has-text=Milk"
    item = (LocatorPart("role", "listitem"), LocatorPart("has-text", "Milk"))
    assert target_of(item).selector == "role=listitem >> has-text=Milk"
    inner = (LocatorPart("css", "#a"), LocatorPart("frame"), LocatorPart("css", "#b"), LocatorPart("frame"))
    assert target_of((*inner, LocatorPart("css", "button"))) == Target("button", "#a >>> #b")
    with pytest.raises(UnwritableError, match="no element"):
        target_of(inner)
    raw = "#a >> internal:control=enter-frame >> internal:role=link"
    assert raw_target(raw) == Target("role=link", "#a")


ARIA = """\
- generic [ref=e1]:
  - button "Buy" [ref=e2]
  - button "Order O-12" [ref=e3]
  - 'link "a: \\"b\\" it''s" [ref=e4]'
  - combobox "Card" [ref=e5]:
    - option "Visa"
"""


def test_a_recorded_name_is_whole_if_the_snapshot_says_so() -> None:
    def selector(described: dict[str, object], ref: str) -> str:
        return target_of(recorded_locator(described, ARIA, ref)).selector

    def role(name: str, body: str = "button") -> dict[str, object]:
        return {"kind": "role", "body": body, "options": {"attrs": [], "exact": False, "name": name}}

    assert selector(role("Buy"), "e2") == 'role=button[name="Buy"]'
    assert selector(role("Order"), "e3") == 'role=button[name*="Order"i]'
    assert selector(role("Buy"), "") == 'role=button[name*="Buy"i]'
    assert selector(role('a: "b" it\'s', "link"), "e4") == 'role=link[name="a: \\"b\\" it\'s"]'
    label = {"kind": "label", "body": "Card", "options": {"exact": False}}
    assert selector(label, "e5") == 'role=combobox[name="Card"]'
    frame = {"kind": "default", "body": "#f", "options": {}, "next": {"kind": "frame", "body": "", "next": role("Buy")}}
    assert target_of(recorded_locator(frame, ARIA, "e2")) == Target('role=button[name="Buy"]', "#f")
    with pytest.raises(UnwritableError, match="any-frame"):
        recorded_locator({"kind": "any-frame", "body": ""})
