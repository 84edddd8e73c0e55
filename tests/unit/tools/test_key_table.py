"""The table of keys in docs/taskspec.md: complete, as the models are, each key with a test that there is.

`key_tests.json` beside this file names for each key the test that fails when the key stops acting.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from harness.spec.parts import Budget, Expect, FallbackPlan, Repair, ScoringCheckpoint, StateBinding
from harness.spec.task import TaskSpec
from harness.spec.vocabulary import ACTS, FAULTS, RULES
from tools.docs.key_table import BEGIN, END, TESTS, UNITS, Key, main, rendered, sections, updated
from tools.docs.key_type import described_type

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "taskspec.md"
KEYS = {key.path: key for section in sections() for key in section.keys}
NAMED: dict[str, str] = json.loads((ROOT / TESTS).read_text("utf-8"))
PARTS: dict[str, type[BaseModel]] = {
    "": TaskSpec,
    "scoring_checkpoints[].": ScoringCheckpoint,
    "fallback_plan.": FallbackPlan,
    "state_bindings.*.": StateBinding,
    "repairs[].": Repair,
    "budget.": Budget,
    "expect.": Expect,
}


def declared() -> Iterator[tuple[str, str]]:
    """The place of each field of the models, and the one where a field of all is told of."""
    for prefix, model in PARTS.items():
        yield from ((prefix + name, prefix + name) for name in model.model_fields)
    for name, tag, models in (("steps", "act", ACTS), ("faults", "kind", FAULTS)):
        for word, model in models.items():
            fields = model.model_fields.keys() - {tag}
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


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_says_what_it_means_and_a_number_its_unit(key: Key) -> None:
    assert key.meaning.endswith((".", "`"))
    if key.type.startswith(("number", "whole number")) and " or " not in key.type:
        assert key.unit in UNITS
    if key.path.endswith("_seconds"):
        assert key.unit == "seconds"
    if key.path.endswith("_ms"):
        assert key.unit == "milliseconds"


def test_every_key_has_a_test_and_no_other() -> None:
    assert sorted(NAMED) == sorted(KEYS), f"write it into {TESTS}"


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)}


def test_the_tests_are_there() -> None:
    wanted: dict[str, set[str]] = {}
    for test in NAMED.values():
        file, _, name = test.partition("::")
        wanted.setdefault(file, set()).add(name)
    missing = {file: names - functions(ROOT / file) for file, names in wanted.items()}
    assert {file: names for file, names in missing.items() if names} == {}


def test_the_document_has_the_table_of_the_models(tmp_path: Path) -> None:
    copy = tmp_path / "taskspec.md"
    copy.write_bytes(DOCUMENT.read_bytes())
    main(copy, ROOT / TESTS)
    command = "run `python -m tools.docs.key_table docs/taskspec.md`"
    assert copy.read_text("utf-8") == DOCUMENT.read_text("utf-8"), command


def test_only_what_is_between_the_marks_changes() -> None:
    assert updated(f"a\n{BEGIN}\nold\n{END}\nb\n", "new") == f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n"
    with pytest.raises(ValueError, match="has no lines"):
        updated(f"a\n{BEGIN}\nold\n", "new")


def test_every_row_has_all_cells_and_leads_to_its_test() -> None:
    rows = [line for line in rendered(sections(), NAMED).splitlines() if line.startswith(("| `", "| **"))]
    assert len(rows) == len(KEYS)
    assert {row.replace("\\|", "").count("|") for row in rows} == {7}
    assert any("](../tests/unit/engine/test_step.py) |" in row for row in rows)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
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
    ],
)
def test_types_in_words(schema: dict[str, Any], words: str) -> None:
    assert described_type(schema) == words
