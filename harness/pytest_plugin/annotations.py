"""Failures of tasks beside the lines of their files, in GitHub's pull requests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.reporting.triage import Cause

OPTION = "--task-github-annotations"
OTHER = "pytest_github_actions_annotate_failures"
"""A plugin that annotates every failed test, at the first line of its file."""


def is_wanted(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> bool:
    """In GitHub Actions, unless the other plugin does it; and wherever it is asked for."""
    if config.getoption(OPTION):
        return True
    return environment.get("GITHUB_ACTIONS") == "true" and not config.pluginmanager.hasplugin(OTHER)


def annotate(terminal: Any, causes: Sequence[Cause], environment: Mapping[str, str] = os.environ) -> None:
    """To the log of the job, where GitHub looks for them."""
    from harness.reporting.markdown import commands, line_of  # not loaded in a session that nobody asked this of

    terminal.ensure_newline()
    for command in commands(causes, partial(line_of, environment=environment)):
        terminal.write_line(command)
