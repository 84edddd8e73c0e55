"""`harness freeze`: which run it takes, what it writes into the file, and what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from typer.testing import CliRunner, Result

from harness.cli.freeze import yaml_with
from harness.cli.main import app
from harness.model.trajectory import TrajectoryStep, TrajectoryTask
from harness.reporting.trajectory import AGENTS, FILE

TASK = """\
# Buys something.
task_id: BUY   # never change
goal: Buy a mouse
agent: builder

success_criteria:
  - "url() != ''"
# The end.
"""
OPEN = {"act": "open", "url": "http://shop.local/"}
CLICK = {"act": "click", "selector": "role=button[name='Add to cart']", "note": 'button "Add to cart"'}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.harness.agents.builder]\npython = "crew:Builder"\n')
    (tmp_path / "buy.task.yaml").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ran(project: Path, run: str, *steps: dict[str, Any], passed: bool = True, **more: Any) -> None:
    """A run of the task; `more` holds for its last step."""
    head = TrajectoryTask(
        task_id="BUY", key="BUY", source="buy.task.yaml", agent="builder", run=run, trial=0, passed=passed,
        final_state="completed" if passed else "failed", code=None if passed else "AGENT_STUCK", seconds=1.0,
    )  # fmt: skip
    lines: list[TrajectoryTask | TrajectoryStep] = [head]
    for number, step in enumerate(steps):
        facts: dict[str, Any] = {"lasting": True, "passed": True, **(more if number == len(steps) - 1 else {})}
        at = datetime(2025, 1, 1, tzinfo=UTC)
        line = TrajectoryStep(index=number, agent="builder", at=at, seconds=0.1, step=step, code=None, **facts)
        lines.append(line)
    folder = project / AGENTS / run / "BUY"
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def freeze(*args: str) -> Result:
    return CliRunner().invoke(app, ["freeze", *args])


def test_the_steps_are_written_and_all_else_stays(project: Path) -> None:
    ran(project, "20250101T000000-1", OPEN, CLICK)
    result = freeze("BUY")
    assert result.exit_code == 0, result.output
    assert "buy.task.yaml: 2 steps of run 20250101T000000-1" in result.output
    text = (project / "buy.task.yaml").read_text()
    assert text.startswith("# Buys something.\ntask_id: BUY   # never change\ngoal: Buy a mouse\nagent: scripted\n")
    assert "# The end.\n" in text
    document = yaml.safe_load(text)
    assert document["steps"] == [OPEN, CLICK]
    assert document["agent_fallback"] == ["builder"]
    assert freeze("buy.task.yaml", "--check").exit_code == 0


def test_the_last_run_that_passed_counts(project: Path) -> None:
    ran(project, "20250101T000000-1", OPEN)
    ran(project, "20250102T000000-1", OPEN, CLICK)
    ran(project, "20250103T000000-1", CLICK, passed=False)
    assert "2 steps of run 20250102T000000-1" in freeze("BUY").output


def test_check_says_what_is_different(project: Path) -> None:
    ran(project, "20250101T000000-1", OPEN, CLICK)
    freeze("BUY")
    ran(project, "20250102T000000-1", OPEN, {**CLICK, "selector": "#buy"})
    before = (project / "buy.task.yaml").read_text()
    result = freeze("BUY", "--check")
    assert result.exit_code == 1
    assert "-  selector: role=button[name='Add to cart']" in result.output
    assert "+  selector: '#buy'" in result.output
    assert (project / "buy.task.yaml").read_text() == before
    assert freeze("BUY").exit_code == 0
    assert freeze("BUY", "--check").exit_code == 0


def test_a_step_that_failed_is_left_out(project: Path) -> None:
    ran(project, "20250101T000000-1", OPEN, CLICK, passed=False)
    ran(project, "20250102T000000-1", OPEN, CLICK)
    file = next((project / AGENTS / "20250102T000000-1").glob(f"*/{FILE}"))
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[2].replace('"passed":true', '"passed":false')]))
    freeze("BUY")
    assert yaml.safe_load((project / "buy.task.yaml").read_text())["steps"] == [OPEN]


@pytest.mark.parametrize(
    ("step", "more", "said"),
    [
        ({"act": "click", "selector": "aria-ref=e3"}, {"lasting": False}, "step 1 (click) has no lasting selector"),
        ({"act": "type", "selector": "#p", "value": "[redacted]"}, {}, "step 1 (type) has a secret"),
    ],
)
def test_what_cannot_be_done_again_is_refused(
    step: dict[str, Any], more: dict[str, Any], said: str, project: Path
) -> None:
    ran(project, "20250101T000000-1", OPEN, step, **more)
    result = freeze("BUY")
    assert result.exit_code == 1
    assert said in result.output
    assert (project / "buy.task.yaml").read_text() == TASK


def test_without_a_run_it_says_what_to_do(project: Path) -> None:
    result = freeze("BUY")
    assert (result.exit_code, "run it first" in result.output) == (1, True)
    ran(project, "20250101T000000-1", OPEN, passed=False)
    assert "has passed: the last one ended with AGENT_STUCK" in freeze("BUY").output
    assert "there is no task `BYE` below this folder" in freeze("BYE").output


def test_a_broken_trajectory_is_named(project: Path) -> None:
    ran(project, "20250101T000000-1", OPEN)
    file = next((project / AGENTS).glob(f"*/*/{FILE}"))
    file.write_text(file.read_text() + "{}\n")
    result = freeze("BUY")
    assert result.exit_code == 1
    assert f"{FILE}:3: is not a line of a trajectory" in result.output


def test_a_file_with_cases_is_refused(project: Path) -> None:
    (project / "buy.task.yaml").write_text(TASK.replace("agent: builder", "parametrize:\n  item: [a, b]"))
    ran(project, "20250101T000000-1", OPEN)
    assert "its cases may need different steps" in freeze("buy.task.yaml").output


def test_a_json_file_is_written_too(project: Path) -> None:
    (project / "buy.task.yaml").unlink()
    file = project / "buy.task.json"
    file.write_text(json.dumps({**yaml.safe_load(TASK)}))
    ran(project, "20250101T000000-1", OPEN)
    assert freeze("BUY").exit_code == 0
    assert json.loads(file.read_text())["steps"] == [OPEN]


def test_a_file_in_flow_style_is_not_changed(project: Path) -> None:
    file = project / "buy.task.yaml"
    file.write_text(json.dumps(yaml.safe_load(TASK)))
    ran(project, "20250101T000000-1", OPEN)
    before = file.read_text()
    assert freeze("BUY").exit_code == 1
    assert file.read_text() == before


def test_a_block_ends_before_the_comment_of_the_next_key() -> None:
    text = "steps:\n- a\n\n# next\n- b\n# about x\nx: 1\n"
    assert yaml_with(text, {"steps": ["c"]}) == "steps:\n- c\n# about x\nx: 1\n"
