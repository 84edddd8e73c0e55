"""Tasks from Python, as specs/003 7.1 has them; in a process of its own, since they start a browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.acceptance.conftest import Project

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
    assert done.returncode == 0
