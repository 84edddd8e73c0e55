"""Whether a request is the expected one, and the first difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.browser.expectation import mismatch
from harness.criteria import contains
from harness.model.record import PageRequest
from harness.spec.step_keys import ExpectedRequest

FORM = "application/x-www-form-urlencoded; charset=utf-8"
documents: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["a", "7"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)


def found(expected: dict[str, Any], body: bytes | None = None, kind: str = "", **fields: Any) -> tuple[Any, ...] | None:
    request = PageRequest(**{"method": "POST", "url": "http://x.test/", "status": 201, **fields}, body=body, kind=kind)
    wrong = mismatch(ExpectedRequest.model_validate({"url": "*", **expected}), request)
    return (wrong.part, wrong.expected, wrong.actual) if wrong else None


@pytest.mark.parametrize(
    ("expected", "difference"),
    [
        ({}, None),
        ({"method": "PUT"}, ("method", "PUT", "POST")),
        ({"status": 200}, ("status", 200, 201)),
        ({"json": {"items[0].id": "pen", "items[-1]": {"count": "2"}}}, None),
        ({"json": {"items.*.id": "ink"}}, None),
        ({"json": {"items[0]": {"id": "pen", "count": 1}}}, ("items[0]", {"id": "pen", "count": 1}, {"id": "pen"})),
        ({"json": {"items": [{"id": "pen"}]}}, ("items", [{"id": "pen"}], [{"id": "pen"}, {"id": "ink", "count": 2}])),
        ({"json": {"none": None}}, ("none", None, None)),
        ({"json": {"": {"total": 3.5}}}, None),
    ],
)
def test_the_first_difference_of_a_json_body(expected: dict[str, Any], difference: Any) -> None:
    body = b'{"items": [{"id": "pen"}, {"id": "ink", "count": 2}], "total": 3.5}'
    assert found(expected, body) == difference


def test_a_form_has_its_fields_and_any_other_body_has_none() -> None:
    assert (
        found({"json": {"card": 1234, "tags": ["a", "b"], "empty": ""}}, b"card=1234&tags=a&tags=b&empty=", FORM)
        is None
    )
    assert found({"json": {"a": 1}}, b"\xff\x00") == ("a", 1, None)
    assert found({"json": {"a": 1}}) == ("a", 1, None)


@given(documents)
def test_everything_contains_itself(document: Any) -> None:
    assert contains(document, document)


@given(documents, st.dictionaries(st.sampled_from("def"), documents))
def test_a_mapping_may_have_more(document: Any, more: dict[str, Any]) -> None:
    if isinstance(document, dict):
        assert contains(document | more, document)
        assert contains({"x": [document | more]}, {"x": [document]})
        assert not any(contains(document, document | {key: each}) for key, each in more.items())
