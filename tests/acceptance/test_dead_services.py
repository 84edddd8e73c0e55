"""Services that die: which tasks that fails, what is left of their state, and what people are told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.acceptance.conftest import INI
from tests.acceptance.warm import warm

SITE = Path(__file__).with_name("ledger_site.py")
SETTINGS = f"""
[tool.harness]
isolation = "reset"

[tool.harness.services.ledger]
command = ["{{python}}", "{SITE}", "{{port}}", "{{folder}}"]
hosts = ["ledger.test"]
health = "http://ledger.test/"
ready_timeout = 60
template = "seed"
reset = "restart"
instances = 2

[tool.harness.services.dead]
command = ["{{python}}", "{SITE}", "{{port}}"]
hosts = ["dead.test"]
health = "http://dead.test/"
instances = 2

[tool.harness.channels.state]
file = "{{folder:ledger}}/state.json"

[tool.harness.channels.gone]
url = "http://dead.test/state"
"""
RULES = {"on_network_error": {"strategy": "exponential_backoff", "max_retries": 5}}


def act(path: str, host: str = "ledger.test") -> dict[str, str]:
    return {"act": "open", "url": f"http://{host}{path}"}


def number(expected: int) -> list[str]:
    return [f"json('state', 'number') == {expected}", f"text('#number') == '{expected}'"]


TASKS: dict[str, dict[str, Any]] = {
    **{f"ADDS-{n}": {"steps": [act("/add")], "success_criteria": number(1), "checkpoints": [0]} for n in range(3)},
    "CRASHES": {"steps": [act("/add"), act("/crash"), act("/add")], "success_criteria": number(2)},
    "OPENS-DEAD": {"steps": [act("/", "dead.test")], "success_criteria": ["exists('#number')"]},
    "READS-DEAD": {"steps": [act("/")], "success_criteria": ["json('gone', 'number') == 1"]},
    "MAY-REACH-DEAD": {"steps": [act("/")], "allowed_domains": ["test"], "success_criteria": ["exists('#number')"]},
    "ELSEWHERE": {"steps": [{"act": "open", "url": "about:blank"}], "success_criteria": ["title() == ''"]},
}
FAILS = {"steps": [act("/add"), act("/crash"), act("/add")], "success_criteria": number(7)}
NEED_IT = {"OPENS-DEAD", "READS-DEAD", "MAY-REACH-DEAD", "ELSEWHERE"}
"""Those that name the dead service; nobody can know what the last one needs."""


def play(folder: Path, *options: str, tasks: set[str] = frozenset(TASKS), **more: Any) -> tuple[int, str]:  # type: ignore[assignment]
    (folder / "tasks").mkdir()
    (folder / "seed").mkdir()
    (folder / "seed" / "state.json").write_text('{"number": 0}', "utf-8")
    (folder / "pyproject.toml").write_text(more.get("settings", SETTINGS), "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    for name in sorted(tasks):
        task = {"task_id": name, "goal": "g", "timeout": 120, "error_recovery": RULES, **TASKS[name]}
        (folder / "tasks" / f"{name}.task.json").write_text(json.dumps(task), "utf-8")
    run = warm().run("pytest", "-p", "no:cacheprovider", "tasks", "--junitxml=junit.xml", *options, cwd=folder)
    return run.returncode, run.stdout


def codes(folder: Path) -> dict[str, str]:
    reports = (folder / "errors").glob("*/error_report.json")
    found = [json.loads(each.read_text("utf-8")) for each in reports]
    return {each["task_id"]: each["code"] for each in found}


def crashes(folder: Path) -> list[str]:
    found = ET.parse(folder / "junit.xml").iter("property")
    return [str(each.get("value")) for each in found if str(each.get("name")).startswith("Service ledger")]


@pytest.mark.parametrize("options", [("--task-workers", "2"), pytest.param(("-n", "2"), marks=pytest.mark.thorough)])
def test_a_dead_service_fails_the_tasks_that_name_it_and_a_crash_keeps_its_state(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Also with checkpoints and resets, which look at all channels; each slot reads the file of its own instance."""
    code, said = play(tmp_path, *options)
    assert code == 1, said
    assert codes(tmp_path) == dict.fromkeys(NEED_IT, "SERVICE_DOWN"), said
    assert "4 completed (1 of them recovered" in said
    assert said.count("crashed: up -> restarting (crash_1)") == 1, "the line while the run goes on"
    assert "crashed once and came back" in said
    assert crashes(tmp_path) == ["crashed once and came back"]


def test_a_crash_makes_the_run_red_where_the_project_says_so(tmp_path: Path) -> None:
    strict = SETTINGS.replace('isolation = "reset"', 'isolation = "reset"\nfail_on_service_crash = true')
    code, said = play(tmp_path, "--alluredir=allure", tasks={"CRASHES", "ADDS-0"}, settings=strict)
    assert code == 1, said
    assert "2 passed" in said
    told = "crashed once and came back"
    assert f"service `ledger` {told} (the run is red: `fail_on_service_crash` in [tool.harness])" in said
    assert f"Service ledger={told}" in (tmp_path / "allure/environment.properties").read_text("utf-8").replace("\\", "")


def test_a_crash_during_a_task_is_named_first_in_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "FAILS", FAILS)
    code, said = play(tmp_path, tasks={"FAILS"})
    assert code == 1, said
    crash = r"service `ledger` crashed \d+\.\d s before the failure"
    look = "look: harness services logs ledger"
    assert re.search(rf"(?m)^  {crash}; {look}$", said), said
    assert "suspect: site" in said
    shown = warm().run("tests.acceptance.command", "show", "FAILS", cwd=tmp_path).stdout
    assert re.search(rf"(?m)^  {crash}; {look}$", shown), shown
    causes = warm().run("tests.acceptance.command", "triage", cwd=tmp_path).stdout
    assert re.search(rf"CRITERIA_UNMET  {crash}: .*{look}", causes), causes
