"""Failures of tasks as annotations of their files in GitHub's pull requests."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.pytest_plugin.role import role_of

if TYPE_CHECKING:
    from harness.reporting.markdown import Page
    from harness.reporting.triage import Cause

_ANNOTATIONS_OPTION = "--task-github-annotations"
_OTHER_ANNOTATOR = "pytest_github_actions_annotate_failures"
"""A plugin that annotates every failed test, at the first line of its file."""


def is_wanted(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to annotate: in GitHub Actions unless the other plugin does it, and wherever it is requested."""
    if config.getoption(_ANNOTATIONS_OPTION):
        return True
    return environment.get("GITHUB_ACTIONS") == "true" and not config.pluginmanager.hasplugin(_OTHER_ANNOTATOR)


def annotate(terminal: Any, causes: Sequence[Cause], environment: Mapping[str, str] = os.environ) -> None:
    """Write the annotations to the log of the job, where GitHub reads them."""
    from harness.reporting.markdown import commands, line_of  # not loaded in a session without these options

    terminal.ensure_newline()
    for command in commands(causes, partial(line_of, environment=environment)):
        terminal.write_line(command)


# Decides whether the run is reported to a CI system; only then the code for it is loaded.


def asked_for(config: pytest.Config) -> bool:
    """Return whether this process, which is no worker of xdist, reports its run to a CI system."""
    return role_of(config).reports and (place(config) is not None or is_wanted(config))


# `--task-summary FILE`: a run as Markdown, for the page of a CI job.

SUMMARY_OPTION = "--task-summary"


def place(config: pytest.Config) -> Path | None:
    """The requested file, relative to the folder where pytest was started."""
    given = config.getoption(SUMMARY_OPTION)
    return Path(config.invocation_params.dir, given) if given else None


def append(file: Path, page: Page) -> None:
    """Append the page to the file: GitHub collects a step's pages in one. Raises OSError if it cannot be written."""
    from harness.reporting.markdown import LIMIT, markdown  # not loaded in a session without these options

    there = file.stat().st_size if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(markdown(page, LIMIT - there))
