"""Decides whether the run is reported to a CI system; only then the code for it is loaded (`ci_page`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.pytest_plugin.role import role_of

SUMMARY_OPTION = "--task-summary"
"""`--task-summary FILE`: a run as Markdown, for the page of a CI job."""
_OTHER_ANNOTATOR = "pytest_github_actions_annotate_failures"
"""A plugin that annotates every failed test, at the first line of its file."""


def asked_for(config: pytest.Config) -> bool:
    """Return whether this process, which is no worker of xdist, reports its run to a CI system."""
    return role_of(config).reports and (place(config) is not None or is_wanted(config))


def is_wanted(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to annotate: in GitHub Actions unless the other plugin does it, and wherever it is requested."""
    if config.getoption("--task-github-annotations"):
        return True
    return environment.get("GITHUB_ACTIONS") == "true" and not config.pluginmanager.hasplugin(_OTHER_ANNOTATOR)


def place(config: pytest.Config) -> Path | None:
    """The file for the summary, relative to the folder where pytest was started."""
    given = config.getoption(SUMMARY_OPTION)
    return Path(config.invocation_params.dir, given) if given else None
