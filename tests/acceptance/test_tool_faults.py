"""Each fault of tools, with a call that may be repeated and one that must not: code, effects, campaign.

The server is a stranger's mailbox, which counts what it does; each task has an address of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
import yaml

from tests.acceptance.conftest import Project, Wanted
from tests.acceptance.warm import warm

SERVER = Path(__file__).with_name("mailbox_server.py")
SETTINGS = f"""
[tool.harness.tools.mail]
command = ["{{python}}", "{SERVER}", "."]
timeouts = {{ slow_mail = 1 }}
timeout = 2

[tool.harness.channels.box]
file = "state.json"
readonly = true
"""
READ, WRITE = "get_code", "send_mail"
SENT = "json('box', 'sent.{name}') == 1"
AGAIN = {"strategy": "retry", "max_retries": 1, "retry_delay_ms": 1}
UNKNOWN = "OUTCOME_UNKNOWN"


@dataclass(frozen=True)
class Case:
    """A fault, the tool that is called, and what must come of it."""

    kind: str
    tool: str
    seen: str | None
    """The code of the failure that the fault causes; None: it causes none."""
    code: str | None
    """The code with which the task fails; None: it does what it is to do."""
    effects: int
    more: Mapping[str, Any] = field(default_factory=dict)
    """More keys of the fault."""
    done_when: bool = False
    warns: tuple[str, ...] = ()


ONCE = {"times": 1}
REPEATED, DONE = ("write_repeated", "network_error_recovered"), ("effect_already_done",)
CASES = {
    "refused-read": Case("tool_refused", READ, None, None, 1, ONCE),
    "refused-write": Case("tool_refused", WRITE, None, None, 1, ONCE),
    "refused-always": Case("tool_refused", WRITE, "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE", 0),
    "killed-read": Case("tool_killed", READ, None, None, 1, ONCE),
    "killed-write": Case("tool_killed", WRITE, "TOOL_UNAVAILABLE", UNKNOWN, 0, ONCE),
    "killed-write-known": Case("tool_killed", WRITE, "TOOL_UNAVAILABLE", None, 1, ONCE, True, REPEATED),
    "killed-always": Case("tool_killed", READ, "TOOL_UNAVAILABLE", "TOOL_UNAVAILABLE", 0),
    "lost-read": Case("tool_answer_lost", READ, None, None, 2, ONCE),
    "lost-write": Case("tool_answer_lost", WRITE, "TOOL_UNAVAILABLE", UNKNOWN, 1, ONCE),
    "lost-write-known": Case("tool_answer_lost", WRITE, "TOOL_UNAVAILABLE", None, 1, ONCE, True, DONE),
    "hangs-read": Case("tool_hangs", READ, None, None, 2, ONCE),
    "hangs-write": Case("tool_hangs", WRITE, "TOOL_TIMEOUT", UNKNOWN, 1, ONCE),
    "slow-read": Case("tool_slow", READ, None, None, 1, {"seconds": 0.1}),
    "slow-write": Case("tool_slow", WRITE, None, None, 1, {"seconds": 0.1}),
    "too-slow-write": Case("tool_slow", WRITE, "TOOL_TIMEOUT", UNKNOWN, 1, {"seconds": 30}),
    "error-read": Case("tool_error", READ, "TOOL_FAILED", "TOOL_FAILED", 0),
    "error-write": Case("tool_error", WRITE, "TOOL_FAILED", "TOOL_FAILED", 0),
    "bystander-read": Case("", READ, None, None, 1),
    "bystander-write": Case("", WRITE, None, None, 1),
}


def project_in(folder: Path) -> Project:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), {"shop.local": 1})
    (folder / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (folder / "state.json").write_text('{"sent": {}}', "utf-8")
    (folder / "effects.txt").write_text("", "utf-8")
    return project


def write(project: Project, name: str, case: Case) -> None:
    done = {"done_when": SENT.format(name=name)} if case.done_when else {}
    step = {"act": "tool", "server": "mail", "tool": case.tool, "arguments": {"to": name}, **done}
    fault = {"kind": case.kind, "server": "mail", "tool": "*_*", **case.more}
    expect = {"code": case.seen, "recovered": case.code is None}
    project.task(
        name,
        steps=[step],
        error_recovery={"on_network_error": AGAIN if case.more else "abort"},
        **({"faults": [{**fault, "expect": expect}]} if case.kind else {}),
    )


def effects(project: Project) -> Counter[str]:
    """The number of effects for each address."""
    lines = (project.path / "effects.txt").read_text("utf-8").splitlines()
    return Counter(line.split()[1] for line in lines)


def results(project: Project) -> list[dict[str, Any]]:
    """The results of the last run."""
    found: list[dict[str, Any]] = json.loads((project.path / ".harness/last-run.json").read_text("utf-8"))["results"]
    return found


def left_in(folder: Path) -> list[str]:
    """The command lines of processes that a run has left in its folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(folder):
                found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, wanted: Wanted[Case]) -> tuple[dict[str, Any], Counter[str]]:
    project = project_in(tmp_path_factory.mktemp("mail"))
    for name, case in wanted(CASES, "test_what_a_fault_of_tools_does").items():
        write(project, name, case)
    project.play("--task-workers", "4")
    assert left_in(project.path) == []
    return {each["task_id"]: each for each in results(project)}, effects(project)


SOME = (
    "refused-write",
    "killed-read",
    "killed-write-known",
    "lost-write",
    "lost-write-known",
    "hangs-write",
    "error-write",
    "bystander-read",
)


