"""Faults from Python: three faults on the shipped tasks, the fixture, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.conftest import Project

TASKS = Path(__file__).parents[2] / "tasks"

SPECS_003 = """
import os

from harness import execute_task, inject, inject_network_failure, load_task, simulate_delayed_state_update


# Test timeout handling
def test_timeout_handling():
    inject({"kind": "hang", "url": "http://shop.local/api/search*", "step": 3})  # else the site is too fast for it
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
    assert execute_task(load_task("B1-2025-001")).final_state == "completed"  # the order that is returned
    # Simulate async state update (approved after 3 seconds)
    simulate_delayed_state_update("shop.returns.R-50001.state", "approved", delay=3, meanwhile="processing", step=9)

    task = load_task("C2-2025-002")
    result = execute_task(task)

    assert result.final_state == "completed"
    assert any(w.type == "assertion_retry_success" for w in result.warnings)
"""


@pytest.mark.thorough
def test_the_tests_of_the_specification(project: Project) -> None:
    shutil.copytree(TASKS, project.path / "tasks")
    (project.path / "test_specs_003.py").write_text(SPECS_003, "utf-8")
    project.run("test_specs_003.py").assert_outcomes(passed=3)


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
