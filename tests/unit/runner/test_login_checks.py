"""The checks of a login: their time limits, and when they end."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.settings import LoginSettings
from harness.runner.compile import limits_of, login_checks
from harness.spec.defaults import Defaults
from harness.spec.steps import Open
from harness.spec.task import TaskSpec


def declared(**more: Any) -> LoginSettings:
    steps = ({"act": "open", "url": "/login"},)
    return LoginSettings.model_validate({"steps": steps, "check_url": "/", "holds": "exists('#out')", **more})


def made(**more: Any) -> TaskSpec:
    return TaskSpec(task_id="IN", steps=(Open(url="/login"),), **more)


@pytest.mark.parametrize(
    ("own", "of_task", "seconds"), [({}, {}, 3), ({}, {"expect_timeout": 20}, 20), ({"check_timeout": 1}, {}, 1)]
)
def test_the_time_for_holds_follows_the_limits_of_the_project(
    own: dict[str, Any], of_task: dict[str, Any], seconds: float
) -> None:
    check, proof = login_checks("ann", declared(**own), made(step_timeout=50, **of_task), 1)
    assert (check.expect_timeout, proof.expect_timeout) == (seconds, seconds)
    assert (check.step_timeout, proof.step_timeout) == (50, 50)


def test_only_the_check_before_a_use_ends_with_the_form_of_the_login_and_leaves_nothing() -> None:
    check, proof = login_checks("ann", declared(lost_when="exists('#form')"), made(expect_timeout=5), 2)
    assert check.success_criteria == ("WITHIN(10, ANY[exists('#out'), exists('#form')])", "exists('#out')")
    assert (check.expect_timeout, proof.expect_timeout) == (0, 5)
    assert proof.success_criteria == ("exists('#out')",)
    assert (check.error_recovery.capture, proof.error_recovery.capture) == ("none", "all")


def test_a_login_of_steps_has_the_limits_of_the_project_and_nothing_else_of_its_defaults() -> None:
    table = {"step_timeout": 60, "expect_timeout": 9, "login": "ann", "tags": ["slow"]}
    assert limits_of([Defaults.model_validate(table)]) == {"step_timeout": 60, "expect_timeout": 9}
