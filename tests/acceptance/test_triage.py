"""From a red run to its causes: one run in a browser, told by the CI page, annotations, JUnit, triage, open, replay."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from harness.browser.executable import find
from harness.model.browser_settings import BrowserSettings
from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness, start_harness, warm
from tests.conftest import FULL

NASTY = "<img src=x onerror=alert(1)> | ::error::no \x1b[31m"


def tasks(project: Project, nobody: int) -> None:
    """Three at a dead site, one whose button is not there, one that writes, one that passes, one declared failure."""
    no_patience = {"on_network_error": "abort", "on_element_not_found": {"wait_seconds": 0.2}}
    for number in range(3):
        url = f"http://127.0.0.1:{nobody}/{'abc'[number]}"
        project.task(f"DEAD-{number}", steps=[{"act": "open", "url": url}], error_recovery=no_patience)
    opened = {"act": "open", "url": "http://shop.local/"}
    missing = [opened, {"act": "click", "selector": "#no-such-button"}]
    project.task("MISSING-1", goal=NASTY, steps=missing, error_recovery=no_patience)
    wrote = [opened, {"act": "click", "selector": "h1", "effect": "write"}, {"act": "wait", "selector": "#never"}]
    project.task("WROTE-1", steps=wrote, step_timeout=3, error_recovery={"on_timeout": "capture_state_and_abort"})
    project.task("GOOD-1")
    project.task(
        "DECLARED-1",
        steps=missing,
        error_recovery=no_patience,
        expect={"final_state": "failed", "code": "ELEMENT_NOT_FOUND"},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> tuple[Path, str]:
    """The project after its run, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("project")
    options = ("--summary", "page.md", "--task-github-annotations", "--junitxml=out.xml", "-p", "no:cacheprovider")
    with socket.socket() as deaf:  # it is ours, and does not listen: nobody can answer there
        deaf.bind(("127.0.0.1", 0))
        tasks(Project(SimpleNamespace(path=folder), sites), deaf.getsockname()[1])
        found = _played(folder, options)
    assert found.returncode == 1, found.stdout + found.stderr
    return folder, found.stdout


