"""Back to a checkpoint on the demo sites: what was done before it is not done again, and everything is as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Project

TASKS = Path(__file__).parents[2] / "tasks"
UPLOADS, SENT = (8, 9, 10), 11
"""Steps of the renewal: the files are chosen, and their form is sent."""
TIMES_OUT = 18
HANG = {"kind": "hang", "url": "http://gov.local/api/slots*", "times": 1, "step": 17}


def _renewal(project: Project, **changes: Any) -> dict[str, Any]:
    """The shipped task, with changes, in a project of its own. Returns it."""
    shutil.copytree(TASKS / "files", project.path / "files")
    spec: dict[str, Any] = yaml.safe_load((TASKS / "H3-2025-004-ERROR-CHECKPOINT.task.yaml").read_text("utf-8"))
    spec |= changes
    (project.path / "renewal.task.json").write_text(json.dumps(spec), "utf-8")
    return spec


def _record(project: Project) -> dict[str, Any]:
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    record: dict[str, Any] = document["results"][0]
    return record


def _allure_steps(project: Project) -> list[str]:
    (path,) = (project.path / "allure").glob("*-result.json")
    return [step["name"] for step in json.loads(path.read_text("utf-8"))["steps"]]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "before", [SENT + 1, *(pytest.param(each, marks=pytest.mark.thorough) for each in (SENT, UPLOADS[1]))]
)
def test_the_files_are_not_chosen_again(project: Project, before: int) -> None:
    """The checkpoint lies after the form with the files was sent, between choosing and sending, or among the files."""
    _renewal(project, checkpoints=[before])
    project.run("--alluredir", "allure").assert_outcomes(passed=1)
    record, steps = _record(project), _allure_steps(project)
    assert [warning["type"] for warning in record["warnings"]] == ["checkpoint_restored", "timeout_escalated"]
    assert record["warnings"][0]["step_index"] == TIMES_OUT
    for number in range(TIMES_OUT):
        times = sum(step.startswith(f"{number}. ") for step in steps)
        assert times == (1 if number < before else 2), (number, steps)


@pytest.mark.thorough
def test_the_nearest_of_several_checkpoints_is_taken_and_what_was_remembered_since_is_forgotten(
    project: Project,
) -> None:
    steps = [
        {"act": "open", "url": "http://shop.local/search?q=mouse", "remember": {"first": "'yes'"}},
        {"act": "type", "selector": "#filter-max-price", "value": "30"},
        {"act": "assert", "expr": "mem('late') == null", "remember": {"late": "'yes'"}},
        {"act": "open", "url": "http://shop.local/search?q=keyboard"},
        {"act": "wait", "selector": ".product-item", "timeout": 2},
    ]
    project.task(
        "A-1",
        steps=steps,
        checkpoints=[0, 2, 99],
        error_recovery={"on_timeout": "retry_from_checkpoint"},
        faults=[{"kind": "hang", "url": "http://shop.local/api/search?q=keyboard*", "times": 1, "step": 3}],
        success_criteria=["mem('first') == 'yes'", "mem('late') == 'yes'"],
    )
    project.run().assert_outcomes(passed=1)
    warning, _ = _record(project)["warnings"]
    assert (warning["type"], warning["checkpoint"]) == ("checkpoint_restored", 2)


@pytest.mark.thorough
def test_the_second_timeout_ends_the_task_and_the_screen_says_what_was_tried(project: Project) -> None:
    _renewal(project, faults=[{**HANG, "times": 2}], expect=None)
    result = project.run()
    result.assert_outcomes(failed=1)
    report, text = project.report("H3-2025-004-ERROR-CHECKPOINT"), result.stdout.str()
    assert (report["code"], report["step_index"]) == ("STEP_TIMEOUT", TIMES_OUT)
    assert report["error_message"].endswith("the limits were already extended once")
    assert "exceeded 3s" in report["error_message"]  # 2 s, stretched by half
    assert "WENT BACK" in text
    assert "checkpoint before step 12" in text


@pytest.mark.parametrize(
    ("checkpoints", "options", "message"),
    [
        ([], [], "there is no checkpoint at or before step 18"),
        ([12], ["--task-no-recovery"], "exceeded 2s"),
    ],
)
@pytest.mark.thorough
def test_without_a_checkpoint_or_without_recovery_the_first_timeout_ends_the_task(
    project: Project, checkpoints: list[int], options: list[str], message: str
) -> None:
    _renewal(project, checkpoints=checkpoints, expect=None)
    result = project.run(*options)
    result.assert_outcomes(failed=1)
    assert "WENT BACK" not in result.stdout.str()
    assert message in project.report("H3-2025-004-ERROR-CHECKPOINT")["error_message"]
