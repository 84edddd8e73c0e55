"""Whatever a tree is written as reads back as that tree; so do the criteria of the shipped tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria import parse, parse_value
from harness.criteria.syntax import Condition, Value, walk
from tests.unit.conftest import examples
from tests.unit.criteria.trees import Hand, conditions, values

ROOT = Path(__file__).parents[3]
TASKS = [*(ROOT / "tasks").glob("*.yaml"), *(ROOT.parent / "shared" / "compat").glob("*/task_spec.json")]


@settings(deadline=None)
@given(conditions, st.one_of(st.none(), st.integers(0, 10**6)))
def test_a_condition_comes_back_however_it_is_written(tree: Condition, seed: int | None) -> None:
    text = Hand(seed).write(tree)
    assert parse(text).tree == tree
    assert parse(Hand().write(parse(text).tree)).tree == tree


@settings(deadline=None)
@given(values, st.one_of(st.none(), st.integers(0, 10**6)))
def test_a_value_comes_back_however_it_is_written(tree: Value, seed: int | None) -> None:
    text = Hand(seed).write(tree)
    assert parse_value(text).tree == tree
    assert parse_value(Hand().write(parse_value(text).tree)).tree == tree


@settings(deadline=None, max_examples=examples(50))
@given(conditions, st.integers(0, 10**6))
def test_every_part_of_a_tree_knows_where_it_stands(tree: Condition, seed: int) -> None:
    text = Hand(seed).write(tree)
    for node in walk(parse(text).tree):
        assert node.source
        assert text[node.offset : node.offset + len(node.source)] == node.source


def criteria_in(task: dict[str, Any]) -> Iterator[str]:
    for name in ("preconditions", "success_criteria"):
        yield from task.get(name, [])
    for step in task.get("steps", []):
        yield from (step[key] for key in ("expr", "done_when") if key in step)


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.name if path.parent.name == "tasks" else path.parent.name)
def test_real_criteria_come_back(path: Path) -> None:
    task = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = [text for text in criteria_in(task) if "${" not in text]
    assert found or "${" in json.dumps(task, default=str)
    for text in found:
        tree = parse(text).tree
        assert [parse(Hand(seed).write(tree)).tree for seed in (None, 1, 2, 3)] == [tree] * 4
