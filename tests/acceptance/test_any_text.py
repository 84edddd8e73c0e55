"""No output breaks on any text that a page may have: each text in each part of a page, looked at in every report."""

from __future__ import annotations

import json
import sqlite3
import xml.etree.ElementTree as ET
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.acceptance.warm import harness, warm
from tests.conftest import FULL

TEXTS = {
    "half": r"'\ud83d'",
    "other-half": r"'\ude00 \udfff\ud800'",
    "controls": r"Array.from({length: 32}, (_, n) => String.fromCharCode(n)).join('') + '\u007f\u009b31m\u001b[2J'",
    "every-unit": r"Array.from({length: 65536}, (_, n) => String.fromCharCode(65535 - n)).join('')",
    "planes": r"Array.from({length: 17}, (_, n) => String.fromCodePoint(n * 65536 + 65534, n * 65536 + 1)).join(' ')",
    "escape": r"'\\ud800 \\u0000 ]]> <!-- ]]&gt; ::error::no ##[error]no'",
    "long": r"'\ud800 5 MB '.repeat(600000)",
}
"""Name -> a script's expression of a text."""
if not FULL:  # halves and planes are parts of every unit; more than a million characters are as many as too many
    del TEXTS["half"], TEXTS["other-half"], TEXTS["planes"]
    TEXTS["every-unit"] = r"Array.from({length: 4096}, (_, n) => String.fromCharCode(65535 - 16 * n)).join('')"
    TEXTS["long"] = r"'\ud800 1 MB '.repeat(150000)"
PAGE = """<!doctype html><p id=p></p><input id=i><select id=s><option>o</option></select><button id=b>B</button><script>
const text = %s;
console.error(text);
b.setAttribute('data-x', text);
if (text.length < 1e6) {  // Chromium itself needs minutes to lay out more
document.getElementById('p').textContent = text;
document.title = text;
b.textContent = text;
for (const name of ['title', 'aria-label']) b.setAttribute(name, text);
i.value = text;
s.options[0].textContent = text;
localStorage.setItem('k', text);
history.replaceState(null, '', '#' + text.slice(0, 99));
setTimeout(() => { throw new Error(text) }, 0);
}
b.onclick = () => { alert(text.slice(0, 5000)); fetch('/post', {method: 'POST', body: text.slice(0, 9000)}); };
</script>"""
CODES = {name: "OPTION_NOT_FOUND" if name in ("half", "every-unit") else "CRITERIA_UNMET" for name in TEXTS}
"""Name -> how its task ends: by its criterion, or at a list whose option has the text, which the message quotes."""


def _write_tasks(folder: Path) -> None:
    steps = [
        {"act": "open", "url": "http://page.test/"},
        {"act": "click", "selector": "#b"},
        {"act": "wait", "value": 0, "remember": {"x": "attr('#b', 'data-x')"}},
    ]
    select = {"act": "select", "selector": "#s", "value": "none", "timeout": 2}
    for name, expression in TEXTS.items():
        task = {
            "task_id": name,
            "goal": "g",
            "timeout": 120,
            "step_timeout": 60,
            "routes": [
                {"url": "http://page.test/post", "json": {}, "optional": True},
                {"url": "http://page.test/*", "headers": {"content-type": "text/html"}, "body": PAGE % expression},
            ],
            "error_recovery": {"on_action_failed": "abort"},
            "steps": [*steps, *([select] if CODES[name] == "OPTION_NOT_FOUND" else [])],
            "success_criteria": ["mem('x') == 'something else'", "text('#p') == 'more'"],
        }
        (folder / f"{name}.task.json").write_text(json.dumps(task), "utf-8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("project")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n", "utf-8")
    (folder / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    _write_tasks(folder)
    reports = ("--alluredir=allure", "--junitxml=out.xml", "--task-summary=page.md", "--task-github-annotations")
    slow = "--task-timeout-scale=4"  # a text of 5 MB needs more time than the evidence of a usual page
    done = warm().run("pytest", "-n2", *reports, slow, cwd=folder, timeout=500)
    assert done.returncode == 1, done.stdout[-5000:] + done.stderr[-5000:]
    return folder, done


def test_every_report_has_every_task_with_its_own_cause(run: tuple[Path, CompletedProcess[str]]) -> None:
    folder, done = run
    assert f"{len(CODES)} failed in" in done.stdout
    assert "\x1b[2J" not in done.stdout
    reports = {each.parent.name: json.loads(each.read_bytes()) for each in folder.glob("errors/*/error_report.json")}
    assert {name: each["code"] for name, each in reports.items()} == CODES
    lost = [
        entry
        for each in folder.glob("errors/*/manifest.json")
        for entry in json.loads(each.read_bytes())["artifacts"]
        if entry["status"] == "missed"
    ]
    assert not lost
    allure = [json.loads(each.read_bytes()) for each in folder.glob("allure/*-result.json")]
    labels = [{each["name"]: each["value"] for each in one["labels"]} for one in allure]
    assert sorted(each["code"] for each in labels) == sorted(CODES.values())
    assert all(one["steps"] and one["attachments"] for one in allure)
    cases = {each.get("name"): each for each in ET.parse(folder / "out.xml").iter("testcase")}
    codes = {name: case.find("properties/property[@name='code']") for name, case in cases.items()}
    assert {name: each.get("value") for name, each in codes.items() if each is not None} == CODES
    assert len((folder / "page.md").read_text("utf-8").split("# ")) > 1
    assert done.stdout.count("\n::error ") == min(10, len(CODES))


def test_every_command_reads_what_was_written(run: tuple[Path, CompletedProcess[str]]) -> None:
    folder, _ = run
    count = len(CODES)
    triage = harness("triage", "--json", cwd=folder)
    assert json.loads(triage.stdout)["failed"] == count, triage.stdout + triage.stderr
    regraded = harness("regrade", "--at-failure", "--json", cwd=folder)
    assert regraded.returncode in (1, 3), regraded.stdout + regraded.stderr
    assert len(json.loads(regraded.stdout)["tasks"]) == count
    for name in TEXTS:
        shown = harness("show", name, cwd=folder)
        assert CODES[name] in shown.stdout, shown.stdout + shown.stderr
    made = harness("dashboard", "--output", "dashboard.html", cwd=folder)
    assert made.returncode == 0, made.stdout + made.stderr
    assert f"{count} of {count} tasks failed" in (folder / "dashboard.html").read_text("utf-8")
    with sqlite3.connect(folder / ".harness" / "history.sqlite3") as history:
        assert history.execute("select count(*) from executions").fetchone()[0] == count
    for file in (folder / ".harness" / "events").glob("*.jsonl"):
        for line in file.read_bytes().splitlines():
            json.loads(line)
