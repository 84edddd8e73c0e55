"""`--task-summary FILE`: a run as Markdown, for the page of a CI job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.model.settings import Settings
from harness.reporting.files import shown_path

if TYPE_CHECKING:
    from harness.reporting.markdown import Page

OPTION = "--task-summary"


def place(config: pytest.Config) -> Path | None:
    """The file that was asked for, relative to where pytest was started."""
    given = config.getoption(OPTION)
    return Path(config.invocation_params.dir, given) if given else None


def append(file: Path, page: Page) -> None:
    """To what is there: GitHub collects the pages of a step in one file. OSError when it cannot be written."""
    from harness.reporting.markdown import LIMIT, markdown  # not loaded in a session that nobody asked this of

    there = file.stat().st_size if file.exists() else 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(markdown(page, LIMIT - there))


def report_lines(config: pytest.Config, settings: Settings, failed: bool) -> Iterator[tuple[str, str]]:
    """What people can open, and where it is."""
    if failed:
        yield "artifacts of each failure", shown_path(settings.artifacts)
        yield "read one", "harness show TASK_ID"
    if alluredir := config.getoption("--alluredir", None):
        yield "Allure results", str(alluredir)
    if junit := config.getoption("--junitxml", None):
        yield "JUnit", str(junit)
