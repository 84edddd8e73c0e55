"""The traps of YAML 1.1 are closed; what JSON can say, YAML says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.spec import readers as yaml_reader
from harness.spec.problems import JsonPath
from harness.spec.readers import Span, UnreadableError, line_and_column, read_yaml

TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\ufffe\uffff\ufeff"), max_size=12)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2025-11-16T10:00:00Z", "2025-11-16T10:00:00Z"),
        ("2025-11-16", "2025-11-16"),
        ("010", "010"),
        ("0x1f", "0x1f"),
        ("0o17", "0o17"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("+49", "+49"),
        (".5", ".5"),
        (".inf", ".inf"),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("OFF", "OFF"),
        ("=", "="),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-7", -7),
        ("1.50", 1.5),
        ("1e3", 1000.0),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("! 5", "5"),
    ],
)
def test_plain_values_read_as_in_json(written: str, read: Any) -> None:
    value = read_yaml(f"a: {written}\n")["a"]
    assert value == read
    assert type(value) is type(read)


def test_keys_are_texts() -> None:
    assert read_yaml("on: 1\n2025: 2\nnull: 3\n010: 4\n") == {"on": 1, "2025": 2, "null": 3, "010": 4}


def test_a_few_aliases_are_fine() -> None:
    assert read_yaml("a: &x {b: [1, 2]}\nc: *x\nd: [*x, &y 5, *y]\n")["d"] == [{"b": [1, 2]}, 5, 5]


def test_an_alias_is_as_deep_as_what_it_stands_for() -> None:
    deep = "[" * 30 + "]" * 30
    with pytest.raises(UnreadableError) as caught:
        read_yaml(f"a: &x {deep}\nb: {'[' * 25}*x{']' * 25}\n")
    assert "nested more than 50" in caught.value.flaws[0].message


def test_every_duplicate_key_is_told() -> None:
    with pytest.raises(UnreadableError) as caught:
        read_yaml("a: 1\na: 2\nb: {c: 1, c: 2}\n")
    assert [flaw.offset for flaw in caught.value.flaws] == [5, 20]


def test_the_slow_parser_does_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "LOADER", yaml.SafeLoader)
    assert read_yaml("a: [010, {b: yes}]\nc: 😀 x\n") == {"a": ["010", {"b": "yes"}], "c": "😀 x"}
    with pytest.raises(UnreadableError):
        read_yaml("a: [\n")


@given(JSON)
def test_json_is_yaml(value: Any) -> None:
    assert read_yaml(json.dumps(value, ensure_ascii=False)) == value


@given(JSON)
def test_what_pyyaml_writes_is_read_back(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    if not any(float_form in text for float_form in (".inf", ".nan", "e-", "e+")):
        assert read_yaml(text) == value


@given(JSON)
def test_every_place_in_a_text_holds_its_value(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    spans: dict[JsonPath, Span] = {}
    read_yaml(text, spans)
    for path, span in spans.items():
        part: Any = value
        for key in path:
            part = part[key]
        if isinstance(part, list | dict):  # the end of a collection is not needed, and not kept
            assert text[span.start] in "[{"
        else:
            assert json.loads(text[span.start : span.end]) == part


COMMENT = "in YAML ` #` begins a comment: put the text in quotes"


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("steps:\n  - {act: click, selector: #add}\n", (2, 28), COMMENT),
        ("steps:\n  - {act: click, selector: #add}\n  - {act: open}\n", (2, 28), COMMENT),
        ("steps:\n  - {act: click,\n     selector: #add,\n     force: true}\n", (3, 16), COMMENT),
        ("tags: [it's, 'a #', #b]\nx: 1\n", (1, 21), COMMENT),
        ("tags: [a, # fine\n  b]\nx: [c, d}\n", (3, 9), "check indentation, quotes and brackets here and in the"),
        ("x: 1 # {fine\ny: [c, d}\n", (2, 9), "check indentation, quotes and brackets here and in the"),
        (
            "task_id: T\n  goal: x\n",
            (2, 7),
            "`goal` is indented deeper than `task_id` above it: begin both in column 1",
        ),
        ("s:\n  - act: open\n\n     url: x\n", (4, 9), "`act` above it: begin both in column 5"),
        ("goal: buy: it\n", (1, 10), "put the value in quotes"),
        ("a: 1\ngoal: buy: it\n", (2, 10), "put the value in quotes"),
        ("a: 1\n  goal: buy: it\n", (2, 7), "begin both in column 1"),
    ],
)
def test_the_hint_is_for_the_slip_that_was_made(text: str, place: tuple[int, int], hint: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_yaml(text)
    (flaw,) = caught.value.flaws
    assert hint in flaw.hint
    assert line_and_column(text, flaw.offset) == place
