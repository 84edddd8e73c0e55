"""What all tests share: the thorough ones run only when they are asked for.

`TASKSPEC_TESTS=full make test` runs them too: every case of the failure table, every moment of every kill.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import httpcore2
import pytest
from playwright.sync_api import Browser, sync_playwright

import harness.cli.main
import harness.pytest_plugin.parallel
from harness.browser.executable import find
from harness.model.settings import BrowserSettings

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("NODE_COMPILE_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "node"))
"""The tests start Python and Playwright's driver some hundred times: what each compiles anew is a quarter of what it
costs.
"""
for _name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
    del os.environ[_name]  # a run that a test starts is no worker of this one
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job in the background: nobody would hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

LASTING = (httpcore2, harness.cli.main, harness.pytest_plugin.parallel)
"""Imported before any test: `pytester` takes away what its test imports, and the next one would get it a second time,
with other classes of exceptions.
"""

HERE = Path(__file__).parent
REAL = tuple(
    HERE / name for name in ("browser", "acceptance", "unit/environment", "unit/cli", "unit/reporting/history")
)
"""Tests of real browsers, processes and files that several write. Two busy cores may hold up any of them: such a test
runs up to twice more when it fails, and the end of the run names it with its traceback. It is to be mended all the
same.
"""

FULL = os.environ.get("TASKSPEC_TESTS") == "full"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `thorough`: further variants of what an ordinary test shows already."""
    for item in items:
        if any(map(item.path.is_relative_to, REAL)):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))
    left_out = [] if FULL else [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]


_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End every fixture after a failure: what a second try is to look at may be what a fixture of its module made."""
    if item.stash.get(_FAILED, False):
        del item.stash[_FAILED]
        item.session._setupstate.teardown_exact(None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """To look at our own pages with. For a module: while it is there, asyncio runs nothing else in this thread."""
    with sync_playwright() as playwright:
        found = find(BrowserSettings(), Path(playwright.chromium.executable_path), os.environ)
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()
