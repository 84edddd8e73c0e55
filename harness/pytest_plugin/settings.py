"""The Settings of a session, with the fault plans of its run."""

from __future__ import annotations

import os
from typing import Any

import pytest

from harness.model.settings import Settings, load_settings
from harness.model.settings_errors import SettingsError
from harness.pytest_plugin.errors import TaskSpecWarning
from harness.pytest_plugin.foreign import given_elsewhere
from harness.pytest_plugin.options import TASK_OPTIONS, chosen_profiles
from harness.pytest_plugin.role import role_of
from harness.spec.context import known_device
from harness.spec.problems import Problem, SpecError, did_you_mean


def settings_of(config: pytest.Config) -> Settings:
    """`[tool.harness]` overridden by the command line; raises UsageError for bad values.

    Each oddity of a fault plan becomes a warning.
    """
    try:
        chosen = _chosen_settings(config)
        _check_device(chosen.get("browser", {}).get("device"))
        settings = load_settings(config.rootpath, **chosen)
        _check_profiles(config, settings, device="device" in chosen.get("browser", {}))
        oddities = check_plans(settings)
    except (SettingsError, SpecError) as error:
        raise pytest.UsageError(str(error)) from error
    for oddity in oddities if role_of(config).reports else ():
        config.issue_config_time_warning(TaskSpecWarning(str(oddity)), 2)
    return settings


def _check_device(name: str | None) -> None:
    """Raises UsageError for a `--device` that Playwright does not have."""
    try:
        known_device(name) if name else None
    except ValueError as error:
        raise pytest.UsageError(f"--device {name}: {error}") from error


def _check_profiles(config: pytest.Config, settings: Settings, *, device: bool) -> None:
    """Raises UsageError for a `--browser-profile` that the project does not have, or for two devices.

    `device`: whether the command line has one.
    """
    known = settings.browser.profiles
    for name in chosen_profiles(config):
        if name not in known:
            hint = did_you_mean(name, known) or f"known: {', '.join(sorted(known)) or 'none'}"
            message = f"--browser-profile {name}: [tool.harness.browser.profiles] has no profile of this name ({hint})"
            raise pytest.UsageError(message)
        if known[name].device is not None and device:
            raise pytest.UsageError(f"--browser-profile {name}: this profile has a device, so leave out --device")


def _chosen_settings(config: pytest.Config) -> dict[str, Any]:
    """The settings from the command line. Options of other plugins count where ours are not given."""
    chosen: dict[str, Any] = {}
    if executable := os.environ.get("HARNESS_BROWSER_EXECUTABLE"):
        _put_at(chosen, "browser.executable", executable)
    for setting, value in given_elsewhere(config):
        _put_at(chosen, setting, value)
    for option in TASK_OPTIONS:
        value = config.getoption(option.dest)
        if option.setting and value is not None and value is not False:
            _put_at(chosen, option.setting, option.turn(config, value))
    return chosen


def _put_at(table: dict[str, Any], path: str, value: object) -> None:
    first, _, rest = path.partition(".")
    if rest:
        _put_at(table.setdefault(first, {}), rest, value)
    else:
        table[first] = value


def check_plans(settings: Settings) -> list[Problem]:
    """Check that the fault plans of the run can be used, and fit its project; returns warnings. Raises SpecError."""
    if not settings.faults:
        return []
    from harness.faults.checks import Project, misplaced_in_plan  # not loaded in a session without fault plans
    from harness.runner.compile import plans_of

    problems: list[Problem] = []
    for loaded in plans_of(settings):
        problems += [*loaded.warnings, *misplaced_in_plan(loaded, Project(settings))]
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    return problems
