"""Agents that are processes of their own: a stranger's script does tasks in real Chromium."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.conftest import Project

STRANGER = Path(__file__).parent / "stranger_agent.py"
SHOP = "http://shop.local"
BUY = [
    {"act": "open", "url": f"{SHOP}/product/WM-5521"},
    {"act": "click", "selector": "#add-to-cart", "effect": "write"},
    {"act": "click", "selector": "#checkout-button"},
    {"act": "submit", "selector": "#checkout-form", "effect": "write"},
    {"act": "wait", "selector": "#order-id"},
]
BOUGHT = {"success_criteria": ["json('env', 'shop.orders.O-10001.status') == 'confirmed'"]}


def stranger(project: Project, steps: list[dict[str, Any]], *more: str, **table: Any) -> None:
    """The project's only agent: the stranger's script, which does these steps."""
    (project.path / "steps.json").write_text(json.dumps(steps), "utf-8")
    command = [sys.executable, str(STRANGER), str(project.path / "steps.json"), *more]
    lines = "".join(f"{key} = {_toml(value)}\n" for key, value in {"command": command, **table}.items())
    path = project.path / "pyproject.toml"
    path.write_text(f"{path.read_text('utf-8')}\n[tool.harness.agents.stranger]\n{lines}", "utf-8")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)


def output(project: Project, task_id: str = "T") -> str:
    return (project.path / "errors" / task_id / "files" / "agent-stranger.log").read_text("utf-8")


def test_a_strangers_script_buys_a_mouse(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment has only what is declared, and its output is kept; the secret in it is masked."""
    monkeypatch.setenv("PRIVATE_WORD", "hunter2hunter2")
    environment = {"GIVEN": "${env:PRIVATE_WORD}"}
    stranger(project, BUY, "{prompt}", "{{token}}", environment=environment)
    project.task("T", steps=[], goal="Buy a mouse.", inputs={"sku": "WM-5521"}, **BOUGHT)
    project.task("U", steps=[], success_criteria=["json('env', 'shop.orders.O-10001.total') == 0"])
    project.run().assert_outcomes(passed=1, failed=1)
    said = output(project, "U")
    environ = said.partition("[")[2].partition("]")[0]
    names = ("GIVEN", "HOME", "PRIVATE_WORD", "PYTEST_CURRENT_TEST", "VIRTUAL_ENV")
    assert [name for name in names if f"'{name}'" in environ] == ["GIVEN", "HOME"]
    assert "You have" in said
    assert "{token}" in said
    assert "hunter2" not in said


def test_a_hanging_command_is_ended_and_its_task_judged(project: Project) -> None:
    """What it has done counts, the result says that it was ended, and no process is left."""
    stranger(project, [*BUY, {"hang": True}])
    project.task("T", steps=[], timeout=12, **BOUGHT)
    project.task("U", steps=[], timeout=10, success_criteria=["json('env', 'shop.orders.O-10001.total') == 0"])
    result = project.run("-s")
    result.assert_outcomes(passed=1, failed=1)
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(STRANGER) in (each.info["cmdline"] or [])]
