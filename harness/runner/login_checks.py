"""The tasks that find out whether a login is valid, made from its settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.model.settings import LoginSettings
from harness.recovery import Rulebook
from harness.spec.defaults import Defaults, with_defaults
from harness.spec.steps import Open
from harness.spec.task import TaskSpec

_USUAL_CHECK_SECONDS = 3.0
"""Seconds for `holds`, where neither the login nor the tasks of the project name a time."""
_LIMITS = ("timeout_profile", "timeout", "step_timeout", "expect_timeout")


def limits_of(defaults: Iterable[Defaults]) -> dict[str, Any]:
    """The time limits that a project sets for all its tasks: they are the limits of its logins too."""
    return {name: value for name, value in with_defaults({}, defaults).items() if name in _LIMITS}


def login_checks(name: str, declared: LoginSettings, made: TaskSpec, scale: float) -> tuple[TaskSpec, TaskSpec]:
    """The check before a login is used, and the one after it was made, with the limits of the task that logs in.

    Only the first ends with `lost_when`: right after a login an application may show its form for a moment, and a login
    that holds must not fail because of that.
    """
    seconds = declared.check_timeout
    if seconds is None:
        seconds = max(_USUAL_CHECK_SECONDS, made.expect_timeout)
    limits = {each: getattr(made, each) for each in _LIMITS if each in made.model_fields_set}
    keys = {**limits, "allowed_domains": made.allowed_domains, "browser": made.browser, "expect_timeout": seconds}
    steps, holds = (Open(url=declared.check_url),), (declared.holds,)
    before, after = f"{name}-is-valid", f"{name}-holds"
    quiet = Rulebook(capture="none")
    proof = TaskSpec(task_id=after, steps=steps, success_criteria=holds, **keys)
    if declared.lost_when is None:
        return TaskSpec(task_id=before, steps=steps, success_criteria=holds, error_recovery=quiet, **keys), proof
    decided = f"WITHIN({seconds * scale:g}, ANY[{declared.holds}, {declared.lost_when}])"
    keys["expect_timeout"] = 0
    both = (decided, *holds)
    return TaskSpec(task_id=before, steps=steps, success_criteria=both, error_recovery=quiet, **keys), proof
