"""Faults against the settings of their project: hosts, services, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.faults.checks import Project, misplaced_faults, misplaced_in_plan
from harness.model.settings import Settings
from harness.pytest_plugin.session import check_plans
from harness.spec.fault_plan import load_fault_plan
from harness.spec.problems import SpecError
from tests.unit.spec.files import loaded, write

HEAD = "task_id: T\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n"
LOCKED = "faults: [{kind: database_locked, path: %s, seconds: 1}]"


def project(root: Path, *, known: bool = True) -> Project:
    hosts = {"shop.local": 1, "bank.local": 2, "node1.test": 3}
    service = {"command": ["x", "--state", ".harness/x.sqlite3"], "hosts": hosts, "health": "http://shop.local/health"}
    model = {"provider": "openai-compatible", "model": "m", "base_url": "http://shop.local/v1"}
    tools = {"mail": {"command": ["x"], "allow": ["get_*"]}, "shop": {"url": "http://shop.local/mcp"}}
    document = {"services": {"demo": service}, "models": {"claude": model}, "tools": tools, "root": root}
    return Project(Settings.model_validate(document), known)


def told(folder: Path, text: str, around: Project | None = None) -> list[str]:
    found = misplaced_faults(loaded(folder, HEAD + text + "\n"), around or project(folder))
    return [f"{each.severity} {each.line}:{each.column} {each.path}: {each.message}; {each.hint}" for each in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("faults: [{kind: refuse, host: shop.locl, connections: 1}]", "error 4:31 faults[0].host: the task cannot"),
        ("faults: [{kind: refuse, host: shop.locl, connections: 1}]", "; did you mean `shop.local`?"),
        ("faults: [{kind: hang, url: 'http://shop.locl/*'}]", "error 4:28 faults[0].url: the task cannot start"),
        ("faults: [{kind: hang, url: 'http://shop.locl/*'}]", "; did you mean `shop.local`?"),
        ("inputs: {h: x.y}\nfaults: [{kind: refuse, host: '${inputs.h}', seconds: 1}]", "error 5:31 faults[0].host"),
        ("faults: [{kind: service_killed, service: nope}]", "error 4:42 faults[0].service: the fault cannot strike"),
        ("faults: [{kind: refuse, host: x.y, seconds: 1}]\nexpect: {final_state: failed, code: NET_DNS}", "error 4:31"),
        ("faults: [{kind: model_cut, model: claud}]", "error 4:35 faults[0].model: the fault cannot strike"),
        ("faults: [{kind: model_cut, model: claud}]", "; did you mean `claude`?"),
        ("faults: [{kind: tool_slow, server: mial}]", "error 4:36 faults[0].server: the fault cannot strike: [tool."),
        ("faults: [{kind: tool_slow, server: mial}]", "; did you mean `mail`?"),
        ("faults: [{kind: tool_killed, server: shop}]", "error 4:38 faults[0].server: the fault cannot strike: [tool."),
        ("faults: [{kind: tool_killed, server: page}]", "the tools of the page have no process of their own"),
        ("faults: [{kind: tool_error, server: mail, tool: put}]", "warning 4:49 faults[0].tool: the fault cannot"),
        (LOCKED % "/etc/hosts", "error 4:40 faults[0].path: the path leads out of the project"),
        (LOCKED % "link", "error 4:40 faults[0].path: the path leads out of the project"),
        (LOCKED % "no.sqlite3", "warning 4:40 faults[0].path: there is no such file"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "link").symlink_to("/etc/hosts")
    (line,) = told(tmp_path, text)
    assert expected in line


@pytest.mark.parametrize(
    "text",
    [
        "faults: [{kind: model_cut}, {kind: model_stall, model: claude, seconds: 2}]",
        "faults: [{kind: model_slow_first_token, seconds: 2, model: '${env:MODEL}'}]",
        "faults: [{kind: tool_refused}, {kind: tool_error, server: page}, {kind: tool_error, server: '${env:S}'}]",
        "faults: [{kind: tool_killed, server: mail, tool: 'g*'}, {kind: tool_hangs, server: shop, tool: x}]",
        "faults: [{kind: refuse, host: SHOP.local, connections: 1}, {kind: hang, url: '*/api'}]",
        "faults: [{kind: hang, url: 'http://shop*'}, {kind: hang, url: 'http://*/x'}]",
        "faults: [{kind: service_killed, service: demo}, {kind: dns, url: 'http://else.where/*'}]",
        "parametrize: {h: [shop.locl, bank.local]}\nfaults: [{kind: refuse, host: '${param.h}', seconds: 1}]",
        "faults: [{kind: refuse, host: '${env:HOST}', seconds: 1}, {kind: service_killed, service: '${env:S}'}]",
        "faults: [{kind: refuse, host: x.y, seconds: 1}]\nexpect: {final_state: failed, code: INVALID_INPUT}",
        LOCKED % "t.task.yaml",
        LOCKED % ".harness/x.sqlite3",
    ],
)
def test_what_is_in_order_or_not_known_is_left_alone(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, text) == []


def test_outside_of_its_project_nothing_is_certain(tmp_path: Path) -> None:
    around = Project(Settings(), known=False)
    faults = "faults: [{kind: refuse, host: a.b, seconds: 1}, {kind: service_killed, service: x}]"
    found = told(tmp_path, faults, around)
    assert [line.partition(" ")[0] for line in found] == ["warning", "warning"]
    assert found[0].endswith("put the file into its project")
    assert told(tmp_path, LOCKED % "/etc/hosts", around) == []


PLAN = """faults:
  - {kind: refuse, host: xyz.example, connections: 1}
  - {kind: refuse, host: '${inputs.h}', seconds: 1}
"""


def test_faults_of_a_plan(tmp_path: Path) -> None:
    plan = load_fault_plan(write(tmp_path, PLAN, "p.faults.yaml"))
    (problem,) = misplaced_in_plan(plan, project(tmp_path))
    assert str(problem) == (
        f"{plan.source}:2:26: faults[0].host: "
        "the task cannot start: no service of [tool.harness.services] has this host\n"
        "  expected: bank.local, node1.test or shop.local\n  found: xyz.example"
    )


def test_a_run_with_such_a_plan_does_not_begin(tmp_path: Path) -> None:
    settings = project(tmp_path).settings
    wrong = settings.model_copy(update={"faults": (write(tmp_path, PLAN, "p.faults.yaml"),)})
    with pytest.raises(SpecError, match="no service of"):
        check_plans(wrong)
    text = "faults:\n  - {kind: page_crash, expect: {}}\n"
    odd = settings.model_copy(update={"faults": (write(tmp_path, text, "q.faults.yaml"),)})
    assert [each.message for each in check_plans(odd)] == ["`expect` expects nothing"]


def test_a_fault_of_models_where_there_are_none_is_told(tmp_path: Path) -> None:
    (line,) = told(tmp_path, "faults: [{kind: model_cut}]", Project(Settings(root=tmp_path)))
    assert "warning 4:17 faults[0].kind: the fault cannot strike: there is no model" in line
