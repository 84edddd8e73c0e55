"""Collecting many task files, and only those that are asked for."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project

TOLD = """
import gc

import pytest


def pytest_configure(config):
    config.usual = gc.get_threshold()


def pytest_collection_modifyitems(items):
    print("\\nmeanwhile", gc.isenabled(), gc.get_threshold()[0] > 100_000)


def pytest_sessionfinish(session):
    print("\\nafterwards", gc.isenabled(), gc.get_threshold() == session.config.usual)


def pytest_unconfigure(config):
    print("\\nended", gc.isenabled(), gc.get_threshold() == config.usual)
"""


def test_garbage_collection_is_rare_while_tasks_are_collected(project: Project) -> None:
    (project.path / "conftest.py").write_text(TOLD, "utf-8")
    for number in range(50):
        project.task(f"T-{number:03}", tags=["many", f"tag-{number % 3}"])
    result = project.run("--collect-only", "-q", "-s", "--strict-markers", "-k", "T-007 or T-042")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines(
        ["meanwhile True True", "T-007*::T-007", "T-042*::T-042", "afterwards True True", "2/50 tests collected*"]
    )
    result.stdout.fnmatch_lines(["ended True True"])


def test_a_broken_neighbour_is_not_read_by_who_names_one_task(project: Project) -> None:
    project.task("A")
    (project.path / "b.task.yaml").write_text("task_id: [", "utf-8")
    result = project.run("--collect-only", "-q", "A.task.json::A")
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    result.stdout.fnmatch_lines(["A.task.json::A", "1 test collected*"])
