"""The document as rows, and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.demo.worlds import to_document, to_rows

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_any_document_survives_the_way_through_rows(document: dict[str, Any]) -> None:
    assert to_document(to_rows(document).items()) == document


def test_one_row_per_entry() -> None:
    rows = to_rows({"shop": {"orders": {"O-1": {"total": 3}}, "cart": {}}, "world": {"now": "2025"}})
    assert rows == {
        ("shop", "orders", "O-1"): '{"total": 3}',
        ("shop", "cart"): "{}",
        ("world", "now"): '"2025"',
    }
