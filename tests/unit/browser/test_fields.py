"""Whether a field has dropped what was typed."""

from __future__ import annotations

import pytest

from harness.browser.acts.fields import TypedField


@pytest.mark.parametrize(
    ("kind", "typed", "value", "dropped"),
    [
        ("text", "x", "", False),
        ("", "x", "", False),
        ("date", "soon", "", True),
        ("date", "  ", "", False),
        ("date", "2024-02-29", "2024-02-29", False),
        ("datetime-local", "2024-02-29 10:00", "2024-02-29T10:00", False),
        ("number", "1e999", "", True),
        ("color", "reddish", "#000000", True),
        ("color", "Black", "#000000", False),
        ("color", "#FF8800", "#ff8800", False),
        ("range", "4", "4.0", False),
        ("range", "5", "6", True),
        ("range", "many", "5", True),
    ],
)
def test_dropped(kind: str, typed: str, value: str, dropped: bool) -> None:
    assert TypedField(kind, value).has_dropped(typed) is dropped


def test_what_a_range_takes() -> None:
    assert TypedField("range", "5", "1", "9").accepted_values == "a number that fits its steps, from 1 to 9"
    assert TypedField("range", "5").accepted_values == "a number that fits its steps, from 0 to 100"
