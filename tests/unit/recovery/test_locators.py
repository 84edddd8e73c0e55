"""A mapping that names an element becomes the one text that stands for it; wrong mappings say what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.recovery.locators import Locator
from harness.spec.selectors import check_selector, playwright_selector, readable_selector

TEXTS: dict[str, dict[str, Any]] = {
    'role=button[name*="Save"i]': {"role": "button", "name": "Save"},
    'role=button[name="Save"][disabled=false]': {"role": "button", "name": "Save", "exact": True, "disabled": False},
    "role=heading[level=2]": {"role": "heading", "level": 2},
    "role=link[name=/^next/]": {"role": "link", "name": {"matches": "^next"}},
    "role=button[expanded=true]": {"role": "button", "expanded": True},
    "role=option[pressed=false][selected=true]": {"role": "option", "pressed": False, "selected": True},
    "role=row[include-hidden=true]": {"role": "row", "include_hidden": True},
    "label=User name": {"label": "User name"},
    'label="User name"': {"label": "User name", "exact": True},
    'label="/home"i': {"label": "/home"},
    "placeholder=E-mail": {"placeholder": "E-mail"},
    r"text=/a\/b\\\/c/": {"text": {"matches": r"a/b\\/c"}},
    "testid=save": {"test_id": "save"},
    'testid="a >> b"': {"test_id": "a >> b"},
    "alt=Logo >> visible=true": {"alt": "Logo", "visible": True},
    "title=Help >> nth=-1": {"title": "Help", "last": True},
    "role=dialog >> #a >> nth=0": {"css": "#a", "within": {"role": "dialog"}, "first": True},
    'tr >> has="label=A \\"b\\"" >> has-not=".x" >> has-text=Bob >> has-not-text=Ann >> nth=3': {
        "css": "tr", "has": {"label": 'A "b"'}, "has_not": ".x", "has_text": "Bob", "has_not_text": "Ann", "nth": 3,
    },
}  # fmt: skip
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one of"),
    ({"nth": 2}, "it has none"),
    ({"role": "button", "label": "Save"}, "it has `label` and `role`"),
    ({"label": "Save", "name": "x"}, "`name` goes with a `role`"),
    ({"css": "#a", "checked": True}, "`checked` goes with a `role`"),
    ({"css": "#a", "exact": True}, "`exact` goes with a text"),
    ({"test_id": "a", "exact": True}, "`exact` goes with a text"),
    ({"css": "#a", "nth": 1, "last": True}, "only one of"),
    ({"role": "button", "nmae": "x"}, "nmae"),
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_mapping_becomes_one_text_that_can_be_read(text: str) -> None:
    assert str(Locator.model_validate(TEXTS[text])) == text
    check_selector(text)


@pytest.mark.parametrize(("mapping", "problem"), WRONG)
def test_a_mapping_that_is_no_locator_says_why(mapping: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Locator.model_validate(mapping)


PLAYWRIGHT = {
    "label=User name": 'internal:label="User name"i',
    'label="User name"': 'internal:label="User name"s',
    "label=/us.r/i": "internal:label=/us.r/i",
    "placeholder=E-mail": 'internal:attr=[placeholder="E-mail"i]',
    "#a >> testid=save": '#a >> internal:testid=[data-qa="save"s]',
    'tr >> has="testid=x"': 'tr >> internal:has="internal:testid=[data-qa=\\"x\\"s]"',
    'tr >> has-text="a \\"b\\""': 'tr >> internal:has-text="a \\"b\\""s',
    "tr >> left-of=\"label=x\",50": 'tr >> left-of="internal:label=\\"x\\"i",50',
    "label=Don't >> nth=0": 'internal:label="Don\'t"i >> nth=0',
    'text="part"i': 'internal:text="part"i',
}  # fmt: skip


@pytest.mark.parametrize("selector", PLAYWRIGHT)
def test_what_tasks_write_is_translated_for_playwright(selector: str) -> None:
    assert playwright_selector(selector, "data-qa") == PLAYWRIGHT[selector]


@pytest.mark.parametrize("selector", ["#a", "text=Buy", 'role=button[name="x"]', "[title=label]", 'a[href="?label=x"]'])
def test_what_playwright_reads_is_left_alone(selector: str) -> None:
    assert playwright_selector(selector) == selector


@given(
    st.sampled_from(["label", "placeholder", "alt", "title", "has_text", "test_id"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip),
    st.booleans(),
)
def test_any_text_is_found_again_in_what_playwright_is_given(kind: str, text: str, exact: bool) -> None:
    exact = exact and kind not in ("test_id", "has_text")
    mapping = {"css": "tr", kind: text} if kind == "has_text" else {kind: text, **({"exact": True} if exact else {})}
    selector = str(Locator.model_validate(mapping))
    check_selector(selector)
    given_ = playwright_selector(selector)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    assert f'"{escaped}"{"s" if exact or kind == "test_id" else "i"}' in given_
    assert readable_selector(given_) == selector


RECORDED = {
    'internal:role=button[name="Save"i]': 'role=button[name*="Save"i]',
    'internal:role=button[name="Save"s] >> nth=1': 'role=button[name="Save"] >> nth=1',
    'internal:role=button[name=/x/i]': 'role=button[name=/x/i]',
    '#a >> internal:has-text="b"i': "#a >> has-text=b",
    "internal:attr=[name=\"x\"i]": 'internal:attr=[name="x"i]',
    "internal:control=enter-frame": "internal:control=enter-frame",
}  # fmt: skip


@pytest.mark.parametrize("selector", RECORDED)
def test_what_playwright_records_becomes_readable(selector: str) -> None:
    assert readable_selector(selector) == RECORDED[selector]
