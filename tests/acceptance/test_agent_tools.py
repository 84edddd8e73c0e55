"""An agent that uses a page and the tools of a server: what it is told, what it may call, and each fault of tools.

The server is a stranger's mailbox, which counts what it does; each task has an address of its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from tests.acceptance.conftest import Project, Wanted
from tests.acceptance.scripted_model import install, questions
from tests.acceptance.warm import harness

ROOT = Path(__file__).parents[2]
SERVER = Path(__file__).with_name("mailbox_server.py")
SETTINGS = f"""
[tool.harness.agents.builder.policy]
writes = "declared"

[tool.harness.tools.mail]
command = ["{{python}}", "{SERVER}", "."]
timeout = 2
agents = true

[tool.harness.channels.box]
file = "state.json"
readonly = true
"""
LINES = """
browser_navigate url=<http://shop.local/>
browser_type element=<searchbox "Search"> text=<wireless mouse>
browser_click element=<button "Search">
mail__get_code to=<${inputs.to}>
mail__send_mail to=<${inputs.to}>
browser_click element=<link "Logitech M185">
browser_click element=<button "Add to cart">
done
"""
SENT = "json('box', 'sent.{name}') == 1"
CART = "POST http://shop.local/cart/items"
SEND, ONCE = "tool mail.send_mail", {"times": 1}
UNKNOWN, STUCK = "OUTCOME_UNKNOWN", "AGENT_STUCK"


@dataclass(frozen=True)
class Case:
    """What is declared, the fault of the tool that writes, and what must come of it."""

    code: str | None
    """The code with which the task ends; None: it passes."""
    effects: int
    """How many mails were sent."""
    kind: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the fault."""
    tool: str = "send_mail"
    evidence: bool = False
    """Whether the declaration of the write says how its effect is seen."""
    declared: bool = True


CASES = {
    "plain": Case(None, 1),
    "undeclared": Case("POLICY_WRITE", 0, declared=False),
    "lost-known": Case(None, 1, "tool_answer_lost", ONCE, evidence=True),
    "lost": Case(UNKNOWN, 1, "tool_answer_lost", ONCE),
    "refused": Case(None, 1, "tool_refused", ONCE),
    "refused-always": Case(STUCK, 0, "tool_refused"),
    "killed-known": Case(None, 1, "tool_killed", ONCE, evidence=True),
    "killed": Case(UNKNOWN, 0, "tool_killed", ONCE),
    "hangs-known": Case(None, 1, "tool_hangs", ONCE, evidence=True),
    "hangs": Case(UNKNOWN, 1, "tool_hangs", ONCE),
    "slow": Case(None, 1, "tool_slow", {"seconds": 0.2}),
    "error-known": Case(None, 1, "tool_error", ONCE, evidence=True),
    "read-lost": Case(None, 1, "tool_answer_lost", ONCE, "get_code"),
    "read-killed": Case(None, 1, "tool_killed", ONCE, "get_code"),
    "read-error": Case(None, 1, "tool_error", ONCE, "get_code"),
}
ORDINARY = ("plain", "undeclared", "lost")


def project_in(folder: Path, sites: dict[str, int]) -> Project:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
    install(project, LINES, SETTINGS)
    (folder / "state.json").write_text('{"sent": {}}', "utf-8")
    (folder / "effects.txt").write_text("", "utf-8")
    return project


def write(project: Project, name: str, case: Case) -> None:
    evidence = {"tool": "mail.send_mail", "done_when": SENT.format(name=name)} if case.evidence else SEND
    fault = {"kind": case.kind, "server": "mail", "tool": case.tool, **case.more}
    project.task(
        name,
        steps=[],
        goal="Put the Logitech M185 into the cart, and tell by mail",
        inputs={"to": name},
        allowed_domains=["shop.local"],
        allowed_writes=[CART, *([evidence] if case.declared else [])],
        success_criteria=["text('#cart-count') == '1'"],
        error_recovery={"on_network_error": {"strategy": "retry", "max_retries": 1, "retry_delay_ms": 1}},
        **({"faults": [fault]} if case.kind else {}),
    )


def mails(project: Project) -> Counter[str]:
    """The number of mails to each address."""
    lines = (project.path / "effects.txt").read_text("utf-8").splitlines()
    return Counter(line.split()[1] for line in lines if line.startswith("send_mail"))


