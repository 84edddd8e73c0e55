"""The same work for everybody."""

from __future__ import annotations

import ast
import shutil
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from benchmarks import raw
from benchmarks.workload import (
    BLOCK,
    FIELDS,
    MISSING,
    PICTURE,
    WRITTEN,
    Job,
    Kind,
    alone,
    as_json,
    from_json,
    jobs,
    python_text,
    yaml_text,
)
from harness.spec.load import load_file


def test_so_many_tasks_and_so_many_of_them_fail() -> None:
    work = jobs(24, 32, failing=2)
    assert [len(job.acts) for job in work] == [32] * 24
    assert [number for number, job in enumerate(work) if job.fails] == [8, 16]
    assert len({job.name for job in work}) == 24


def written(job: Job, folder: Path) -> list[str]:
    """The acts of the job's task file, which has the same number of steps as its test of pytest-playwright."""
    file = folder / f"{job.name}.task.yaml"
    file.write_text(yaml_text(job), "utf-8")
    shutil.copy(PICTURE, folder)
    loaded = load_file(file)
    assert loaded.warnings == ()
    function = ast.parse(python_text(job)).body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert len(function.body) == len(job.steps)
    return [step.act for step in loaded.spec.steps or ()]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_task_file_and_a_test_have_the_same_steps(tmp_path: Path, failing: int) -> None:
    job = jobs(1, len(BLOCK), failing)[0]
    assert written(job, tmp_path) == [
        "open", "type", "press", "wait", "assert", "click", "wait", "assert", *["click"] * failing,
    ]  # fmt: skip
    assert (MISSING in python_text(job)) is bool(failing)


def test_24_of_32_steps_act_on_fields(tmp_path: Path) -> None:
    steps = Counter(written(jobs(1, 32, block=FIELDS)[0], tmp_path))
    assert steps == {"open": 4, "type": 8, "select": 4, "check": 4, "click": 4, "wait": 4, "assert": 4}


@pytest.mark.parametrize("name", alone(8000))
def test_each_act_alone_is_written_for_all(tmp_path: Path, name: str) -> None:
    job = Job("A-1", alone(8000)[name])
    assert written(job, tmp_path)[0] == name.partition(" ")[0]
    assert {act.kind for act in job.acts} <= raw.DOING.keys()


def test_every_kind_is_written_and_done() -> None:
    assert WRITTEN.keys() == raw.DOING.keys() == set(get_args(Kind))


def test_work_travels_to_another_process() -> None:
    work = jobs(3, 9, failing=1)
    assert from_json(as_json(work)) == work
