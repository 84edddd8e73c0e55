"""One real run whose evidence is kept; then its criteria change, and are judged again without a browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import INI, PYPROJECT
from tests.acceptance.warm import harness, warm

ROOT = Path(__file__).parents[2]
PIN = "4711-0815"
SEARCH = [
    {"act": "open", "url": "http://shop.local/"},
    {"act": "type", "selector": "#search-box", "value": "wireless mouse", "remember": {"word": "value('#search-box')"}},
    {"act": "click", "selector": "button[type='submit']"},
    {"act": "wait", "selector": ".product-grid .product-item"},
]
TASKS: dict[str, dict[str, Any]] = {
    "GOOD": {
        "steps": SEARCH,
        "memory": {"pin": "${env:REGRADE_PIN}", "begun": "2025-11-16T08:00:00Z"},
        "time": "2025-11-16T09:00:00Z",
        "success_criteria": ["count('.product-grid .product-item') > 0", "mem('pin') == '${env:REGRADE_PIN}'"],
        "scoring_checkpoints": [
            {"id": "found", "assertion": "count('.product-item') == 4", "weight": 3},
            {"id": "typed", "assertion": "value('#search-box') == 'wireless mouse'"},
        ],
    },
    "BAD": {"steps": SEARCH, "success_criteria": ["mem('word') == 'keyboard'", "exists('#search-box')"]},
    "STOPPED": {
        "steps": [*SEARCH, {"act": "click", "selector": "#no-such-thing"}],
        "success_criteria": ["exists('#search-box')"],
    },
}


def write(folder: Path, task_id: str, **changes: Any) -> Path:
    document = {
        "task_id": task_id,
        "goal": f"goal of {task_id}",
        "timeout": 60,
        "step_timeout": 10,
        "error_recovery": {"on_element_not_found": {"wait_seconds": 1}},
        **TASKS[task_id],
        **changes,
    }
    path = folder / f"{task_id}.task.json"
    path.write_text(json.dumps(document), "utf-8")
    return path


@pytest.fixture(scope="module")
def ran(sites: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project whose tasks have run once."""
    folder = tmp_path_factory.mktemp("regrade")
    hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
    (folder / "pyproject.toml").write_text(PYPROJECT.format(base=min(sites.values()), hosts=hosts), "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    for task_id in TASKS:
        write(folder, task_id)
    done = warm().run(
        "pytest", "-p", "no:cacheprovider", "--task-evidence", "all", cwd=folder, timeout=180, REGRADE_PIN=PIN
    )
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    return folder


@pytest.fixture
def project(ran: Path) -> Iterator[Path]:
    """The same, with the task files as they ran."""
    yield ran
    for task_id in TASKS:
        write(ran, task_id)


def regraded(folder: Path, *arguments: str, code: int) -> dict[str, dict[str, Any]]:
    """Task id -> what came of it."""
    done = harness("regrade", "--json", *arguments, cwd=folder, REGRADE_PIN=PIN)
    assert done.returncode == code, done.stdout + done.stderr
    return {task["task_id"]: task for task in json.loads(done.stdout)["tasks"]}


def test_unchanged_criteria_come_to_what_they_came_to(project: Path) -> None:
    found = regraded(project, code=1)
    assert {task_id: (task["before"], task["now"]) for task_id, task in found.items()} == {
        "GOOD": ("pass", "undecided"),  # one of them compares a secret
        "BAD": ("fail", "fail"),
        "STOPPED": ("fail", "undecided"),
    }
    assert [each["now"] for each in found["GOOD"]["criteria"]] == ["held", "undecided"]
    assert "redacted" in found["GOOD"]["why"]
    assert [(each["before"], each["now"]) for each in found["BAD"]["criteria"]] == [
        ("unmet", "unmet"),
        ("held", "held"),
    ]
    assert "it ended in step 4 (ELEMENT_NOT_FOUND)" in found["STOPPED"]["why"]
    parts = {"found": "held", "typed": "held"}
    assert found["GOOD"]["score"] == {"before": 1.0, "now": 1.0, "parts": parts, "why": ""}


def test_a_criterion_that_was_too_lax_fails_the_task_that_passed(project: Path) -> None:
    criteria = ["count('.product-grid .product-item') == 5", "time_since('begun') < 2h"]
    write(project, "GOOD", success_criteria=criteria)
    found = regraded(project, code=1)["GOOD"]
    assert (found["before"], found["now"]) == ("pass", "fail")
    assert [(each["new"], each["now"]) for each in found["criteria"]] == [(True, "unmet"), (True, "held")]
    assert found["criteria"][0]["actual"] == 4
    assert found["gone"] == TASKS["GOOD"]["success_criteria"]


def test_a_criterion_that_was_wrong_passes_the_task_that_failed(project: Path) -> None:
    spec = write(project, "BAD", success_criteria=["mem('word') == 'wireless mouse'", "visible('#search-box')"])
    found = regraded(project, "errors/BAD", "--spec", str(spec), code=0)["BAD"]
    assert (found["before"], found["now"]) == ("fail", "pass")


def test_what_waits_or_was_not_kept_is_undecided_and_may_be_allowed(project: Path) -> None:
    write(project, "BAD", success_criteria=["EVENTUALLY(value('#search-box') == 'late')", "exists('#new')"])
    found = regraded(project, "errors/BAD", code=3)["BAD"]
    assert "one moment" in found["criteria"][0]["why"]
    assert "#new was not recorded" in found["criteria"][1]["why"]
    assert regraded(project, "errors/BAD", "--allow-undecided", code=0)["BAD"]["now"] == "undecided"


def test_a_task_that_never_came_to_its_criteria_is_judged_as_it_was_when_asked_to(project: Path) -> None:
    assert regraded(project, "errors/STOPPED", code=3)["STOPPED"]["now"] == "undecided"
    found = regraded(project, "errors/STOPPED", "--at-failure", code=0)["STOPPED"]
    assert found["now"] == "pass"
    assert "judged by the state when it ended in step 4" in found["why"]


def test_what_cannot_be_used_is_named_and_left_out(project: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(project / "errors", tmp_path / "errors")
    for name, file, content in (
        ("half", "manifest.json", '{"task_id": "half", "fin'),
        ("foreign", "manifest.json", '{"name": "app", "icons": []}'),
        ("reportless", "manifest.json", '{"task_id": "x", "final_state": "failed"}'),
        ("deep", "manifest.json", "[" * 100_000),
    ):
        (folder / name).mkdir()
        (folder / name / file).write_text(content, "utf-8")
    stranger = shutil.copytree(folder / "BAD", folder / "\x1b[31mred")
    manifest = json.loads((stranger / "manifest.json").read_text("utf-8"))
    (stranger / "manifest.json").write_text(json.dumps(manifest | {"source": "../../etc/passwd"}), "utf-8")
    done = harness("regrade", str(folder), cwd=project, REGRADE_PIN=PIN)
    assert done.returncode == 1, done.stderr
    left = [line for line in done.stdout.splitlines() if line.startswith("left out: ")]
    assert len(left) == 5
    for name, why in {
        "half": "Invalid JSON", "foreign": "task_id: Field required", "reportless": "error_report.json was not found",
        "deep": "Invalid JSON", "red": "name it with --spec",
    }.items():  # fmt: skip
        assert any(name in line and why in line for line in left), (name, left)
    assert "\x1b" not in done.stdout
    assert done.stdout.splitlines()[-1] == "2 tasks: 0 pass, 1 fail, 1 undecided, 5 left out"


def test_nothing_kept_is_secret_and_nothing_half(project: Path) -> None:
    kept = project / ".harness/evidence"
    assert [path.name for path in next(kept.iterdir()).iterdir()] == ["GOOD"]
    files = [path for place in (kept, project / "errors") for path in place.rglob("*") if path.is_file()]
    assert {"page_state.json", "memory_snapshot.json", "env_snapshot.json", "dom_snapshot.html", "manifest.json"} == {
        path.name for path in files if path.is_relative_to(kept)
    }
    assert [path for path in files if PIN.encode() in path.read_bytes()] == []
    assert PIN not in harness("regrade", "--json", cwd=project, REGRADE_PIN=PIN).stdout


def test_for_people_it_says_what_changed_and_why(project: Path) -> None:
    write(project, "GOOD", success_criteria=["count('.product-grid .product-item') == 5"])
    done = harness("regrade", cwd=project, REGRADE_PIN=PIN)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("pass -> fail"))
    assert lines[place + 1].strip() == "x count('.product-grid .product-item') == 5  (new)"
    assert lines[place + 2].strip() == "count('.product-grid .product-item') is 4, expected 5"
    assert lines[-1] == "3 tasks: 0 pass, 2 fail, 1 undecided (1 newly failing)"


def test_what_was_asked_wrongly_is_said(project: Path, tmp_path: Path) -> None:
    assert "there is no folder nowhere" in harness("regrade", "nowhere", cwd=project).stderr
    empty = harness("regrade", str(tmp_path), cwd=project)
    assert empty.returncode == 1
    assert "no evidence in" in empty.stderr
    assert "there is no such file" in harness("regrade", "errors", "--spec", "none.task.yaml", cwd=project).stderr
    spec = write(project, "BAD")
    done = harness("regrade", "errors", "--spec", str(spec), cwd=project)
    assert "no file of --spec has its task_id" in done.stdout


@pytest.mark.thorough
def test_every_command_of_the_guide_runs(project: Path) -> None:
    text = (ROOT / "docs/regrade.md").read_text("utf-8")
    commands = re.findall(r"^harness (regrade .*?)(?:\s+#.*)?$", text, re.MULTILINE)
    runs = sorted(path.name for path in (project / ".harness/evidence").iterdir())
    assert len(commands) >= 4
    for command in commands:
        words = command.replace("B1-2025-001", "BAD").replace("20251116T090000-4711", runs[0]).split()
        words = [word if word != "tasks/BAD.task.yaml" else "BAD.task.json" for word in words]
        done = harness(*words, cwd=project, REGRADE_PIN=PIN)
        assert done.returncode in (0, 1, 3), (command, done.stderr)
        assert done.stdout.strip(), command
        assert done.stderr == "", command
