"""A variable of the environment stays out of all that a run writes, whichever task it came in by."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html import escape
from urllib.parse import quote, quote_plus

import pytest

from tests.acceptance.conftest import Project

SECRET = "hunter2-of-this-run"
OPEN = {"act": "open", "url": "http://shop.local/"}
GET = {**OPEN, "remember": {"pw": "'${env:PW_SECRET}'"}}
WRONG = ["mem('pw') == 'nothing'"]


@pytest.fixture
def secret(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PW_SECRET", SECRET)
    return project


def leaks(project: Project, *args: str) -> list[str]:
    """Names of the files, and of the terminal, that show it after a run."""
    project.run("--alluredir=allure-results", "--junitxml=out.xml", "-rA", *args)  # its output is kept as a file
    files = (path for path in project.path.rglob("*") if path.is_file())
    return [str(path.relative_to(project.path)) for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("options", [[], pytest.param(["-n", "2"], marks=pytest.mark.thorough)], ids=" ".join)
def test_a_secret_that_another_task_of_the_episode_remembers_and_one_in_the_reason_of_a_skip(
    secret: Project, options: list[str]
) -> None:
    secret.task("E-1", episode_id="E", priority=1, steps=[GET])
    secret.task("E-2", episode_id="E", priority=2, success_criteria=WRONG)
    rules, memory = {"on_precondition_fail": "skip_task"}, {"pw": "${env:PW_SECRET}"}
    secret.task("OUT", memory=memory, preconditions=WRONG, error_recovery=rules)
    assert leaks(secret, *options) == []
    assert "[redacted]" in (secret.path / "errors" / "E-2" / "memory_snapshot.json").read_text("utf-8")
    (skipped,) = ET.parse(secret.path / "out.xml").iter("skipped")
    assert "'[redacted]'" in skipped.get("message", "")


@pytest.mark.thorough
def test_a_secret_of_a_task_that_runs_inside_of_another(secret: Project) -> None:
    click = {"act": "click", "selector": "#x-${env:PW_SECRET}"}
    secret.task("INNER", steps=[GET, click])
    plan = {"enabled": True, "alternative_task_id": "INNER"}
    secret.task("ALTERNATIVE", success_criteria=WRONG, fallback_plan=plan)
    rules = {"on_precondition_fail": "attempt_repair"}
    secret.task("REPAIRED", preconditions=WRONG, repairs=[{"task": "INNER"}], error_recovery=rules)
    assert leaks(secret, "ALTERNATIVE.task.json", "REPAIRED.task.json") == []
    assert (secret.path / "errors" / "ALTERNATIVE").is_dir()


LONG = "sk-" + "A1b2C3d4E5" * 32
MARKED = "p@ss wörd&\"<x>/é+1=it's of the seventh floor, and of many others beyond the hill"


@pytest.mark.parametrize("value", [LONG, MARKED], ids=["long", "marked"])
@pytest.mark.sampled(1)
def test_neither_a_secret_nor_its_beginning_is_shown_however_it_is_cut(
    project: Project, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("PW_SECRET", value)
    asked = {"act": "open", "url": "http://shop.local/search?q=${env:PW_SECRET}#${env:PW_SECRET}"}
    typed = {"act": "type", "selector": "input[name=q]", "value": "${env:PW_SECRET}"}
    sent = {"act": "click", "selector": "form button[type=submit]"}
    wrong = {"act": "assert", "expr": "value('input[name=q]') == 'nothing'"}
    project.task("CUT", steps=[asked, typed, sent, wrong])
    project.run("--alluredir=allure-results", "--junitxml=out.xml", "-rA")
    seen = [(path, path.read_text("utf-8", "replace")) for path in project.path.rglob("*") if path.is_file()]
    begun = value[:10]
    ways = (begun, quote(begun), quote(begun, safe="!$&'()*+,/:;=?@"), quote_plus(begun), escape(begun, quote=False))
    leaks = [str(path.relative_to(project.path)) for path, text in seen if any(way in text for way in ways)]
    assert leaks == []
    report = project.report("CUT")
    assert (report["step"]["act"], "[redacted]" in report["context"]["url"]) == ("assert", True)
    assert "[redacted]" in (project.path / "out.xml").read_text("utf-8")
