"""The Settings of a session, its fault plans, and what of its command line may be stored."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from harness.model.settings import OPTIONS, Settings, SettingsError, load_settings, names
from harness.pytest_plugin.errors import TaskSpecWarning
from harness.pytest_plugin.foreign import given_elsewhere
from harness.pytest_plugin.options import TASK_OPTIONS
from harness.reporting.redaction import MARK, Redactor, is_secret_name
from harness.runner.compile import plans_of
from harness.spec.expressions import environment_names
from harness.spec.loaded import Loaded
from harness.spec.problems import Problem, SpecError


def settings_of(config: pytest.Config) -> Settings:
    """`[tool.harness]` overridden by the command line; raises UsageError for bad values.

    Each oddity of a fault plan becomes a warning.
    """
    try:
        settings = load_settings(config.rootpath, **_chosen_settings(config))
        oddities = check_plans(settings)
    except (SettingsError, SpecError) as error:
        raise pytest.UsageError(str(error)) from error
    for oddity in () if hasattr(config, "workerinput") else oddities:  # under xdist only the controller warns
        config.issue_config_time_warning(TaskSpecWarning(str(oddity)), 2)
    return settings


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
    problems: list[Problem] = []
    for loaded in plans_of(settings):
        from harness.faults.checks import Project, misplaced_in_plan  # not loaded in a session without faults

        problems += [*loaded.warnings, *misplaced_in_plan(loaded, Project(settings))]
    if errors := [each for each in problems if each.severity == "error"]:
        raise SpecError(errors)
    return problems


# The command line of a run without its secrets, so that it may be stored.

Hide = Callable[[str], str]


def redactor_of(settings: Settings, tasks: Sequence[Loaded], environ: Mapping[str, str]) -> Redactor:
    """A redactor for the secrets of tasks and settings, and for environment variables with secret names."""
    names = {name for task in tasks for name in environment_names(task.spec)}
    secrets = (value for name, value in environ.items() if name in names or is_secret_name(name))
    return Redactor.of(settings, secrets)


def without_secrets(arguments: Sequence[object], redactor: Redactor) -> Iterator[str]:
    """The arguments without secrets: an option with a secret name hides its value, after `=` or as the next word.

    Of the URLs of browser endpoints the hosts stay visible.
    """
    hide: Hide | None = None
    for argument in map(str, arguments):
        name, equals, value = argument.partition("=")
        hidden = _hiding_of(name)
        if hide and not argument.startswith("-"):
            yield hide(argument)
        elif hidden and equals:
            yield f"{name}={hidden(value)}"
        else:
            yield redactor.text(argument)
        hide = None if equals else hidden


def _hiding_of(option: str) -> Hide | None:
    """The text shown for the value of an option that may be secret."""
    if option in OPTIONS:
        return lambda urls: ",".join(names([url.strip() for url in urls.split(",") if url.strip()]))
    return (lambda _: MARK) if option.startswith("-") and is_secret_name(option) else None
