"""Two requests that ask the same question have the same canonical form, and refs are translated between runs."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models.canonical import (
    IGNORED,
    PICTURE,
    CanonicalRequest,
    between_runs,
    canonical,
    digest_of,
    translate_answer,
)

REFS = st.lists(st.from_regex(r"(f[1-9])?e[1-9][0-9]{0,2}", fullmatch=True), min_size=1, max_size=8, unique=True)


def asked(document: object, **more: object) -> CanonicalRequest:
    return canonical("claude", "POST", "/v1/messages", json.dumps(document).encode(), **more)  # type: ignore[arg-type]


def shuffled(value: object, order: list[int]) -> object:
    """The same JSON with the keys of its objects in another order."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: hash((key, *order)))
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(each, order) for each in value] if isinstance(value, list) else value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=6,
)


@given(JSON, st.lists(st.integers(), min_size=1, max_size=3))
def test_the_order_of_keys_does_not_matter(document: object, order: list[int]) -> None:
    assert asked(document).digest == asked(shuffled(document, order)).digest


@given(REFS, st.integers(min_value=1, max_value=50), st.text(alphabet="xyz -\n", max_size=10))
def test_the_names_of_refs_do_not_matter(refs: list[str], shift: int, text: str) -> None:
    def question(names: list[str]) -> CanonicalRequest:
        page = "\n".join(f'- button "{number}" [ref={name}]' for number, name in enumerate(names))
        return asked({"page": page, "history": f"{text} clicked aria-ref={names[-1]}"})

    other = [f"f7e{shift + number}" for number in range(len(refs))]
    assert question(refs).digest == question(other).digest
    assert len(question(refs).refs) == len(refs)


def test_other_words_are_another_question() -> None:
    assert asked({"text": "Buy a mouse"}).digest != asked({"text": "Buy a house"}).digest


def test_the_model_and_the_path_belong_to_the_question() -> None:
    one = canonical("a", "POST", "/v1/messages", b"{}")
    assert one.digest != canonical("b", "POST", "/v1/messages", b"{}").digest
    assert one.digest != canonical("a", "POST", "/v1/responses", b"{}").digest


def test_a_ref_counts_only_where_it_stands_alone() -> None:
    found = asked({"text": 'e1 [ref=e1] "size1", e12'}).document["body"]
    assert found == {"text": 'ref1 [ref=ref1] "size1", e12'}


def test_what_a_pattern_ignores_does_not_count() -> None:
    ignore = (re.compile(r"\d+ s left"),)
    one, other = (asked({"text": f"{left} s left"}, ignore=ignore) for left in (12, 299))
    assert one.digest == other.digest
    assert one.document["body"] == {"text": IGNORED}


def test_pictures_do_not_count() -> None:
    one = asked({"image_url": {"url": "data:image/png;base64," + "A" * 300}})
    assert one.document["body"] == {"image_url": {"url": PICTURE}}
    assert asked({"source": {"data": "B" * 300}}).digest == asked({"source": {"data": "C" * 400}}).digest


def test_secrets_are_not_in_the_canonical_form() -> None:
    found = asked({"text": "the password is hunter2"}, redact=lambda text: text.replace("hunter2", "***"))
    assert "hunter2" not in json.dumps(found.document)
    assert found.digest == digest_of(found.document)


def test_a_body_that_is_no_json_is_a_text() -> None:
    assert canonical("m", "POST", "/", b"\xff<html>").document["body"] == "�<html>"


def test_refs_with_the_same_name_are_not_translated() -> None:
    assert between_runs(("e1", "e2"), ("e1", "e9")) == {"e2": "e9"}


def chunk(text: str) -> str:
    call = {"index": 0, "function": {"arguments": text}}
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}) + "\n\n"


def arguments(body: str) -> str:
    events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data: {")]
    return "".join(each["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] for each in events)


@given(st.integers(1, 15), st.integers(1, 15))
def test_a_ref_is_translated_wherever_a_stream_breaks_it(first: int, second: int) -> None:
    whole = '{"target":"e3","x":"e33"}'
    one, two = sorted((first, second))
    body = "".join(map(chunk, (whole[:one], whole[one:two], whole[two:]))) + "data: [DONE]\n\n"
    changed = translate_answer(body, {"e3": "f1e7"})
    assert arguments(changed) == whole.replace('"e3"', '"f1e7"')
    assert changed.endswith("data: [DONE]\n\n")
    assert translate_answer(body, {}) == body


def test_the_fragments_of_two_tools_are_not_mixed() -> None:
    lines = [
        {"type": "content_block_delta", "index": number, "delta": {"partial_json": text}}
        for number, text in ((0, '{"t":"e'), (1, '{"t":"e'), (0, '3"}'), (1, '4"}'))
    ]
    body = "".join(f"event: content_block_delta\ndata: {json.dumps(line)}\n\n" for line in lines)
    changed = [json.loads(line[5:]) for line in translate_answer(body, {"e3": "e5"}).splitlines() if "data:" in line]
    texts = ["".join(each["delta"]["partial_json"] for each in changed if each["index"] == n) for n in (0, 1)]
    assert texts == ['{"t":"e5"}', '{"t":"e4"}']


@pytest.mark.parametrize("body", ['{"target": "e3"}', "e3"])
def test_an_answer_that_is_no_stream_is_translated(body: str) -> None:
    assert translate_answer(body, {"e3": "e4"}) == body.replace("e3", "e4")
