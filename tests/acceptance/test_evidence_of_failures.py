"""What a failed task leaves on a stranger's site: the whole trace, the evidence of an abort, a full trace on demand."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.warm import harness, start_harness, warm

APP = Path(__file__).with_name("stranger_app.py")
MISSING: dict[str, Any] = {"act": "click", "selector": "#nope"}
ABORT = {"on_element_not_found": {"strategy": "abort"}}
RETRIED = {"on_element_not_found": {"wait_seconds": 0.3, "fallback_wait_seconds": 0.3,
                                    "fallback_selectors": {"#nope": ["#neither"]}}}  # fmt: skip
LOGIN: list[dict[str, Any]] = [
    {"act": "open", "url": "/login", "timeout": 10},
    {"act": "type", "selector": "#user", "value": "ann"},
    {"act": "type", "selector": "#password", "value": "s3cret-pass"},
    {"act": "click", "selector": "#login"},
    {"act": "open", "url": "/login"},
]
TASKS: dict[str, dict[str, Any]] = {
    "WROTE": {"steps": [*LOGIN, MISSING], "error_recovery": RETRIED},
    "READ": {"steps": [LOGIN[0], MISSING], "error_recovery": ABORT, "step_timeout": 2},
    "QUIET": {"steps": [LOGIN[0], MISSING], "error_recovery": {**ABORT, "capture": "none"}},
    "GREEN": {"steps": [LOGIN[0]]},
}


@dataclass(frozen=True, slots=True)
class Run:
    """A project of a stranger whose tasks ran twice: once as usual, once as the failure text says."""

    path: Path
    usual: str
    manifest: dict[str, Any]
    """That of READ after the usual run."""
    copied: str
    """What was said of the failure text's own command, to which WROTE was added."""
    untraced: str
    """What `harness open` said of a task that passed without a trace."""

    def kept(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / "errors" / task / "manifest.json").read_text("utf-8"))
        return found

    def entries(self, task: str) -> dict[str, Any]:
        return {each["name"]: each for each in self.kept(task)["artifacts"]}

    def trace(self, task: str, name: str = "trace.zip") -> dict[str, list[dict[str, Any]]]:
        with zipfile.ZipFile(self.path / "errors" / task / name) as made:
            found = [each for each in made.namelist() if each.endswith((".trace", ".network"))]
            return {each: [json.loads(line) for line in made.read(each).splitlines()] for each in found}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    path = tmp_path_factory.mktemp("stranger")
    process = subprocess.Popen([sys.executable, str(APP)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    settings = f'[tool.harness]\nbase_url = "http://127.0.0.1:{port}"\n'
    (path / "pyproject.toml").write_text(settings, "utf-8")
    (path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name, spec in TASKS.items():
        document = {"task_id": name, "goal": f"goal of {name}", "step_timeout": 1, **spec}
        (path / f"{name}.task.json").write_text(json.dumps(document), "utf-8")

    def play(*arguments: str) -> str:
        return warm().run("pytest", "-p", "no:cacheprovider", *arguments, cwd=path, timeout=120).stdout

    usual = play("--task-tracing", "retain-on-failure", ".")
    manifest = json.loads((path / "errors" / "READ" / "manifest.json").read_text("utf-8"))
    untraced = harness("open", "GREEN", cwd=path)
    offered = usual.partition("full trace: pytest READ")[2].splitlines()[0]
    copied = play(*shlex.split(f"READ{offered}"), "WROTE.task.json", "--alluredir", "allure-results")
    play("GREEN.task.json", "--task-tracing", "on")
    yield Run(path, usual, manifest, copied, untraced.stderr)
    process.kill()
    process.wait(10)


@pytest.mark.thorough
def test_the_trace_of_a_failed_task_holds_the_whole_task(run: Run) -> None:
    found = run.trace("WROTE")
    titles = [each["title"] for each in found["test.trace"] if each["type"] == "before"]
    assert [title.split()[:2] for title in titles[:6]] == [
        ["0", "open"], ["1", "type"], ["2", "type"], ["3", "click"], ["4", "open"], ["5", "click"],
    ]  # fmt: skip
    assert "s3cret-pass" not in json.dumps(found)
    sent = [each["snapshot"]["request"] for each in found["test.network"]]
    assert ("POST", "/login") in [(each["method"], "/" + each["url"].rpartition("/")[2]) for each in sent]
    assert any(each["type"] == "frame-snapshot" for each in found["trace.trace"])


def test_an_empty_password_field_is_not_shown_as_filled(run: Run) -> None:
    """The last page has the login form anew, and nobody has typed into it."""
    snapshots = [each["snapshot"] for each in run.trace("WROTE")["trace.trace"] if each["type"] == "frame-snapshot"]
    assert '"password"' in json.dumps(snapshots)
    assert "[redacted]" not in json.dumps([each["html"] for each in snapshots])


def test_an_abort_keeps_its_evidence(run: Run) -> None:
    entries = {each["name"]: each for each in run.manifest["artifacts"]}
    assert {name for name, each in entries.items() if each["status"] != "taken"} == set()


def test_capture_none_keeps_the_report_alone_and_says_why(run: Run) -> None:
    entries = run.entries("QUIET")
    taken = {name for name, each in entries.items() if each["status"] == "taken"}
    assert taken == {"error_report.json", "partial_trace.json"}
    assert {each["reason"] for name, each in entries.items() if name not in taken} == {"`capture: none`"}


def test_a_full_trace_is_offered_where_nothing_was_written(run: Run) -> None:
    offered = [line.strip() for line in run.usual.splitlines() if "full trace:" in line]
    assert "full trace: pytest READ.task.json::READ --task-retrace" in offered
    assert not any("WROTE" in line for line in offered)


def test_the_offered_command_leaves_a_full_trace_beside_the_first_artifacts(run: Run) -> None:
    assert "trace_full.zip (the second run failed with ELEMENT_NOT_FOUND)" in run.copied, run.copied
    retrace = run.kept("READ")["retrace"]
    assert (retrace["trace"], retrace["passed"], retrace["code"]) == ("trace_full.zip", False, "ELEMENT_NOT_FOUND")
    methods = {each.get("method") for each in run.trace("READ", "trace_full.zip")["trace.trace"]}
    assert {"goto", "click"} <= methods
    assert not (run.path / "errors" / "READ.retrace").exists()
    assert "2 failed" in run.copied
    assert "passed" not in run.copied.rpartition(" failed")[2]


def test_allure_has_the_full_trace_and_the_manifest_that_speaks_of_it(run: Run) -> None:
    every = (run.path / "allure-results").glob("*-result.json")
    (file,) = [each for each in every if json.loads(each.read_text("utf-8"))["name"].startswith("READ")]
    attached = {each["name"]: each["source"] for each in json.loads(file.read_text("utf-8"))["attachments"]}
    full = (run.path / "errors" / "READ" / "trace_full.zip").read_bytes()
    assert (file.parent / attached["Playwright trace of the second run, in full"]).read_bytes() == full
    assert "retrace" in json.loads((file.parent / attached["manifest"]).read_text("utf-8"))


def test_a_task_that_wrote_is_not_run_again_where_nothing_keeps_states_apart(run: Run) -> None:
    assert "--task-retrace: the task did not run again: it sent POST http://127.0.0.1" in run.copied
    assert "retrace" not in run.kept("WROTE")


def test_open_finds_the_trace_of_a_task_that_passed(run: Run) -> None:
    assert "GREEN passed, and its trace was not kept; `pytest --task-tracing on` keeps" in run.untraced
    process = start_harness("open", "GREEN", "--no-browser", cwd=run.path, environment={"PATH": ""})
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("errors/.kept/GREEN/trace.zip at http://127.0.0.1:")
    finally:
        process.kill()
        process.communicate(timeout=10)
