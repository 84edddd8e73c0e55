"""Which browser pytest-playwright's `page` is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.model.browser_settings import BrowserSettings
from harness.pytest_plugin.playwright import missing_option


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", "utf-8")
    path.chmod(0o755)
    return path


def own(folder: Path) -> Path:
    return folder / "chromium-1" / "chrome-linux" / "chrome"


def test_without_playwrights_own_browser_it_is_the_one_of_the_tasks(tmp_path: Path) -> None:
    system = executable(tmp_path / "chromium")
    settings = BrowserSettings(executable=str(system))
    assert missing_option({}, lambda: settings, own(tmp_path), {}) == {"executable_path": str(system)}


@pytest.mark.parametrize("options", [{"channel": "chrome"}, {"executable_path": "/x"}])
def test_a_browser_that_the_project_names_stays(tmp_path: Path, options: dict[str, Any]) -> None:
    settings = BrowserSettings(executable=str(executable(tmp_path / "chromium")))
    assert missing_option(options, lambda: settings, own(tmp_path), {}) == {}


def test_playwrights_own_browser_is_left_to_playwright(tmp_path: Path) -> None:
    settings = BrowserSettings(executable=str(executable(tmp_path / "chromium")))
    assert missing_option({"headless": False}, lambda: settings, executable(own(tmp_path)), {}) == {}


def test_where_no_browser_is_playwright_says_what_to_install(tmp_path: Path) -> None:
    assert missing_option({}, lambda: BrowserSettings(executable="/nowhere/chromium"), own(tmp_path), {}) == {}
