"""The same work for everybody."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.workload import BLOCK, MISSING, as_json, from_json, jobs, python_text, yaml_text
from harness.spec.load import load_file


def test_so_many_tasks_and_so_many_of_them_fail() -> None:
    work = jobs(24, 32, failing=2)
    assert [len(job.acts) for job in work] == [32] * 24
    assert [number for number, job in enumerate(work) if job.fails] == [8, 16]
    assert len({job.name for job in work}) == 24


@pytest.mark.parametrize("failing", [0, 1])
def test_a_task_file_and_a_test_have_the_same_steps(tmp_path: Path, failing: int) -> None:
    job = jobs(1, len(BLOCK), failing)[0]
    file = tmp_path / f"{job.name}.task.yaml"
    file.write_text(yaml_text(job), "utf-8")
    loaded = load_file(file)
    assert loaded.warnings == ()
    assert [step.act for step in loaded.spec.steps or ()] == [
        "open", "type", "press", "wait", "assert", "click", "wait", "assert", *["click"] * failing,
    ]  # fmt: skip
    function = ast.parse(python_text(job)).body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == len(job.steps) == len(BLOCK) + failing
    assert (MISSING in python_text(job)) is bool(failing)


def test_work_travels_to_another_process() -> None:
    work = jobs(3, 9, failing=1)
    assert from_json(as_json(work)) == work
