"""Schemas of strangers: what fits them, that nothing is fetched, and that none takes longer than a moment."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.tools.schemas import MOST_CHECKS, misfit

FAN: dict[str, Any] = {
    "$defs": {f"d{n}": {"anyOf": 2 * [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)} | {"d40": {"type": "null"}},
    "$ref": "#/$defs/d0",
}
"""It doubles the work at each of 40 levels."""


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"properties": {"n": {"type": "integer"}}}, "`n`: 'x' is not of type 'integer'"),
        ({"properties": {"n": {"pattern": "^[0-9]+$"}}}, "`n`: 'x' does not match '^[0-9]+$'"),
        ({"properties": {"n": {"pattern": "^.$"}}}, ""),
        ({"properties": {"n": {"pattern": "(?=y)x"}}}, ""),
        ({"properties": {"n": {"pattern": "("}}}, ""),
        ({"$ref": "http://127.0.0.1:9/remote.json"}, ""),
        ({"$ref": "file:///etc/hostname"}, ""),
        ({"$ref": "#"}, ""),
        ({"properties": {"n": {"$ref": "#/allOf/x"}}, "allOf": [{}]}, ""),
        ({"$schema": {}, "type": "array"}, ""),
        ({"$schema": 5, "type": "array"}, ""),
        ({"type": 5}, ""),
        ({"description": 200_000 * "x", "type": "array"}, ""),
    ],
)
def test_what_is_wrong_is_told_and_what_cannot_be_used_is_left_to_the_server(
    schema: dict[str, Any], wrong: str
) -> None:
    assert misfit(schema, {"n": "x"}) == wrong


@pytest.mark.parametrize(
    "schema",
    [
        FAN,
        {"properties": {"n": {"pattern": "^(a+)+$"}}},
        {"patternProperties": {"^(a+)+$": {"type": "null"}}, "additionalProperties": False},
        {"properties": {"all": {"items": {"type": "integer"}}}},
    ],
    ids=["references", "pattern", "names", "long"],
)
def test_no_schema_takes_longer_than_a_moment(schema: dict[str, Any]) -> None:
    began = time.perf_counter()
    misfit(schema, {"n": 40 * "a" + "!", 40 * "a" + "!": 1, "all": list(range(3 * MOST_CHECKS))})
    assert time.perf_counter() - began < 10
