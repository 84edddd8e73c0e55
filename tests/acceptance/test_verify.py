"""`harness verify`: each task as written, and with no steps at all."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness

OPEN = {"act": "open", "url": "http://shop.local/"}
REAL = ["exists('#search-box')"]


def verify(project: Project, *args: str) -> subprocess.CompletedProcess[str]:
    return harness("verify", *(args or (".",)), cwd=project.path)


class Verified(NamedTuple):
    """The one call that most tests look at."""

    project: Project
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Verified:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("verify"))), sites)
    project.task("SOUND", success_criteria=REAL)
    project.task("OPEN", steps=[], success_criteria=REAL)
    project.task("NAMED", agent="manual", success_criteria=REAL)
    project.task("HOLLOW", success_criteria=["json('env', 'shop.orders.O-9') == null"])
    project.task("BARE")
    project.task("WRONG", success_criteria=["exists('#nothing-like-it')"])
    steps = [OPEN, {"act": "click", "selector": "#nothing-like-it"}]
    expect = {"final_state": "failed", "error_type": "element_not_found", "step_index": 1}
    project.task("RED", steps=steps, expect=expect)
    project.task("OTHER", steps=steps, expect={**expect, "error_type": "timeout_step"})
    rules = {"on_precondition_fail": "skip_task"}
    project.task("OUT", preconditions=["mem('a') == 1"], error_recovery=rules, success_criteria=REAL)
    return Verified(project, verify(project, ".", "--task-workers", "2"))


@pytest.mark.thorough
def test_a_sound_task(project: Project) -> None:
    project.task("SOUND", success_criteria=REAL)
    done = verify(project)
    assert (done.returncode, done.stdout) == (0, "SOUND: sound\n1 task, 1 sound\n")
    assert not list((project.path / "errors").glob("SOUND*"))


def test_of_a_task_without_steps_or_with_an_agent_of_its_own_only_doing_nothing_is_tried(verified: Verified) -> None:
    assert "OPEN: sound\n" in verified.done.stdout
    assert "NAMED: sound\n" in verified.done.stdout
    assert verified.done.stdout.endswith("9 tasks, 4 sound\n2 without steps: the agent was not tried\n")


def test_a_task_that_passes_for_doing_nothing(verified: Verified) -> None:
    assert verified.done.returncode == 1
    assert "HOLLOW: NOT SOUND\n  with no steps: it passes, so it tests nothing\n" in verified.done.stdout
    assert "holds before anything is done: json('env', 'shop.orders.O-9') == null" in verified.done.stdout


def test_without_criteria_a_task_tests_nothing(verified: Verified) -> None:
    assert "BARE: NOT SOUND\n  with no steps: it passes" in verified.done.stdout


@pytest.mark.thorough
def test_a_single_idle_criterion_is_named(project: Project) -> None:
    project.task("MIXED", success_criteria=[*REAL, "json('env', 'shop.orders.O-9') == null"])
    done = verify(project)
    assert done.returncode == 0
    assert "  holds before anything is done: json('env', 'shop.orders.O-9') == null\n" in done.stdout
    assert "#search-box" not in done.stdout


def test_a_task_that_fails_as_written(verified: Verified) -> None:
    said = verified.done.stdout
    assert "WRONG: NOT SOUND\n  as written: failed: Assertion failed: exists('#nothing-like-it')" in said
    assert "; harness show WRONG\n" in said
    assert verified.project.report("WRONG")["code"] == "CRITERIA_UNMET"


def test_a_declared_failure_is_what_must_be_shown(verified: Verified) -> None:
    said = verified.done.stdout
    assert "RED: sound\n" in said
    assert "OTHER: NOT SOUND\n  as written: did not end as it declares: error_type: expected timeout_step" in said


@pytest.mark.thorough
def test_the_earlier_tasks_of_an_episode_have_run_before(project: Project) -> None:
    wait = {"act": "wait", "selector": "#search-box", "remember": {"seen": "count('#search-box')"}}
    project.task("A-LATER", episode_id="e", priority=5, preconditions=["mem('seen') == 1"], success_criteria=REAL)
    project.task("B-EARLIER", episode_id="e", priority=1, steps=[OPEN, wait], success_criteria=["mem('seen') == 1"])
    project.task("C-ALONE", preconditions=["mem('seen') == 1"], success_criteria=REAL)
    done = verify(project)
    assert "A-LATER: sound\n" in done.stdout
    assert "B-EARLIER: sound\n" in done.stdout
    assert "C-ALONE: NOT SOUND" in done.stdout


@pytest.mark.thorough
def test_what_a_task_depends_on_has_run_before(project: Project) -> None:
    wait = {"act": "wait", "selector": "#search-box", "remember": {"seen": "count('#search-box')"}}
    project.task("FIRST", episode_id="e", steps=[OPEN, wait], success_criteria=["mem('seen') == 1"])
    second = {"dependencies": ["FIRST"], "episode_id": "e", "preconditions": ["mem('seen') == 1"]}
    project.task("SECOND", **second, success_criteria=REAL)
    project.task("LAZY", **second, success_criteria=["mem('seen') == 1"])
    done = verify(project)
    assert "FIRST: sound\n" in done.stdout
    assert "SECOND: sound\n" in done.stdout
    assert "LAZY: NOT SOUND\n  with no steps: it passes" in done.stdout


@pytest.mark.thorough
def test_broken_files_are_told_of_and_the_others_are_tried_on_their_first_page_too(project: Project) -> None:
    (project.path / "bad.task.yaml").write_text("task_id: a\nsteps: [{act: clik}]\n", "utf-8")
    done = verify(project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: bad.task.yaml:2:15: steps[0].act: not a known act" in done.stderr
    typing = [OPEN, {"act": "type", "selector": "#search-box", "value": "x"}]
    project.task("WEAK", steps=typing, success_criteria=[*REAL, "value('#search-box') == 'x'"])
    project.task("IDLE", steps=typing, success_criteria=REAL)
    done = verify(project)
    assert done.returncode == 1
    assert (
        "WEAK: sound\n  holds on the first page, before anything is done there: exists('#search-box')\n" in done.stdout
    )
    assert (
        "IDLE: NOT SOUND\n  with its first page opened and nothing done there: it passes, so it tests nothing\n"
        in done.stdout
    )
    assert done.stdout.endswith("2 tasks, 1 sound\n1 with errors, not tried: bad.task.yaml\n")


@pytest.mark.thorough
def test_a_dependency_may_be_named_by_its_file_or_its_folder(project: Project) -> None:
    steps = [{**OPEN, "remember": {"case": "'${param.case}'"}}]
    project.task("FIRST", episode_id="E", parametrize={"case": ["a", "b"]}, steps=steps, success_criteria=REAL)
    project.task("INNER", episode_id="E", steps=[{**OPEN, "remember": {"seen": "'yes'"}}], success_criteria=REAL)
    folder = project.path / "of-a-folder"
    folder.mkdir()
    (project.path / "INNER.task.json").rename(folder / "task_spec.json")
    done_by_others = ["mem('case') == 'b'", "mem('seen') == 'yes'"]
    criteria = [*REAL, *done_by_others]
    project.task("AFTER", episode_id="E", dependencies=["FIRST", "of-a-folder"], success_criteria=criteria)
    done = verify(project)
    assert done.returncode == 0, done.stdout
    assert "AFTER: sound\n" in done.stdout


def test_settings_that_cannot_be_met_are_one_line(project: Project) -> None:
    project.task("SOUND", success_criteria=REAL)
    (project.path / "pyproject.toml").write_text('[tool.harness]\nredact = ["("]\n', "utf-8")
    done = verify(project)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("`redact` pattern '(': ")
    assert "Traceback" not in done.stderr


def test_a_task_that_leaves_itself_out_is_said_to_be_skipped(verified: Verified) -> None:
    assert "  as written: skipped: Precondition not met" in verified.done.stdout
