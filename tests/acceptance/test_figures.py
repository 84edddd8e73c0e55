"""One run of everything that can be counted, on a stranger's site; all outputs are read and show the same figures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.reporting.history.reading import load_run, recent_runs
from tests.acceptance.conftest import INI
from tests.acceptance.test_telemetry import closed_port
from tests.acceptance.warm import warm

APP = Path(__file__).with_name("stranger_app.py")
REPAIR = {"preconditions": ["mem('ready') == 'yes'"], "error_recovery": {"on_precondition_fail": "attempt_repair"}}


def tasks(site: str) -> dict[str, dict[str, Any]]:
    """What one run is made of: a task for each thing that is counted."""
    opened = {"act": "open", "url": f"{site}/login"}
    absent = {"strategy": "try_fallback_selector", "wait_seconds": 0.3, "fallback_selectors": {"#nope": ["#login"]}}
    quick = {"strategy": "retry", "max_retries": 2, "retry_delay_ms": 20}
    return {
        "RETRY": {
            "steps": [{"act": "open", "url": f"{site}/flaky?visitor=1"}],
            "error_recovery": {"on_network_error": quick},
        },
        "FALLBACK": {
            "steps": [opened, {"act": "click", "selector": "#nope"}],
            "error_recovery": {"on_element_not_found": absent},
        },
        "REWIND": {
            "steps": [opened, {"act": "wait", "selector": "#login", "timeout": 2}],
            "checkpoints": [0],
            "error_recovery": {"on_timeout": "retry_from_checkpoint"},
            "faults": [{"kind": "missing", "selector": "#login", "step": 1, "seconds": 2.2, "times": 1}],
        },
        "REPAIRED": {"steps": [opened], "repairs": [{"memory": {"ready": "yes"}}], **REPAIR},
        "UNREPAIRED": {"steps": [opened], "repairs": [{"steps": [opened]}], **REPAIR},
        "DECLARED": {
            "steps": [opened, {"act": "assert", "expr": "text('h1') == 'Welcome'"}],
            "expect": {"final_state": "failed", "error_type": "assertion_failed"},
        },
        "FAILED": {
            "steps": [{"act": "open", "url": f"http://127.0.0.1:{closed_port()}/"}],
            "error_recovery": {"on_network_error": quick},
        },
    }


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The stranger's application, running."""
    process = subprocess.Popen([sys.executable, str(APP), "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="module")
def run(site: str, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """One run, and its dashboard: the folder, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("figures")
    (folder / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    for task_id, spec in tasks(site).items():
        document = {"task_id": task_id, "goal": task_id, "timeout": 30, "step_timeout": 5, **spec}
        (folder / f"{task_id}.task.json").write_text(json.dumps(document), "utf-8")
    asked = ("-p", "no:cacheprovider", "--alluredir=allure", "--junitxml=junit.xml")
    shown = warm().run("pytest", *asked, cwd=folder, timeout=120).stdout
    warm().run("tests.acceptance.command", "dashboard", "--output", "dashboard.html", cwd=folder, timeout=60)
    return SimpleNamespace(folder=folder, shown=shown)


PASSED, DECLARED, FAILED, RETRIES, WORKED, FALLBACKS, RECOVERED = 5, 1, 2, 6, 3, 1, 4
RATES = {"network_error": 0.5, "element_not_found": 1.0, "timeout": 1.0, "precondition_fail": 0.5}


def test_terminal(run: SimpleNamespace) -> None:
    assert f"tasks: 7: 4 completed ({RECOVERED} of them recovered)" in run.shown
    assert f"1 failed, 1 aborted, {DECLARED} passed as declared" in run.shown
    assert f"resilience: {RETRIES} retries ({WORKED} worked), {FALLBACKS} fallback, recovered in" in run.shown
    assert f"{FAILED} failed, {PASSED} passed" in run.shown


def test_metrics(run: SimpleNamespace) -> None:
    found = json.loads((run.folder / ".harness/metrics.json").read_text("utf-8"))
    counted, resilience = found["error_metrics"], found["resilience"]
    assert (counted["total_tasks"], counted["successful"], counted["failed"]) == (PASSED + FAILED, PASSED, FAILED)
    assert counted["passed_as_declared"] == DECLARED
    assert counted["error_breakdown"] == {"network_error": 1, "precondition_not_met": 1}
    assert counted["recovery_success_rate"] == RATES
    assert (resilience["successfulRetries"], resilience["failedRetries"]) == (WORKED, RETRIES - WORKED)
    assert resilience["fallbacksUsed"] == FALLBACKS


def test_junit(run: SimpleNamespace) -> None:
    cases = ET.parse(run.folder / "junit.xml").getroot().iter("testcase")
    found = [({each.get("name"): each.get("value") for each in case.iter("property")}, case) for case in cases]
    for name, count in (("retries", RETRIES), ("fallbacks", FALLBACKS), ("recovered", RECOVERED)):
        assert sum(int(properties[name] or 0) for properties, _ in found) == count
    assert sum(case.find("failure") is not None for _, case in found) == FAILED


def test_allure(run: SimpleNamespace) -> None:
    results = [json.loads(path.read_text("utf-8")) for path in (run.folder / "allure").glob("*-result.json")]
    assert Counter(each["status"] == "passed" for each in results) == {True: PASSED, False: FAILED}
    shown: Counter[str] = Counter()
    for each in results:
        for parameter in each["parameters"]:
            if parameter["name"] in ("retries", "fallbacks", "recovered"):
                shown[parameter["name"]] += int(parameter["value"].strip("'"))
    assert shown == {"retries": RETRIES, "fallbacks": FALLBACKS, "recovered": RECOVERED}


def test_history_and_dashboard(run: SimpleNamespace) -> None:
    (summary,) = recent_runs(run.folder)
    assert (summary.passed, summary.expected, summary.failed, summary.retries) == (PASSED, DECLARED, FAILED, RETRIES)
    assert summary.recovery_rate == round(4 / 6, 4)
    records = [each.record for each in load_run(run.folder).executions if each.record]
    assert sum(each.successful_retries for each in records) == WORKED
    assert sum(each.recovered for each in records) == RECOVERED
    page = (run.folder / "dashboard.html").read_text("utf-8")
    tiles = {name: int(number) for number, name in re.findall(r"<strong>(\d+)</strong> <span>([\w ]+)</span>", page)}
    assert (tiles["passed"], tiles["failed"], tiles["passed as declared"]) == (PASSED, FAILED, DECLARED)
    assert tiles["retries"] == RETRIES


def test_reports(run: SimpleNamespace) -> None:
    reports = (json.loads(path.read_text("utf-8")) for path in run.folder.glob("errors/*/error_report.json"))
    found = {each["task_id"]: each["metrics"]["retries_count"] for each in reports}
    assert found == {"FAILED": 2, "UNREPAIRED": 1, "DECLARED": 0}


def test_events(run: SimpleNamespace) -> None:
    lines = (run.folder / ".harness/events.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    kinds = Counter(each["type"] for each in found)
    assert (kinds["retry"], kinds["fallback"], kinds["recovered"]) == (RETRIES, FALLBACKS, RECOVERED)
    ended = [each for each in found if each["type"] == "task"]
    assert sum(each["retries"] for each in ended) == RETRIES
    assert sum(each["successful_retries"] for each in ended) == WORKED
    assert not [each for each in found if each["type"] == "recovered" and each["task_id"] == "UNREPAIRED"]
