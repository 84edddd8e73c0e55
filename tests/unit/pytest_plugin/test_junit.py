"""What stands in junit.xml beside a test case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.pytest_plugin.terminal import add_properties, begin_properties, properties
from tests.unit.reporting.history import runs


def test_of_a_failure_all_that_is_known() -> None:
    assert dict(properties(runs.failed("T-1", "STEP_TIMEOUT"))) == {
        "task_id": "T-1",
        "final_state": "failed",
        "retries": 1,
        "fallbacks": 0,
        "recovered": 0,
        "healed": "false",
        "code": "STEP_TIMEOUT",
        "error_type": "timeout_step",
        "step_index": 1,
        "artifacts": "errors/T-1",
    }


def test_a_task_that_passed_says_whether_it_was_healed() -> None:
    found = dict(properties(runs.record("T-2", warnings=(runs.HEALED,))))
    figures = {"retries": 0, "fallbacks": 0, "recovered": 0}
    assert found == {"task_id": "T-2", "final_state": "completed", **figures, "healed": "true"}


def test_what_the_item_says_already_is_not_said_twice() -> None:
    item: Any = SimpleNamespace(user_properties=[("task_id", "T-1"), ("of_mine", 1)], stash=pytest.Stash())
    add_properties(item, runs.record("T-1"))
    names = ["task_id", "of_mine", "final_state", "retries", "fallbacks", "recovered", "healed"]
    assert [name for name, _ in item.user_properties] == names


def test_a_rerun_says_what_came_of_it_and_not_of_the_first_execution() -> None:
    item: Any = SimpleNamespace(user_properties=[("of_mine", 1)], stash=pytest.Stash())
    for final_state in ("failed", "completed"):
        begin_properties(item, [("task_id", "T-1"), ("final_state", final_state)])
        add_properties(item, runs.record("T-1"))
    names = [name for name, _ in item.user_properties]
    assert names == ["of_mine", "task_id", "final_state", "retries", "fallbacks", "recovered", "healed"]
    assert dict(item.user_properties)["final_state"] == "completed"
