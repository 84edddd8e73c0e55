"""The way of an agent is kept, and becomes the steps of the task: with a real browser and a real shop."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from harness.reporting.trajectory import read
from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm

AGENT = """
class Buyer:
    def propose(self, plan, history, observe):
        steps = [
            {"act": "open", "url": "http://shop.local/"},
            {"act": "type", "selector": "#missing", "value": "x"},
            {"act": "type", "selector": "#search-box", "value": "${env:BUYER_WORD}"},
            {"act": "open", "url": "http://shop.local/product/WM-5521"},
            {"act": "click", "selector": "#add-to-cart", "note": "Add to cart"},
        ]
        return steps[len(history)] if len(history) < len(steps) else None
"""
SETTINGS = """
[tool.harness.agents.buyer]
python = "buyer:Buyer"
"""
TASK = """\
task_id: BUY
goal: Put a mouse into the cart, after a search for ${env:BUYER_WORD}
agent: buyer
error_recovery: {on_element_not_found: {wait_seconds: 0.2}}
success_criteria:
  - json('env', 'shop.cart.WM-5521.qty') == 1
"""


@pytest.fixture
def shop(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("BUYER_WORD", "planted-word-4711")
    (project.path / "buyer.py").write_text(AGENT, "utf-8")
    (project.path / "buy.task.yaml").write_text(TASK, "utf-8")
    file = project.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + SETTINGS, "utf-8")
    return project


def freeze(project: Project, *args: str) -> CompletedProcess[str]:
    return warm().run("tests.acceptance.command", "freeze", "BUY", *args, cwd=project.path, timeout=60)


def trajectory(project: Project) -> Path:
    (file,) = sorted((project.path / ".harness/agents").glob("*/BUY/trajectory.jsonl"))[-1:]
    return file


def test_an_agent_is_frozen_and_the_agent_is_the_safety_net(shop: Project) -> None:
    shop.run("buy.task.yaml").assert_outcomes(passed=1)
    found = read(trajectory(shop))
    assert (found.task.agent, found.task.passed) == ("buyer", True)
    assert [(each.passed, each.code) for each in found.steps][1:3] == [(False, "ELEMENT_NOT_FOUND"), (True, None)]
    assert "planted-word-4711" not in trajectory(shop).read_text("utf-8")

    assert freeze(shop).returncode == 0
    file = shop.path / "buy.task.yaml"
    document = yaml.safe_load(file.read_text("utf-8"))
    assert document["steps"][1] == {"act": "type", "selector": "#search-box", "value": "${env:BUYER_WORD}"}
    assert [each["act"] for each in document["steps"]] == ["open", "type", "open", "click"]
    assert [each.get("effect") for each in document["steps"]] == [None, None, None, "write"], "the click sent a POST"
    (shop.path / "buyer.py").write_text("raise RuntimeError", "utf-8")
    shop.run("buy.task.yaml").assert_outcomes(passed=1)
    assert freeze(shop, "--check").returncode == 0

    (shop.path / "buyer.py").write_text(AGENT, "utf-8")
    file.write_text(file.read_text("utf-8").replace("'#add-to-cart'", "'#buy-me'"), "utf-8")
    result = shop.run("buy.task.yaml")
    result.assert_outcomes(passed=1)
    checked = freeze(shop, "--check")
    assert checked.returncode == 1
    assert "+  selector: '#add-to-cart'" in checked.stdout
    assert json.loads(trajectory(shop).read_text("utf-8").splitlines()[-1])["agent"] == "buyer"
