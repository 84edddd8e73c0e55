"""JSON: duplicates refused, bounds kept, every place known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.readers import UnreadableError, json_spans, read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_place_holds_its_value(value: Any, indent: Any, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read_json(text) == value
    for path, span in json_spans(text).items():
        part: Any = value
        for key in path:
            part = part[key]
        assert json.loads(text[span.start : span.end]) == part
        if path and isinstance(path[-1], str):
            assert span.key is not None
            assert json.JSONDecoder().raw_decode(text, span.key)[0] == path[-1]


def test_fifty_levels_are_fine() -> None:
    assert read_json("[" * 50 + "]" * 50)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "c": 2, "b": 3}}', r'{"a": 1, "\u0061": 2}'])
def test_a_key_stands_once(text: str) -> None:
    with pytest.raises(UnreadableError, match="twice"):
        read_json(text)


@pytest.mark.parametrize("text", ["[Infinity]", "[-Infinity]", "[1e999]", "[-1e999]", "[NaN]"])
def test_numbers_are_finite(text: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_json(text)
    assert caught.value.flaws[0].offset == 1
