"""Faults from Python: three faults on the shipped tasks, the fixture, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import Project

TASKS = Path(__file__).parents[2] / "tasks"
WAIT = {"act": "wait", "value": 0}

IMPORTS = """import os
from harness import execute_task, inject_network_failure, load_task, simulate_delayed_state_update

"""
SECTION_7_1 = """# Test timeout handling
def test_timeout_handling():
    task = load_task("B1-2025-001")
    task.step_timeout = 1  # Force timeout

    result = execute_task(task)
    assert result.final_state == "failed"
    assert result.error.error_type == "timeout_step"
    assert os.path.exists(f"errors/{task.task_id}/screenshot.png")

# Test network error recovery
def test_network_error_retry():
    inject_network_failure(duration=2000)  # Fail for 2 seconds

    task = load_task("D4-2025-003")
    result = execute_task(task)

    assert result.final_state == "completed"
    assert len(result.warnings) > 0
    assert result.warnings[0].type == "network_error_recovered"

# Test assertion retry
def test_assertion_retry():
    # Simulate async state update (approved after 3 seconds)
    simulate_delayed_state_update("return_state", "approved", delay=3)

    task = load_task("C2-2025-002")
    result = execute_task(task)

    assert result.final_state == "completed"
    assert any(w.type == "assertion_retry_success" for w in result.warnings)
"""
"""Word for word what the specification of error handling (003) has in its section 7.1."""


SLOW_PAGE = """
def test_no_machine_is_fast_enough_for_the_slow_page():
    task = load_task("B1-2025-001")
    task.step_timeout = 1
    assert execute_task(task).error.step_index <= 4  # the products that the shop asks its warehouse for
"""


@pytest.mark.thorough
def test_the_tests_of_the_specification_pass_word_for_word(project: Project) -> None:
    shutil.copytree(TASKS, project.path / "tasks")
    (project.path / "test_specs_003.py").write_text(IMPORTS + SECTION_7_1, "utf-8")
    (project.path / "test_then.py").write_text(IMPORTS + SLOW_PAGE, "utf-8")
    project.run("test_specs_003.py", "test_then.py").assert_outcomes(passed=4)


DEPENDING = """
from harness import execute_task, load_task


def test_what_a_task_depends_on_runs_first_and_once():
    results = [execute_task(load_task("LAST")) for _ in range(2)]
    assert [each.final_state for each in results] == ["completed"] * 2
    counts = [each.memory["count"] for each in results]
    assert counts == [1, 1]


def test_a_task_whose_dependency_does_not_pass_is_not_run():
    result = execute_task(load_task("AFTER-BAD"))
    assert (result.ok, result.final_state, len(result.history)) == (False, "aborted", 0)
    assert result.skipped.startswith("depends on BAD, which did not pass: ")
    result = execute_task(load_task("LOST"))
    assert result.skipped.startswith("depends on NOBODY, which no task file below ")
"""


def test_execute_task_runs_what_a_task_depends_on(project: Project) -> None:
    episode = {"episode_id": "E", "steps": [WAIT]}
    count = {"act": "assert", "expr": "mem('first') == 'x'", "remember": {"count": "1"}}
    made = [
        project.task("FIRST", **episode, memory={"first": "x"}),
        project.task("MIDDLE", **episode, dependencies=["FIRST"]),
        project.task("LAST", **{**episode, "steps": [count]}, dependencies=["MIDDLE"]),
        project.task("BAD", steps=[WAIT], success_criteria=["exists('#nowhere')"]),
        project.task("AFTER-BAD", steps=[WAIT], dependencies=["BAD"]),
        project.task("LOST", steps=[WAIT], dependencies=["NOBODY"]),
    ]
    (project.path / "tasks").mkdir()
    for path in made:
        path.rename(project.path / "tasks" / path.name)
    (project.path / "test_depending.py").write_text(DEPENDING, "utf-8")
    project.run("test_depending.py").assert_outcomes(passed=2)


FIXTURE = """
import pytest

from harness import InjectionError, clear_faults, execute_task, inject, inject_network_failure, load_task

REFUSE = {"kind": "refuse", "host": "shop.local", "connections": 1}


def kinds(result):
    assert result.final_state == "completed", result.failure
    return [each.fault.kind for each in result.faults], [each.count for each in result.faults]


def test_the_fixture_lasts_for_the_test(inject_fault):
    inject_fault(REFUSE)
    for _ in range(2):
        assert kinds(execute_task(load_task("A-1"))) == (["refuse"], [1])
    with inject_fault(REFUSE):
        assert kinds(execute_task(load_task("A-1")))[0] == ["refuse", "refuse"]
    assert kinds(execute_task(load_task("A-1")))[0] == ["refuse"]


def test_and_no_longer():
    assert kinds(execute_task(load_task("A-1"))) == ([], [])
    inject(REFUSE)  # nobody meets it here


def test_what_a_test_has_left_behind_is_gone():
    assert kinds(execute_task(load_task("A-1"))) == ([], [])


def test_the_next_task_only_unless_it_is_a_block():
    inject(REFUSE)
    assert kinds(execute_task(load_task("A-1"))) == (["refuse"], [1])
    assert kinds(execute_task(load_task("A-1"))) == ([], [])
    with inject_network_failure(duration=300, host="shop.local"):
        for _ in range(2):
            assert kinds(execute_task(load_task("A-1")))[0] == ["refuse"]
    assert kinds(execute_task(load_task("A-1"))) == ([], [])
    inject(REFUSE)
    clear_faults()
    assert kinds(execute_task(load_task("A-1"))) == ([], [])


def test_what_cannot_be_is_refused_and_stays_for_no_other_task():
    with pytest.raises(InjectionError, match="did you mean `refuse`"):
        inject({"kind": "refused"})
    with pytest.raises(InjectionError, match="no host `shop.loca`"), inject_network_failure(host="shop.loca"):
        execute_task(load_task("A-1"))
    with pytest.raises(ValueError, match="there is no step 7: A-1 has the steps 0 to 0"), inject({**REFUSE, "step": 7}):
        execute_task(load_task("A-1"))
    assert kinds(execute_task(load_task("A-1"))) == ([], [])


def test_one_that_fails_says_why(inject_fault):
    inject_fault({"kind": "missing", "selector": "a[b="})
    assert execute_task(load_task("A-1")).final_state == "completed"
"""


@pytest.mark.thorough
def test_fixture_block_and_next_task(project: Project) -> None:
    task = project.task("A-1")
    (project.path / "tasks").mkdir()
    task.rename(project.path / "tasks" / task.name)
    (project.path / "test_faults.py").write_text(FIXTURE, "utf-8")
    result = project.run("test_faults.py")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- task A-1 -*",
            "A-1 failed: INVALID_INPUT *",
            "*hint*Fix the fault `missing` (injected from Python)*",
        ]
    )


def test_the_fixture_is_told_of(project: Project) -> None:
    result = project.run("--fixtures", "-q")
    result.stdout.fnmatch_lines(["inject_fault*"])


NO_HOSTS = """
import pytest
from harness import InjectionError, inject_network_failure

def test_no_hosts():
    with pytest.raises(InjectionError, match="no hosts in .tool.harness.services"):
        inject_network_failure()
"""


def test_a_project_without_services_is_told_what_else_there_is(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("")
    pytester.makepyfile(NO_HOSTS)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:hypothesispytest").assert_outcomes(passed=1)