@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(each, marks=pytest.mark.thorough) for each in CASES if each not in SOME)]
)
def test_what_a_fault_of_tools_does(played: tuple[dict[str, Any], Counter[str]], name: str) -> None:
    case, record = CASES[name], played[0][name]
    told = f"{record['code']}: {record['message']}; {record['warnings']}"
    assert (record["code"], played[1][name]) == (case.code, case.effects), told
    assert tuple(each["type"] for each in record["warnings"]) == case.warns, told


@pytest.mark.thorough
def test_a_campaign_over_all_faults_of_tools(tmp_path: Path) -> None:
    project = project_in(tmp_path)
    again = {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0.1}
    for name, tool in (("GET", READ), ("SEND", WRITE)):
        step = {"act": "tool", "server": "mail", "tool": tool, "arguments": {"to": name}}
        project.task(name, steps=[step], error_recovery={"on_assertion_fail": again})
    outlasted = ("tool_refused", "tool_killed", "tool_answer_lost", "tool_hangs", "tool_slow")
    read = [{"kind": kind, "times": 1, "expect": {"code": None, "recovered": True}} for kind in outlasted]
    read.append({"kind": "tool_error", "times": 1, "expect": {"code": "TOOL_FAILED", "recovered": True}})
    lost = {"kind": "tool_answer_lost", "times": 1, "expect": {"code": "TOOL_UNAVAILABLE", "recovered": False}}
    faults = [{"tasks": "GET", "server": "mail", **each} for each in read] + [{"tasks": "SEND", "id": "lost", **lost}]
    faults[4]["seconds"] = 0.1
    (tmp_path / "all.faults.yaml").write_text(yaml.safe_dump({"faults": faults}), "utf-8")
    arguments = (
        "chaos",
        ".",
        "--faults",
        "all.faults.yaml",
        "--trials",
        "1",
        "--clean-trials",
        "0",
        "--json",
        "chaos.json",
    )
    done = warm().run("tests.acceptance.command", *arguments, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "chaos.json").read_text("utf-8"))
    trials = {each["fault"]: each for cell in found["cells"] for each in cell["trials"]}
    assert {name: each["struck"] for name, each in trials.items()} == dict.fromkeys(trials, 1)
    assert len(trials) == len(faults)
    assert effects(project)["SEND"] == 1


PAGE = {
    "LOST": ("tool_answer_lost", UNKNOWN, 1),
    "REFUSED": ("tool_refused", None, 1),
    "KILLED": ("tool_killed", "INVALID_INPUT", 0),
    "ERROR": ("tool_error", "TOOL_FAILED", 0),
}


@pytest.mark.thorough
def test_faults_strike_the_tools_of_pages_too(project: Project) -> None:
    cart = {"act": "tool", "server": "page", "tool": "add_to_cart", "arguments": {"sku": "WM-5521"}}
    for name, (kind, _, _) in PAGE.items():
        fault = {"kind": kind, "server": "${inputs.server}", "times": 1}
        steps = [{"act": "open", "url": "https://shop.local/"}, cart]
        rules = {"on_network_error": AGAIN, "on_assertion_fail": "save_trace_and_report"}
        project.task(name, steps=steps, faults=[fault], error_recovery=rules, inputs={"server": "page"})
    project.run("--task-workers", "2").assert_outcomes(passed=1, failed=3)
    codes = {each["task_id"]: each["code"] for each in results(project)}
    assert codes == {name: code for name, (_, code, _) in PAGE.items()}
    for name, (_, code, bought) in PAGE.items():
        if code is not None:
            shop = project.report(name)["context"]["env_snapshot"]["env"]["shop"]
            assert len(shop["cart"]) == bought, name


ANOTHER = Path(__file__).parents[1] / "unit/tools/connections/tool_server.py"
OVER_HTTP = {
    "REFUSED": ({"kind": "tool_refused", "times": 1}, "write", None),
    "LOST-READ": ({"kind": "tool_answer_lost", "times": 1}, "read", None),
    "LOST": ({"kind": "tool_answer_lost", "times": 1}, "write", UNKNOWN),
    "HANGS": ({"kind": "tool_hangs", "times": 1}, "write", UNKNOWN),
    "SLOW": ({"kind": "tool_slow", "seconds": 0.1}, "write", None),
    "ERROR": ({"kind": "tool_error"}, "write", "TOOL_FAILED"),
}


@pytest.mark.thorough
def test_faults_strike_servers_at_an_address(tmp_path: Path) -> None:
    server = subprocess.Popen(
        [sys.executable, str(ANOTHER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("0 new\n")
    pid, port = server.stdout.readline().split()
    try:
        project = project_in(tmp_path)
        table = f'[tool.harness.tools.shop]\nurl = "http://127.0.0.1:{port}/mcp"\ntimeout = 2\n'
        (tmp_path / "pyproject.toml").write_text(table, "utf-8")
        for name, (fault, effect, _) in OVER_HTTP.items():
            step = {"act": "tool", "server": "shop", "tool": "echo", "effect": effect}
            project.task(name, steps=[step], faults=[fault], error_recovery={"on_network_error": AGAIN})
        project.play("--task-workers", "2")
        codes = {each["task_id"]: each["code"] for each in results(project)}
        assert codes == {name: code for name, (_, _, code) in OVER_HTTP.items()}
    finally:
        os.kill(int(pid), signal.SIGKILL)
        server.kill()
        server.wait(10)