def _played(folder: Path, options: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return warm().run("pytest", *options, cwd=folder, GITHUB_WORKSPACE=str(folder), GITHUB_ACTIONS="true")


@pytest.fixture
def project_path(run: tuple[Path, str]) -> Path:
    return run[0]


@pytest.mark.thorough
def test_three_tasks_at_a_dead_site_are_one_line(project_path: Path) -> None:
    found = harness("triage", cwd=project_path, COLUMNS="300")
    first, *lines = found.stdout.splitlines()
    assert re.fullmatch(r"run \S+: 5 of 7 tasks failed: 3 causes; 1 passed as declared", first)
    assert len(lines) == 3
    assert re.search(
        r"^ +3  NET_CONNECTION_REFUSED +.*127\.0\.0\.1:\d+.*  \[DEAD-0, DEAD-1, DEAD-2\]  "
        r"look: errors/DEAD-0/network_logs\.har$",
        lines[0],
    )
    assert any(line.endswith(f"look: {Path('errors/MISSING-1/screenshot.png')}") for line in lines)


@pytest.mark.thorough
def test_without_a_history_the_directories_say_the_same(project_path: Path) -> None:
    whole = json.loads(harness("triage", "--json", cwd=project_path).stdout)
    kept = json.loads(harness("triage", "--artifacts", "errors", "--json", cwd=project_path).stdout)
    assert whole["failed"] == kept["failed"] == 5
    assert [each["count"] for each in kept["causes"]] == [each["count"] for each in whole["causes"]] == [3, 1, 1]
    assert kept["passed_as_declared"] == 1


def test_failures_of_an_earlier_run_are_said_to_be_that(project_path: Path, tmp_path: Path) -> None:
    shutil.copytree(project_path, folder := tmp_path / "project", symlinks=True)
    assert "earlier run" not in harness("triage", cwd=folder).stderr
    last = folder / ".harness" / "last-run.json"
    document = json.loads(last.read_text("utf-8"))
    last.write_text(json.dumps({**document, "run": "2999" + document["run"][4:]}), "utf-8")
    for options in ((), ("--json",)):
        found = harness("triage", *options, cwd=folder)
        assert "these are failures of an earlier run: the last run (2999" in found.stderr
    assert "earlier run" not in harness("triage", "--run", "last", "--artifacts", "errors", cwd=folder).stderr


def test_what_is_no_report_is_named_and_left_out(tmp_path: Path) -> None:
    for name, text in (("half", '{"task_id": "T'), ("foreign", "[]")):
        (tmp_path / "errors" / name).mkdir(parents=True)
        (tmp_path / "errors" / name / "error_report.json").write_text(text, "utf-8")
    found = harness("triage", "--artifacts", "errors", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "nothing failed\n")
    assert found.stderr.count("left out: ") == 2
    assert harness("triage", cwd=tmp_path).returncode == 1, "there was no run"


@pytest.mark.thorough
def test_the_page_of_the_ci_job(project_path: Path) -> None:
    text = (project_path / "page.md").read_text("utf-8")
    assert text.startswith("## ❌ 5 of 7 tasks failed\n\n2 passed (1 as declared), 5 failed in ")
    assert "| 3 | <code>NET" in text
    assert "DECLARED-1" not in text
    assert "<img" not in text
    assert "- artifacts of each failure: <code>errors</code>" in text


def test_each_failure_is_shown_beside_its_step(run: tuple[Path, str]) -> None:
    commands = [line for line in run[1].splitlines() if line.startswith("::")]
    assert len(commands) == 5
    places = {line.partition(",title=")[0] for line in commands}
    text = (run[0] / "MISSING-1.task.json").read_text("utf-8").splitlines()
    line = next(number for number, each in enumerate(text, 1) if "#no-such-button" in each) - 2
    assert f"::error file=MISSING-1.task.json,line={line}" in places
    assert not any("DECLARED-1" in each for each in commands)


def test_junit_says_what_is_known_of_each(project_path: Path) -> None:
    cases = {case.attrib["name"]: properties(case) for case in ET.parse(project_path / "out.xml").iter("testcase")}
    assert cases["MISSING-1"] == {
        "task_id": "MISSING-1",
        "final_state": "failed",
        "code": "ELEMENT_NOT_FOUND",
        "suspect": "task",
        "error_type": "element_not_found",
        "step_index": "1",
        "retries": cases["MISSING-1"]["retries"],
        "fallbacks": "0",
        "recovered": "0",
        "healed": "false",
        "artifacts": str(project_path / "errors" / "MISSING-1"),
        "task_artifacts": str(project_path / "errors" / "MISSING-1"),
    }
    assert cases["GOOD-1"] == {
        "task_id": "GOOD-1",
        "final_state": "completed",
        **dict.fromkeys(("retries", "fallbacks", "recovered"), "0"),
        "healed": "false",
    }


def properties(case: ET.Element) -> dict[str, str]:
    return {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}


def test_a_replay_stops_before_the_step_that_failed(project_path: Path) -> None:
    before = (project_path / "errors" / "WROTE-1" / "manifest.json").read_bytes()
    found = harness("replay", "WROTE-1", "--json", cwd=project_path)
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert (document["step_index"], document["stopped"], document["url"]) == (2, True, "http://shop.local/")
    assert "these steps write again: 1 click h1" in found.stderr
    assert "stopped before step 2 wait #never, at http://shop.local/" in found.stderr
    assert Path(document["folder"], document["screenshot"]).is_file()
    assert (project_path / "errors" / "WROTE-1" / "manifest.json").read_bytes() == before
    traced = Path(document["folder"], "partial_trace.json").read_text("utf-8")
    assert [step["act"] for step in json.loads(traced)["steps"]] == ["open", "click"]


@pytest.mark.thorough
def test_a_replay_that_does_not_come_there_says_so(project_path: Path) -> None:
    found = harness("replay", "DEAD-0", "--step", "1", cwd=project_path)
    assert found.returncode == 1
    assert re.search(r"the task ended before it reached that step: NET_\w+ at step 0: ", found.stdout)


def test_a_replay_on_a_site_of_others_writes_only_when_told(tmp_path: Path) -> None:
    steps = [
        {"act": "open", "url": "http://127.0.0.1:9/"},
        {"act": "submit", "selector": "form"},
        {"act": "wait", "value": 1},
    ]
    document = {"task_id": "T-1", "goal": "g", "steps": steps}
    (tmp_path / "t.task.json").write_text(json.dumps(document), "utf-8")
    folder = tmp_path / "errors" / "T-1"
    folder.mkdir(parents=True)
    stamp = {"timestamp": "2025-11-16T09:00:00Z", "error_type": "timeout_step", "step_index": 2}
    (folder / "error_report.json").write_text(json.dumps({"task_id": "T-1", **stamp, "source": "t.task.json"}), "utf-8")
    found = harness("replay", "T-1", cwd=tmp_path)
    assert found.returncode == 1
    assert (
        "127.0.0.1: not served by this project, so what the replay writes there stays; --yes allows it" in found.stderr
    )
    environment = {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    headed = harness("replay", "T-1", "--headed", cwd=tmp_path, **environment)
    assert (headed.returncode, "there is no display" in headed.stderr) == (1, True)


@pytest.fixture(scope="module")
def viewer() -> Iterator[Page]:
    with sync_playwright() as playwright:
        chromium = find(BrowserSettings(), Path(playwright.chromium.executable_path), os.environ)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def test_the_trace_opens_in_playwright_s_viewer(project_path: Path, request: pytest.FixtureRequest) -> None:
    """In the ordinary suite tests/browser/test_live_page.py looks at one there."""
    with start_harness("open", "WROTE-1", "--no-browser", cwd=project_path) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().partition(" at ")[2].partition(" (")[0]
            if FULL:
                viewer: Page = request.getfixturevalue("viewer")
                errors: list[str] = []
                viewer.on("pageerror", lambda error: errors.append(str(error)))
                viewer.goto(address)
                viewer.get_by_text("http://shop.local/").first.wait_for(timeout=60_000)
                assert errors == []
            assert status(address) == 200
            assert status(f"{address.partition('/trace-viewer')[0]}/pyproject.toml") == 404
            assert status(address, Host="evil.example") == 403
        finally:
            process.terminate()


def status(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_failure_without_a_trace_says_how_to_get_one(project_path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "project"
    shutil.copytree(project_path, copy, ignore=shutil.ignore_patterns("trace.zip"))
    found = harness("open", "DEAD-0", cwd=copy)
    assert found.returncode == 1
    assert re.fullmatch(
        r"errors/DEAD-0 has no trace\.zip( \(.+\))?; "
        r"`pytest --task-recording full` records one from the first step on\n",
        found.stderr,
    )


COMMANDS: dict[str, tuple[str, ...]] = {
    "circuits": (),
    "validate": (".",),
    "verify": ("GOOD-1.task.json",),
    "eval": ("GOOD-1.task.json", "--agents", "scripted", "--trials", "1"),
    "chaos": ("GOOD-1.task.json", "--faults", "one.faults.yaml", "--clean-trials", "0"),
    "triage": (),
    "show": ("MISSING-1",),
    "replay": ("DEAD-0", "--step", "0"),
    "regrade": ("errors/WROTE-1",),
    "explain": ("NET_DNS",),
    "dashboard": (),
    "merge": (".", "--output", "merged"),
    "history": (),
    "history list": (),
    "history show": (),
    "history compare": ("last", "last"),
    "history task": ("GOOD-1",),
    "history flaky": (),
    "history prune": ("--keep", "10"),
    "services status": (),
    "services start": ("--persist",),
    "services stop": (),
    "services logs": (),
    "serve status": (),
    "sessions list": (),
    "sessions show": ("s-1",),
    "tools status": (),
    "tools list": (),
    "tools call": ("mail", "get_code"),
    "tools restart": ("mail",),
    "tools logs": (),
}
EXEMPT = {
    "new": "it writes a file and says where",
    "run": "it is pytest, whose facts are in junit.xml and the history",
    "open": "it serves the viewer until Ctrl-C",
    "watch": "it runs tasks until a key ends it",
    "schema": "what it prints is JSON as it is",
    "history durations": "what it prints is JSON as it is",
    "freeze": "it writes the steps of a run into a file; `--check` shows a difference",
    "fmt": "it writes files in one style and says which; `validate` has the facts",
    "serve": "it serves a page until Ctrl-C",
    "serve stop": "it ends the server, and says which; `serve status` has the facts",
    "serve token": "what it prints is a token as it is",
    "serve client": "what it prints is a JavaScript module as it is",
    "sessions close": "it closes a session, and says so; `sessions show` has the facts",
    "mcp": "it speaks MCP over standard input and output",
    "mcp hook": "it passes an event on, for a program that reads its exit status",
    "record": "it writes a file from what a person does, and says where",
    "import": "it writes files and says where, and what is missing line by line",
    "demo": "it serves the demo sites until Ctrl-C",
    "report": "it needs Allure; tests/acceptance/test_report_command.py has its JSON",
}
"""Commands that are not run here, each with the reason."""


def of_app() -> dict[str, Any]:
    """All commands, by what one types."""
    import typer

    from harness.cli.main import app

    def walk(command: Any, way: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", {})
        if way and (not children or command.invoke_without_command):
            yield " ".join(way), command
        for name, child in children.items():
            yield from walk(child, (*way, name))

    return dict(walk(typer.main.get_command(app), ()))


def test_every_command_that_prints_facts_prints_them_as_json_too() -> None:
    known = of_app()
    assert {*COMMANDS, *EXEMPT} == set(known)
    options = {name: {each for option in command.params for each in option.opts} for name, command in known.items()}
    assert {name for name in known if "--json" not in options[name]} == {*EXEMPT} - {"report"}


def failing(name: str) -> tuple[str, ...]:
    """With an option that no command has."""
    return (*name.split(), *COMMANDS[name], "--nonsense", *(("--json", "-") if name == "chaos" else ("--json",)))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sampled(2)
def test_of_a_command_that_fails_its_stdout_is_one_document_too(name: str) -> None:
    from typer.testing import CliRunner

    from harness.cli.main import app

    found = CliRunner().invoke(app, failing(name))
    assert (found.exit_code, json.loads(found.stdout)["error"]["exit_code"]) == (2, 2)
    assert "--nonsense" in json.loads(found.stdout)["error"]["message"]
    assert "--nonsense" in found.stderr
    assert CliRunner().invoke(app, [each for each in failing(name) if each not in ("--json", "-")]).stdout == ""


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.sampled(2)
def test_its_stdout_is_one_document(project_path: Path, name: str) -> None:
    plan = "name: one\nfaults:\n  - {id: slow, kind: refuse, host: shop.local, connections: 1}\n"
    (project_path / "one.faults.yaml").write_text(plan, "utf-8")
    option = ("--json", "-") if name == "chaos" else ("--json",)
    found = harness(*name.split(), *COMMANDS[name], *option, cwd=project_path)
    documents = found.stdout.splitlines() if name == "services logs" else [found.stdout]  # an object a line
    assert all(isinstance(json.loads(each), dict | list) for each in documents), found.stdout + found.stderr