@dataclass(frozen=True)
class Played:
    project: Project
    results: dict[str, Any]
    mails: Counter[str]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, wanted: Wanted[Case], sites: dict[str, int]) -> Played:
    project = project_in(tmp_path_factory.mktemp("mail"), sites)
    for name, case in wanted(CASES, "test_an_agent_with_a_page_and_tools").items():
        write(project, name, case)
    project.play("--task-workers", "4")
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    return Played(project, {each["task_id"]: each for each in document["results"]}, mails(project))


@pytest.mark.parametrize(
    "name", [name if name in ORDINARY else pytest.param(name, marks=pytest.mark.thorough) for name in CASES]
)
def test_an_agent_with_a_page_and_tools(played: Played, name: str) -> None:
    case, record = CASES[name], played.results[name]
    told = f"{record['code']}: {record['message']}; {record['warnings']}"
    assert (record["code"], played.mails[name]) == (case.code, case.effects), told


def test_the_model_is_told_of_tools_and_answers_as_data(played: Played) -> None:
    asked = questions(played.project)
    assert all("A tool `<server>__<name>` belongs to a server beside the page" in each for each in asked)
    line = 'tool mail.get_code {"to": "plain"} -> passed; answered {"code": "123456", "to": "plain"}'
    assert any(f"3. {line}" in each for each in asked)
    refused = next(each for each in asked if "POLICY_WRITE" in each)
    assert "the tool mail.send_mail writes, and the task does not declare that it may be called" in refused


def test_the_way_of_the_agent_shows_calls_and_answers(played: Played) -> None:
    shown = harness("show", "plain", "--agent", cwd=played.project.path, timeout=60, COLUMNS="200").stdout
    assert 'builder: tool mail.send_mail {"to": "plain"} (write) -> passed' in shown
    assert 'answered {"code": "123456", "to": "plain"}' in shown


def test_a_frozen_call_is_an_ordinary_step(played: Played, tmp_path: Path) -> None:
    project = played.project
    done = harness("freeze", "plain", cwd=project.path, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = json.loads((project.path / "plain.task.json").read_text("utf-8"))["steps"]
    assert steps[3:5] == [
        {"act": "tool", "effect": "read", "server": "mail", "tool": "get_code", "arguments": {"to": "plain"}},
        {"act": "tool", "effect": "write", "server": "mail", "tool": "send_mail", "arguments": {"to": "plain"}},
    ]


@pytest.mark.thorough
def test_a_campaign_of_all_faults_of_tools_places_each_order_once(project: Project) -> None:
    """The shipped task, whose criteria refuse a second order, under each fault of each of its tools."""
    path = project.path / "pyproject.toml"
    tables = re.split(r"(?m)^(?=\[|# )", (ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [each for each in tables if re.match(r"\[tool\.harness\.(models|agents|tools)\.", each)]
    path.write_text("\n".join([path.read_text("utf-8"), *wanted]), "utf-8")
    task = yaml.safe_load((ROOT / "tasks/agents/B1-2025-001-AGENT-TOOLS.task.yaml").read_text("utf-8"))
    del task["task_id"], task["faults"], task["expect"]
    project.task("ORDER", steps=[], **task)
    (project.path / "tools.faults.yaml").write_text(json.dumps({"name": "tools", "faults": FAULTS}), "utf-8")
    done = harness("chaos", ".", "--faults", "tools.faults.yaml", cwd=project.path, timeout=500, COLUMNS="120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"faulted trials that pass: 100 % ({len(FAULTS)}/{len(FAULTS)})" in done.stdout
    assert "clean trials that pass: 100 %" in done.stdout


FAULTS = [
    {"id": f"{kind}-{tool}", "tasks": "ORDER", "kind": kind, "server": "shop", "tool": tool, **more}
    for tool in ("get_order", "place_order")
    for kind, more in (
        ("tool_refused", ONCE),
        ("tool_hangs", {**ONCE, "seconds": 3}),
        ("tool_slow", {"seconds": 0.3}),
        ("tool_error", ONCE),
        ("tool_answer_lost", ONCE),
    )
]
"""Each fault but `tool_killed`: the server is an address, and the run has no process of it that it could kill."""
