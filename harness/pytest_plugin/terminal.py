"""What the terminal shows: a live line while a task runs, and the summary of the tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.reporting.console import Progress, summary_lines

from harness.settings import Settings


def live_progress(config: pytest.Config) -> Progress:
    """A live line where a person looks at a terminal; silence under xdist, `-q`, and in logs."""
    worker = hasattr(config, "workerinput") or bool(config.getoption("numprocesses", None))
    live = sys.stdout.isatty() and not worker and config.get_verbosity() >= 0
    return Progress(_writer(config) if live else None)


def _writer(config: pytest.Config) -> Callable[[str], None]:
    def write(text: str) -> None:
        capture = config.pluginmanager.getplugin("capturemanager")
        reporter: Any = config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return
        if capture is None:
            reporter.write(text, flush=True)
            return
        with capture.global_and_fixture_disabled():
            reporter.write(text, flush=True)

    return write


def write_summary(
    terminalreporter: Any, summaries: list[dict[str, Any]], settings: Settings, alluredir: str | None
) -> None:
    terminalreporter.section("tasks")
    for line in summary_lines(summaries, root=settings.root, artifacts=settings.artifacts, allure=_path(alluredir)):
        terminalreporter.write_line(line)


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None
