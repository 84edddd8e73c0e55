"""Tasks from Python; in a process of its own, since they start a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness import load_task
from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm

ROOT = Path(__file__).parents[2]

SCRIPT = """
from harness import ErrorType, SpecError, execute_task, load_task

task = load_task("A-1")
first, again = execute_task(task), execute_task(task)
assert first.final_state == again.final_state == "completed", (first.failure, again.failure)
assert first.memory["count"] == again.memory["count"] == 0, again.memory

task.success_criteria = ("title() == 'Nothing'",)
wrong = execute_task(task)
assert wrong.final_state == "failed"
assert wrong.error.error_type == ErrorType.ASSERTION_FAILED
assert (wrong.artifacts / "screenshot.png").is_file()

try:
    task.step_timeout = 0
except ValueError as error:
    assert "step_timeout" in str(error)
else:
    raise AssertionError("assignment is validated")

task.success_criteria = ("title( == 1",)
try:
    execute_task(task)
except SpecError as error:
    assert "success_criteria" in str(error)
else:
    raise AssertionError("a spec is checked again")

try:
    load_task("NO-SUCH-TASK")
except LookupError as error:
    assert "NO-SUCH-TASK" in str(error)
else:
    raise AssertionError("an unknown id is an error")
print("all as it should be")
"""


def test_load_assign_execute(project: Project) -> None:
    (project.path / "tasks").mkdir()
    steps = [
        {"act": "open", "url": "http://shop.local/"},
        {"act": "wait", "value": 0, "remember": {"count": "json('env', 'shop.cart').length"}},
        {"act": "open", "url": "http://shop.local/product/WM-5521"},
        {"act": "click", "selector": "#add-to-cart"},
    ]
    project.task("A-1", steps=steps).rename(project.path / "tasks" / "A-1.task.json")
    script = project.path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=90,
        env=environment,
        check=False,
    )
    assert done.stdout.strip() == "all as it should be", done.stderr
    assert (done.returncode, done.stderr) == (0, ""), "the harness closes without a complaint as the process ends"


def test_an_output_that_fails_is_named_once(project: Project) -> None:
    project.task("A-1", steps=[{"act": "wait", "value": 0}])
    (project.path / ".harness").mkdir(exist_ok=True)
    (project.path / ".harness" / "events").write_text("in the way", "utf-8")
    script = "from harness import execute_task, load_task\nt = load_task('A-1.task.json')\n" + "execute_task(t)\n" * 2
    (project.path / "script.py").write_text(script, "utf-8")
    done = warm().run("script", cwd=project.path)
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert re.match("output failed: events.jsonl: .*; the events of this run are incomplete", line)


@pytest.mark.thorough
def test_the_example_for_python_does_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/start.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) == 1
    script = blocks[0] + "print(result.failed_index)\n"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_a_misspelt_attribute_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.task.yaml"
    file.write_text("task_id: A\ngoal: g\nteam: me\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n", "utf-8")
    task = load_task(file)
    with pytest.raises(ValueError, match="a task has no `steptimeout`: did you mean `step_timeout`"):
        task.steptimeout = 1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="step_timeout"):
        task.step_timeout = 0
    task.step_timeout = 1
    task.team = "you"  # type: ignore[attr-defined]
    assert (task.step_timeout, task.model_extra) == (1, {"team": "you"})
