"""`harness validate` and `harness verify` take a task to have the limits that a run gives it."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from harness.cli.main import app
from tests.acceptance.conftest import Project


@pytest.mark.parametrize(
    ("profile", "own", "complaint"),
    [
        ("simple", None, "a wait of 40 s never ends within `step_timeout` (30 s)"),
        ("medium", None, None),
        ("medium", "simple", "a wait of 40 s never ends within `step_timeout` (30 s)"),
        ("simple", "complex", None),
    ],
)
def test_the_limits_are_those_of_the_projects_profile(
    project: Project, profile: str, own: str | None, complaint: str | None
) -> None:
    file = project.path / "pyproject.toml"
    text = file.read_text("utf-8").replace("[tool.harness]", f'[tool.harness]\ntimeout_profile = "{profile}"')
    file.write_text(text, "utf-8")
    task = project.path / "T-1.task.yaml"
    mine = f"timeout_profile: {own}\n" if own else ""
    steps = "steps:\n- {act: open, url: 'http://shop.local/'}\n- {act: wait, value: 40}\n"
    task.write_text(f"task_id: T-1\ngoal: wait\n{mine}{steps}", "utf-8")
    output = CliRunner().invoke(app, ["validate", str(task)]).output
    assert "1 task file" in output
    assert (complaint or "") in output
    assert ("never ends" in output) is (complaint is not None)
