"""One run that calls the tools of a stranger's mailbox; all outputs are read and show the same figures."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from harness.reporting.history.reading import load_run
from tests.acceptance.conftest import INI
from tests.acceptance.warm import harness, warm

ROOT = Path(__file__).parents[2]
SETTINGS = f"""
[tool.harness]
redact = ["box-[0-9]+"]

[tool.harness.telemetry]
prometheus = true

[tool.harness.tools.mail]
command = ["{{python}}", "{Path(__file__).with_name("mailbox_server.py")}", "."]
environment = {{ MAILBOX_TOKEN = "${{env:MAILBOX_TOKEN}}" }}
"""
TOKEN = "token-of-the-mailbox"


def code(to: Any, **more: Any) -> dict[str, Any]:
    return {
        "act": "tool",
        "server": "mail",
        "tool": "get_code",
        "arguments": {"to": to, "password": "swordfish"},
        **more,
    }


TASKS: dict[str, dict[str, Any]] = {
    "A-ANSWERED": {"steps": [code("ann box-77", expect="result('code') == '123456'"), code(TOKEN)]},
    "B-ERROR": {
        "steps": [code("bob", status="error")],
        "faults": [{"kind": "tool_error", "server": "mail"}],
    },
    "C-REPEATED": {
        "steps": [code("cy")],
        "faults": [{"kind": "tool_refused", "server": "mail", "times": 1}],
    },
    "D-FAILED": {"steps": [code(3)]},
    "E-PLAIN": {"steps": [{"act": "open", "url": "about:blank"}]},
}
BY_TASK = {"A-ANSWERED": 2, "B-ERROR": 1, "C-REPEATED": 1, "D-FAILED": 1}
WORDS = "5 calls, 1 answered with an error, 1 failed, 1 repeated"
ALL = {"calls": 5, "errors": 1, "failed": 1, "cancelled": 0, "repeated": 1}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One run with its dashboard: the folder, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("tools")
    (folder / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    for task_id, spec in TASKS.items():
        document = {"task_id": task_id, "goal": task_id, "timeout": 60, **spec}
        (folder / f"{task_id}.task.json").write_text(json.dumps(document), "utf-8")
    asked = ("-v", "--alluredir=allure", "--junitxml=junit.xml", "--task-summary=summary.md")
    shown = warm().run(
        "pytest", "-p", "no:cacheprovider", *asked, cwd=folder, timeout=120, MAILBOX_TOKEN=TOKEN
    ).stdout  # fmt: skip
    harness("dashboard", "--output", "dashboard.html", cwd=folder)
    return SimpleNamespace(folder=folder, shown=shown)


def sums(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ALL}


def document(run: SimpleNamespace, path: str) -> Any:
    return json.loads((run.folder / path).read_text("utf-8"))


def test_terminal(run: SimpleNamespace) -> None:
    assert f"tools: {WORDS}\n" in run.shown
    assert re.search(r"mail\.get_code: TOOL_INVALID in \d\.\d s: .*\[D-FAILED step 0\]", run.shown)
    assert 'tool: mail.get_code {"to": 3, "password": "[redacted]"}' in run.shown
    assert "read, not sent (TOOL_INVALID)" in run.shown


def test_metrics(run: SimpleNamespace) -> None:
    found = document(run, ".harness/metrics.json")["tools"]
    assert sums(found) == sums(found["by_server"]["mail"]["get_code"]) == ALL
    assert found["servers"].keys() == {"mail"}


def test_prometheus(run: SimpleNamespace) -> None:
    text = (run.folder / ".harness/metrics.prom").read_text("utf-8")
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    calls = {each.labels["outcome"]: each.value for each in samples if each.name == "taskspec_tool_calls_total"}
    assert calls == {"answered": 3, "error": 1, "failed": 1, "cancelled": 0}
    states = {each.labels["state"]: each.value for each in samples if each.name == "taskspec_tool_server_state"}
    assert sum(states.values()) == 1


def test_junit(run: SimpleNamespace) -> None:
    cases = ET.parse(run.folder / "junit.xml").getroot().iter("testcase")
    found = [{each.get("name"): each.get("value") for each in case.iter("property")} for case in cases]
    assert {each["task_id"]: int(each["tool_calls"] or 0) for each in found if "tool_calls" in each} == BY_TASK
    assert sum(int(each.get("tool_errors") or 0) for each in found) == ALL["errors"]
    assert sum(int(each.get("tool_failures") or 0) for each in found) == ALL["failed"]


def test_allure(run: SimpleNamespace) -> None:
    results = [json.loads(path.read_text("utf-8")) for path in (run.folder / "allure").glob("*-result.json")]
    shown: Counter[str] = Counter()
    attached = []
    for each in results:
        values = {parameter["name"]: parameter["value"].strip("'") for parameter in each["parameters"]}
        shown.update({name: int(values.get(name, 0)) for name in ("tool calls", "tool errors", "tool failures")})
        for step in each["steps"]:
            attached += [file["source"] for below in step.get("steps", ()) for file in below.get("attachments", ())]
    assert "Tool\\ server\\ mail=" in (run.folder / "allure/environment.properties").read_text("utf-8")
    assert shown == {"tool calls": ALL["calls"], "tool errors": ALL["errors"], "tool failures": ALL["failed"]}
    calls = [document(run, f"allure/{name}") for name in attached]
    assert Counter(each["outcome"] for each in calls) == {"answered": 3, "error": 1, "failed": 1}
    assert {each["arguments"]["password"] for each in calls} == {"[redacted]"}


def test_history_and_summary_of_a_job(run: SimpleNamespace) -> None:
    assert sums(load_run(run.folder).called.model_dump()) == ALL
    assert f"  tools: {WORDS}\n" in harness("history", "show", cwd=run.folder).stdout
    assert f"- tools: {WORDS}" in (run.folder / "summary.md").read_text("utf-8").replace("\\", "")


def test_dashboard(run: SimpleNamespace) -> None:
    page = (run.folder / "dashboard.html").read_text("utf-8")
    facts = dict(re.findall(r"<dt>([\w ]+)</dt><dd>([^<]*)</dd>", page))
    assert (facts["calls of tools"], facts["tasks with tools"]) == (WORDS, "4")
    assert '<th scope="row">mail.get_code</th>' in page


def test_report_of_a_failure(run: SimpleNamespace) -> None:
    report = document(run, "errors/D-FAILED/error_report.json")
    Draft202012Validator(document(SimpleNamespace(folder=ROOT), "schemas/error_report.schema.json")).validate(report)
    assert (report["tools_total"]["calls"], len(report["tool_calls"])) == (1, 1)
    told = report["tool_error"]["payload"]
    assert (told["code"], told["tool"], told["tool_call_id"]) == ("TOOL_INVALID", "mail.get_code", "tool-1")
    assert told["arguments"] == {"to": 3, "password": "[redacted]"}
    (step,) = document(run, "errors/D-FAILED/partial_trace.json")["steps"]
    assert [each["id"] for each in step["tool_calls"]] == ["tool-1"]
    shown = harness("show", "D-FAILED", cwd=run.folder).stdout
    assert '  tool: mail.get_code {"to": 3, "password": "[redacted]"}' in shown
    assert "  tools: 1 call, 1 failed\n" in shown


def test_events(run: SimpleNamespace) -> None:
    lines = (run.folder / ".harness/events.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    answered = [each for each in found if each["type"] == "tool-answered"]
    assert len([each for each in found if each["type"] == "tool-called"]) == len(answered) == ALL["calls"]
    assert Counter(each["task_id"] for each in answered) == BY_TASK
    assert sum(max(0, each["tries"] - 1) for each in answered) == ALL["repeated"]
    states = [each["to"] for each in found if each["type"] == "tool-server-status" and not each["faulted"]]
    assert "online" in states
    ended = [each["tools"]["mail"]["get_code"] for each in found if each["type"] == "task" and each["tools"]]
    assert sum(each["calls"] for each in ended) == ALL["calls"]


def test_states(run: SimpleNamespace) -> None:
    (state, *_) = json.loads(harness("tools", "status", "--json", cwd=run.folder).stdout)
    assert (state["server"], state["kind"], state["state"], state["alive"]) == ("mail", "stdio", "stopped", False)


def test_no_output_has_a_secret(run: SimpleNamespace) -> None:
    written = [path for path in run.folder.rglob("*") if path.is_file() and not path.name.endswith(".task.json")]
    kept = [path for path in written if path.name not in ("effects.txt", "state.json")]
    for secret in (TOKEN, "swordfish", "box-77"):
        assert [str(path) for path in kept if secret.encode() in path.read_bytes()] == []
        assert secret not in run.shown
    assert "get_code for ann [redacted], as [redacted]\n" in (run.folder / ".harness/logs/tool-mail.log").read_text(
        "utf-8"
    )
