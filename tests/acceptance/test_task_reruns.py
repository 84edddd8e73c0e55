"""`--reruns` (pytest-rerunfailures) beside `-n`: a task whose process died is run once more, in its place."""

from __future__ import annotations

import json

from tests.acceptance.conftest import Project

CHANNEL = """
import os, pathlib, signal
def read(world):
    died = pathlib.Path("died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"ready": "yes"}
"""


def test_a_task_whose_worker_died_runs_again_before_what_depends_on_it(project: Project) -> None:
    pyproject = project.path / "pyproject.toml"
    text = pyproject.read_text("utf-8") + '\n[tool.harness.channels.deadly]\npython = "deadly:read"\n'
    pyproject.write_text(text, "utf-8")
    (project.path / "deadly.py").write_text(CHANNEL, "utf-8")
    wait = [{"act": "wait", "value": 0.01}]
    project.task("A", steps=wait, success_criteria=["json('deadly', 'ready') == 'yes'"])
    project.task("B", steps=wait, dependencies=["A"])
    project.task("C", steps=wait)
    result = project.run("-n", "2", "--reruns", "1")
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["rerun"]) == (3, 1)
    assert not outcomes.keys() & {"failed", "skipped", "errors"}
    records = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))["results"]
    assert {each["task_id"]: each["final_state"] for each in records} == dict.fromkeys("ABC", "completed")
