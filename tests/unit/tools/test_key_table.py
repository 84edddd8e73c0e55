"""The tables of keys in the docs: complete, as the models are, and every key acts in some test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from harness.criteria.syntax import BRACKETS, FUNCTIONS, OPERATORS, WAITS
from harness.recovery import Rulebook
from harness.spec.allowed_writes import AllowedWrite
from harness.spec.page_handlers import Handler
from harness.spec.task import (
    Budget,
    Expect,
    FallbackPlan,
    Repair,
    ScoringCheckpoint,
    StateBinding,
    TaskSpec,
)
from harness.spec.validation import ACTS, FAULTS, RULES
from tools.docs.key_table import PAGES, UNITS, Key, Section, marks, rendered, sections, tables, updated
from tools.docs.key_type import described_type

ROOT = Path(__file__).parents[3]
KEYS = {key.path: key for section in sections() for key in section.keys}
DEFAULTS = [(name, info.default.strategy) for name, info in Rulebook.model_fields.items() if name in RULES]
"""Rules, and the strategies that a file need not name."""
PLACES = {"steps", "faults", "error_recovery", "step", "request", "on_"}
"""Words of paths that tests need not write: helpers put a step, a fault or a rule into its place."""
PARTS: dict[str, type[BaseModel]] = {
    "": TaskSpec,
    "scoring_checkpoints[].": ScoringCheckpoint,
    "fallback_plan.": FallbackPlan,
    "state_bindings.*.": StateBinding,
    "allowed_writes[].": AllowedWrite,
    "repairs[].": Repair,
    "handlers[].": Handler,
    "budget.": Budget,
    "expect.": Expect,
}


def declared() -> Iterator[tuple[str, str]]:
    """The place of each field of the models, and the one where a field of all is told of."""
    for prefix, model in PARTS.items():
        yield from ((prefix + name, prefix + name) for name in model.model_fields)
    for name, tag, models in (("steps", "act", ACTS), ("faults", "kind", FAULTS)):
        for word, model in models.items():
            fields = model.model_fields.keys() - {tag, "guards"}  # which step groups alone set
            for field in fields:
                bases = (f"{name}[].", "faults[step].", "faults[request].")
                shared = (base + field for base in bases if base.startswith(name))
                yield f"{name}[{word}].{field}", next((key for key in shared if key in KEYS), "")
    for rule, strategies in RULES.items():
        for word, model in strategies.items():
            fields = model.model_fields.keys() - {"strategy"}
            yield from ((f"error_recovery.{rule}: {word}.{field}", f"error_recovery.on_*.{field}") for field in fields)


def test_every_field_of_the_models_is_a_key() -> None:
    assert [own for own, shared in declared() if own not in KEYS and shared not in KEYS] == []
    assert {f"steps[{act}]" for act in ACTS} | {f"faults[{kind}]" for kind in FAULTS} <= KEYS.keys()
    assert {f"error_recovery.{rule}: {word}" for rule, words in RULES.items() for word in words} <= KEYS.keys()


def test_a_key_says_what_it_means_and_a_number_its_unit() -> None:
    assert [key.path for key in KEYS.values() if not key.meaning.endswith((".", "`"))] == []
    units = {key.path: (key.unit, units_of(key)) for key in KEYS.values()}
    assert {path: unit for path, (unit, fitting) in units.items() if unit not in fitting} == {}


def units_of(key: Key) -> tuple[str, ...]:
    """Those that it may have; an empty one: none."""
    if key.path.endswith("_seconds"):
        return ("seconds",)
    if key.path.endswith("_ms"):
        return ("milliseconds",)
    is_number = key.type.startswith(("number", "whole number")) and " or " not in key.type
    return UNITS if is_number else ("", *UNITS)


def words(path: str) -> set[str]:
    """What a file that uses the key writes: the key, and the act, kind, rule and strategy that it belongs to."""
    for rule, strategy in DEFAULTS:
        path = path.replace(f"{rule}: {strategy}.", f"{rule}.")
    *places, key = re.findall(r"\w+", path)
    return {*places} - PLACES | {key}


def test_every_key_acts_in_some_test() -> None:
    here = Path(__file__).parent
    files = (path for path in (ROOT / "tests").rglob("*.py") if here not in path.parents)
    used = [frozenset(re.findall(r"\w+", path.read_text("utf-8"))) for path in files]
    assert [path for path in KEYS if not any(words(path) <= each for each in used)] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_table_of_the_models(name: str) -> None:
    page = (ROOT / "docs" / PAGES[name]).read_text("utf-8")
    assert updated(page, name, rendered(tables()[name])) == page, "run `python -m tools.docs.key_table docs`"


def test_every_table_has_its_page() -> None:
    assert PAGES.keys() == tables().keys()


def test_only_what_is_between_the_marks_changes() -> None:
    first, last = marks("x")
    assert updated(f"a\n{first}\nold\n{last}\nb\n", "x", "new") == f"a\n{first}\n\nnew\n\n{last}\nb\n"
    with pytest.raises(ValueError, match="has no lines"):
        updated(f"a\n{first}\nold\n", "x", "new")


def test_every_key_has_a_row_and_every_row_all_cells() -> None:
    for section in sections():
        rows = [line for line in rendered([section]).splitlines() if line.startswith(("| `", "| **"))]
        assert {row.replace("\\|", "").count("|") for row in rows} == {4}
        names = {row.split("`")[1].rpartition(".")[2] for row in rows}
        assert [key.path for key in section.keys if re.findall(r"\w+", key.path)[-1] not in names] == []


def test_what_several_share_has_one_row_that_each_of_them_names() -> None:
    keys = [
        *(Key("steps[a]", "", "", "", "Do a."), Key("steps[a].x", "text", "", "", "The x.")),
        *(Key("steps[b]", "", "", "", "Do b."), Key("steps[b].x", "text", "", "", "The x.")),
        *(Key("steps[c]", "", "", "", "Do c."), Key("steps[c].x", "text", "", "`1`", "The x.")),
    ]
    assert rendered([Section("Acts", "steps", tuple(keys))]).splitlines()[4:] == [
        "| `x` | text | The x. |",
        "| **`a`** |  | Do a. Takes `x`. |",
        "| **`b`** |  | Do b. Takes `x`. |",
        "| **`c`** |  | Do c. |",
        "| `x` | text; default `1` | The x. |",
    ]


def test_every_function_and_word_of_criteria_is_explained() -> None:
    page = (ROOT / "docs" / "criteria.md").read_text("utf-8")
    table = page.partition("## Operators")
    assert [name for name in FUNCTIONS if f"`{name}(" not in table[0]] == []
    assert [word for word in (*OPERATORS, *BRACKETS, *WAITS) if f"`{word}" not in table[2]] == []


def test_types_in_words() -> None:
    said: list[tuple[dict[str, Any], str]] = [
        ({"type": "string"}, "text"),
        ({"type": "string", "maxLength": 2000}, "text, at most 2,000 characters"),
        ({"type": "boolean"}, "yes or no"),
        ({"type": "integer", "minimum": 1, "maximum": 300}, "whole number 1 to 300"),
        ({"type": "integer", "minimum": 0}, "whole number from 0"),
        ({"type": "number", "exclusiveMinimum": 0}, "number above 0"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 3600}, "number above 0, at most 3,600"),
        ({"type": "array", "items": {"type": "string"}}, "list of texts"),
        ({"type": "array", "items": {"type": "integer", "minimum": 0}}, "list of whole numbers from 0"),
        (
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
            "mapping of lists of texts",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "number"}]}, "text or number"),
        ({"enum": ["a", "b", "c"]}, "`a`, `b` or `c`"),
        ({}, "anything"),
    ]
    assert [described_type(schema) for schema, _ in said] == [text for _, text in said]
