"""Pages that hang or close themselves while they are judged: who is to blame is told, in bounded time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.warm import warm

APP = Path(__file__).with_name("stranger_app.py")
NEVER = {"success_criteria": ["text('#x') == 'never'"], "expect_timeout": 6}
TASKS: dict[str, dict[str, Any]] = {
    "HANGS": {"steps": [{"act": "open", "url": "/hangs"}], **NEVER},
    "CLOSES": {
        "steps": [
            {"act": "open", "url": "/closes"},
            {"act": "click", "selector": "#open"},
            {"act": "switch_page", "url": "*/closes?soon=1"},
        ],
        **NEVER,
    },
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the reports of one run of all tasks."""
    path = tmp_path_factory.mktemp("blame")
    process = subprocess.Popen([sys.executable, str(APP)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = json.loads(process.stdout.readline())["port"]
    (path / "pyproject.toml").write_text(f'[tool.harness]\nbase_url = "http://127.0.0.1:{port}"\n', "utf-8")
    (path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for name, spec in TASKS.items():
        document = {"task_id": name, "goal": f"goal of {name}", "step_timeout": 3, "timeout": 60, **spec}
        (path / f"{name}.task.json").write_text(json.dumps(document), "utf-8")
    warm().run("pytest", "-p", "no:cacheprovider", ".", cwd=path, timeout=240)
    yield path / "errors"
    process.kill()
    process.wait(10)


def read(reports: Path, task: str, name: str = "error_report.json") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((reports / task / name).read_text("utf-8"))
    return document


@pytest.mark.thorough
def test_a_page_that_hangs_while_criteria_are_judged_is_to_blame_and_not_the_criterion(reports: Path) -> None:
    report = read(reports, "HANGS")
    assert report["code"] == "PAGE_UNRESPONSIVE"
    assert report["error_type"] != "assertion_failed"
    assert "the page stopped answering" in report["error_message"]
    assert (
        "while the success criteria were judged; judged again afterwards: Assertion failed" in report["error_message"]
    )
    assert report["metrics"]["time_elapsed_seconds"] < 55, "the task's own limit did not have to end it"


@pytest.mark.thorough
def test_where_a_page_was_closed_while_criteria_were_judged_the_failure_says_so(reports: Path) -> None:
    report = read(reports, "CLOSES")
    assert report["code"] == "CRITERIA_UNMET"
    assert "/closes?soon=1, and the task went on at http" in report["error_message"]
    assert report["context"]["closed_pages"][0]["closed"].endswith("/closes?soon=1")
