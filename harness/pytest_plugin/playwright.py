"""pytest-playwright's `page`: the browser that tasks have, and the hosts of the services."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.model.settings import BrowserSettings
from harness.pytest_plugin.ordinary_tests import started, wanted
from harness.pytest_plugin.state import STATE

OWN_CHOICES = ("executable_path", "channel")
"""Launch options by which a project says itself which browser it wants."""


@pytest.fixture(scope="session")
def launch_browser(
    launch_browser: Callable[..., Any],
    browser_type: Any,
    browser_type_launch_args: Mapping[str, Any],
    connect_options: Mapping[str, Any] | None,
    pytestconfig: pytest.Config,
) -> Callable[..., Any]:
    """As pytest-playwright has it; where Playwright's own Chromium is not installed, with the system's."""
    if connect_options or browser_type.name != "chromium":
        return launch_browser

    def launch(**options: Any) -> Any:
        all_options, settings = {**browser_type_launch_args, **options}, pytestconfig.stash[STATE].settings.browser
        own = Path(browser_type.executable_path)
        return launch_browser(**{**missing(all_options, settings, own, os.environ), **options})

    return launch


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], browser_name: str, pytestconfig: pytest.Config
) -> dict[str, Any]:
    """As pytest-playwright has them, and with `services_for = "session"` the hosts of the services."""
    if browser_name != "chromium" or not wanted(pytestconfig):
        return browser_type_launch_args
    from harness.browser.domains import resolver_rules

    rules = f"--host-resolver-rules={resolver_rules(started(pytestconfig).hosts, {})}"
    return {**browser_type_launch_args, "args": [*browser_type_launch_args.get("args", ()), rules]}


def missing(
    options: Mapping[str, Any], settings: BrowserSettings, own: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The launch option that is needed beside `options`; empty when Playwright finds a browser by itself."""
    from harness.browser.executable import find  # Playwright is loaded only in a session that needs it
    from harness.recovery.failure import Failed

    if any(options.get(name) for name in OWN_CHOICES):
        return {}
    wanted = BrowserSettings(headed=options.get("headless") is False)
    try:
        find(wanted, own, {}, which=lambda _: None)
    except Failed:
        pass
    else:
        return {}
    try:
        return {
            "executable_path": str(
                find(wanted.model_copy(update={"executable": settings.executable}), own, environment)
            )
        }
    except Failed:
        return {}  # Playwright says what to install
