"""pytest-playwright's `page`: with the browser of the tasks, and the hosts of the services."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.pytest_plugin.activation import session_state
from harness.pytest_plugin.ordinary_tests import start_services, uses_services

if TYPE_CHECKING:
    from harness.model.browser_settings import BrowserSettings

_OWN_CHOICES = ("executable_path", "channel")
"""Launch options by which a project chooses its browser itself."""


@pytest.fixture(scope="session")
def launch_browser(
    launch_browser: Callable[..., Any],
    browser_type: Any,
    browser_type_launch_args: Mapping[str, Any],
    connect_options: Mapping[str, Any] | None,
    pytestconfig: pytest.Config,
) -> Callable[..., Any]:
    """pytest-playwright's fixture, with the system's Chromium if Playwright's own is not installed."""
    if connect_options or browser_type.name != "chromium":
        return launch_browser

    def launch(**options: Any) -> Any:
        all_options, own = {**browser_type_launch_args, **options}, Path(browser_type.executable_path)
        missing = missing_option(all_options, lambda: session_state(pytestconfig).settings.browser, own, os.environ)
        return launch_browser(**{**missing, **options})

    return launch


@pytest.fixture(scope="session")
def browser_type_launch_args(
    browser_type_launch_args: dict[str, Any], browser_name: str, pytestconfig: pytest.Config
) -> dict[str, Any]:
    """pytest-playwright's fixture, with the hosts of the services under `services_for = "session"`."""
    if browser_name != "chromium" or not uses_services(pytestconfig):
        return browser_type_launch_args
    from harness.browser.domains import resolver_rules

    rules = f"--host-resolver-rules={resolver_rules(start_services(pytestconfig).hosts, {})}"
    return {**browser_type_launch_args, "args": [*browser_type_launch_args.get("args", ()), rules]}


def missing_option(
    options: Mapping[str, Any], settings: Callable[[], BrowserSettings], own: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The launch option that must be added to `options`; empty if Playwright finds a browser by itself.

    `settings`: those of the project, which are read only if its browser is not there.
    """
    if own.is_file() or any(options.get(name) for name in _OWN_CHOICES):
        return {}
    from harness.browser.executable import find  # the modules of tasks are loaded only in a session that needs them
    from harness.recovery.failure import Failed

    declared = settings()
    wanted = declared.model_copy(update={"headed": options.get("headless") is False, "executable": None})
    with suppress(Failed):
        find(wanted, own, {}, which=lambda _: None)
        return {}
    chosen = wanted.model_copy(update={"executable": declared.executable})
    with suppress(Failed):  # otherwise Playwright's error says what to install
        return {"executable_path": str(find(chosen, own, environment))}
    return {}
