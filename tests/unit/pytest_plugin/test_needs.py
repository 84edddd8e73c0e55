"""Why a task cannot run."""

from __future__ import annotations

import pytest

from harness.pytest_plugin.run import Obstacle, obstacle

NAMES = {"A": ("A",), "T": ("T[a]", "T[b]"), "T[a]": ("T[a]",), "T[b]": ("T[b]",), "folder": ("A",)}
ALL = {"A", "T[a]", "T[b]"}


@pytest.mark.parametrize("wanted", [[], ["A"], ["T"], ["T[b]"], ["folder"], ["A", "T"]])
def test_nothing_stands_in_the_way_of_a_task_whose_dependencies_passed(wanted: list[str]) -> None:
    assert obstacle(wanted, NAMES, ALL, dict.fromkeys(ALL, True)) is None


@pytest.mark.parametrize(
    ("wanted", "selected", "reason"),
    [
        (["X"], ALL, "depends on X, which is not among the tasks of this run"),
        (["T"], {"A", "T[a]"}, "depends on T, which is not among the tasks of this run"),
        (["folder"], {"T[a]"}, "depends on folder, which is not among the tasks of this run"),
    ],
)
def test_what_is_not_there_is_named(wanted: list[str], selected: set[str], reason: str) -> None:
    assert obstacle(wanted, NAMES, selected, dict.fromkeys(selected, True)) == Obstacle(reason, absent=wanted[0])


def test_the_case_that_did_not_pass_is_named() -> None:
    found = obstacle(["A", "T"], NAMES, ALL, {"A": True, "T[a]": True, "T[b]": False})
    assert found == Obstacle("depends on T[b], which did not pass")


def test_what_never_ended_did_not_pass() -> None:
    found = obstacle(["A"], NAMES, ALL, {})
    assert found is not None
    assert found.reason == "depends on A, which did not pass: it did not run to its end"
    assert not found.absent
