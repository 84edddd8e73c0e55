"""Editors say something for every key and every value of a task file and of a fault plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.cli.schema import schemas
from harness.spec.validation import ACTS, FAULTS, RULES

WRITTEN = ("task_spec.schema.json", "fault_plan.schema.json")
"""The schemas of files that people write."""
SCHEMAS = schemas()
TASK = SCHEMAS["task_spec.schema.json"]


def nodes(node: Any, place: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(`property` or `schema`, place, schema) of everything in a schema that describes a value."""
    if isinstance(node, list):
        for number, each in enumerate(node):
            yield from nodes(each, f"{place}[{number}]")
    if not isinstance(node, dict):
        return
    yield "schema", place, node
    for key, value in node.items():
        if key in ("properties", "$defs"):
            for name, each in value.items():
                if key == "properties":
                    yield "property", f"{place}.{name}", each
                yield from nodes(each, f"{place}.{name}")
        elif key not in ("default", "enum", "const", "examples", "enumDescriptions", "discriminator"):
            yield from nodes(value, place)


def plain(text: Any) -> bool:
    """Whether it is a sentence for people."""
    internal = ("docs/design", "docs/decisions", "pydantic")
    return isinstance(text, str) and " " in text.strip() and not any(word in text for word in internal)


@pytest.mark.parametrize("name", WRITTEN)
def test_each_key_has_a_description(name: str) -> None:
    found = [(place, each) for kind, place, each in nodes(SCHEMAS[name], name) if kind == "property"]
    assert len(found) > 300
    assert [place for place, each in found if not plain(each.get("description"))] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_each_value_of_an_enumeration_has_a_description(name: str) -> None:
    found = [(place, each) for kind, place, each in nodes(SCHEMAS[name], name) if kind == "schema" and "enum" in each]
    assert len(found) >= 3
    silent = [place for place, each in found if len(each.get("enumDescriptions", ())) != len(each["enum"])]
    assert silent == []
    assert [text for _, each in found for text in each["enumDescriptions"] if not plain(text)] == []


def test_each_rule_says_when_it_answers_and_what_its_strategies_do() -> None:
    rules = TASK["$defs"]["Rulebook"]["properties"]
    for rule, strategies in RULES.items():
        words, *_, mapping = [each for each in rules[rule]["anyOf"] if "$ref" not in each]
        assert plain(rules[rule]["description"]), rule
        for enum in (words, mapping["properties"]["strategy"]):
            assert enum["enum"] == list(strategies)
            assert enum["enumDescriptions"] == [(model.__doc__ or "").splitlines()[0] for model in strategies.values()]


def test_the_hover_of_a_rule_lists_its_strategies_and_its_default() -> None:
    rules = TASK["$defs"]["Rulebook"]["properties"]
    assert rules["on_network_error"]["description"].splitlines() == [
        "A host could not be reached, broke off, did not answer, or answered with an error.",
        "`retry` (the default): Try again after a fixed delay; a declared `backoff_multiplier` makes it grow.",
        "`exponential_backoff`: Try again after delays that grow by a factor, 2 unless declared.",
        "`abort`: End the task at once; nothing is tried again.",
    ]
    for rule, strategies in RULES.items():
        first, *lines = rules[rule]["description"].splitlines()
        assert plain(first)
        assert [line.split("`")[1] for line in lines] == list(strategies), rule
        assert sum("(the default)" in line for line in lines) == 1, rule


def test_acts_and_kinds_of_faults_say_what_they_do() -> None:
    texts = {
        (tag, each["const"]): each["description"]
        for definition in TASK["$defs"].values()
        for tag, each in definition.get("properties", {}).items()
        if tag in ("act", "kind") and "const" in each
    }
    models = {
        **{("act", name): each for name, each in ACTS.items()},
        **{("kind", name): each for name, each in FAULTS.items()},
    }
    assert set(texts) == set(models)
    for key, model in models.items():
        assert (model.__doc__ or "").splitlines()[0] in texts[key]


def test_no_heading_is_the_name_of_a_class() -> None:
    assert [place for name in WRITTEN for _, place, each in nodes(SCHEMAS[name], name) if "title" in each] == []


def test_a_key_that_is_called_title_is_kept() -> None:
    from harness.cli.schema import for_readers

    schema = {"title": "Thing", "properties": {"title": {"title": "Title", "description": "One (docs/decisions/005)."}}}
    assert for_readers(schema) == {"properties": {"title": {"description": "One."}}}
