"""Each output of a run fails, in each way: the verdicts are those of a run without that, and what is lost is said."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.reporting.fence import LOST
from tests.acceptance.conftest import Project

BREAKS = """
import functools
import os
from contextlib import contextmanager

from harness.reporting.fence import OutputFence

class PluginError(BaseException):
    pass

class Number:
    def __init__(self):
        self.value = -1
    def next(self):
        self.value += 1
        return self.value

NUMBER = Number()
ERRORS = [
    lambda: OSError(28, "No space left on device", "/full"),
    lambda: OverflowError("Python int too large to convert to SQLite INTEGER"),
    lambda: PluginError("a plugin's own"),
]
BROKEN = os.environ["BROKEN_OUTPUTS"].split(",")
whole, around = OutputFence.call, OutputFence.around

def fails(*_, **__):
    raise ERRORS[NUMBER.next() % len(ERRORS)]()

def call(self, output, act, *args):
    return whole(self, output, fails if output in BROKEN else act, *args)

@contextmanager
def fails_at_its_end(self, output):
    with around(self, output):
        yield
        if output in BROKEN:
            fails()

OutputFence.call, OutputFence.around = call, fails_at_its_end
"""
ELSEWHERE = {
    *("OpenTelemetry", "journal of the worker", "journal of the cluster", "ledger of the store", "store"),
    *("live view", "job summary"),
}
"""Outputs that the runs of this file do not have; each is a sink, or enclosed like the others."""
FIRST = {"task record", "stream"}
"""Outputs without which others get nothing to fail at; they fail in runs of their own."""
UNSEEN = {"live line"}
"""Outputs that no process of xdist has."""


@pytest.fixture
def broken(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Tasks that pass, fail, are left out and have a fixture that fails after them."""
    (project.path / "conftest.py").write_text(BREAKS, "utf-8")
    monkeypatch.setenv("BROKEN_OUTPUTS", "none")
    project.task("T-PASSES")
    project.task("T-FAILS", success_criteria=["url() == 'nowhere'"])
    project.task("T-WAITS", dependencies=["T-FAILS"])
    return project


def verdicts(run: pytest.RunResult) -> tuple[dict[str, int], int]:
    return run.parseoutcomes(), int(run.ret)


WHOLE = ({"passed": 1, "failed": 1, "skipped": 1}, 1)


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.thorough)], ids=["alone", "workers"]
)
def test_all_outputs_fail_at_all_calls_and_no_verdict_notices(
    broken: Project, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BROKEN_OUTPUTS", ",".join({*LOST} - FIRST))
    run = broken.run("--alluredir=allure", *workers)
    assert verdicts(run) == WHOLE, run.stdout.str()
    said = [line for line in run.stdout.lines if line.startswith("output failed: ")]
    counted = Counter(line.split(": ")[1] for line in said)
    expected = {*LOST} - ELSEWHERE - FIRST - (UNSEEN if workers else set())
    assert {name: number for name, number in counted.items() if number > 1} == {}, "each is said once"
    assert {*counted} >= expected
    assert "INTERNALERROR" not in run.stdout.str() + run.stderr.str()


@pytest.mark.thorough
@pytest.mark.parametrize("output", sorted({*LOST} - ELSEWHERE), ids=lambda output: output.replace(" ", "-"))
def test_one_output_fails_and_the_others_are_there(
    broken: Project, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setenv("BROKEN_OUTPUTS", output)
    run = broken.run("--alluredir=allure")
    assert verdicts(run) == WHOLE, run.stdout.str()
    own = broken.path / ".harness"
    files = {
        "events.jsonl": own / "events.jsonl",
        "metrics": own / "metrics.json",
        "history": own / "history.sqlite3",
        "last run": own / "last-run.json",
        "Allure": broken.path / "allure" / "environment.properties",
        "evidence": broken.path / "errors" / "T-FAILS" / "error_report.json",
    }
    lost = {output, "last run"} if output == "task record" else {output}
    assert {name for name, path in files.items() if not path.exists()} <= lost


IN_THE_WAY = """
import pathlib, shutil, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    folder = pathlib.Path("allure")
    if folder.is_dir():
        shutil.rmtree(folder)
        folder.write_text("in the way", "utf-8")
"""


def test_real_files_that_cannot_be_written_end_no_run(broken: Project) -> None:
    """Folders stand where files would, and a file where the folder of Allure was, whose own writer is held too."""
    (broken.path / "conftest.py").write_text(IN_THE_WAY, "utf-8")
    own = broken.path / ".harness"
    for name in ("history.sqlite3", "last-run.json", "metrics.json"):
        (own / name / "full").mkdir(parents=True)
    (own / "events").write_text("in the way", "utf-8")
    run = broken.run("--alluredir=allure")
    assert verdicts(run) == WHOLE, run.stdout.str() + run.stderr.str()
    named = {line.split(": ")[1] for line in run.stdout.lines if line.startswith("output failed: ")}
    assert named == {"history", "last run", "metrics", "events.jsonl", "Allure"}
