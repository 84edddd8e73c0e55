"""What all tests share: the thorough ones run only when they are asked for.

`TASKSPEC_TESTS=full make test` runs them too: every case of the failure table, every moment of every kill.
`make test` runs a few tests that failed beside others again, alone (bootstrap/command.py); none is marked `flaky`.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpcore2
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

import harness.pytest_plugin.parallel
from harness.browser.executable import find
from harness.cli.commands import Imported
from harness.model.browser_settings import BrowserSettings
from harness.pytest_plugin.gc import RareGarbage
from tests import forked_workers
from tests.unit.resilience import virtual

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("NODE_COMPILE_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "node"))
"""The tests start Python and Playwright's driver some hundred times: what each compiles anew is a quarter of what it
costs.
"""
os.environ.pop("CI", None)  # a run in CI replays what models have answered; the tests of that set it themselves
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a job in the background: nobody would hear Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Search rarely for garbage while the tests are collected, and never again among what they consist of."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST_")]:
        del os.environ[name]  # a run that a test starts is no worker of this one
    config.pluginmanager.register(forked_workers)
    config.pluginmanager.register(rare := RareGarbage())
    config.add_cleanup(rare.end)


def pytest_sessionstart() -> None:
    """Say nothing of errors in destructors, which pytest.ini ignores.

    To describe one, pytest parses source code in the middle of a garbage collection. If that interrupts another parser,
    which happens once in some runs of the suite, Python 3.11 (before 3.11.9) raises a SystemError in that one.
    """
    sys.unraisablehook = lambda _: None


LASTING = (httpcore2, *Imported().values(), harness.pytest_plugin.parallel)
"""Imported before any test: `pytester` takes away what its test imports, and the next one would get it a second time,
with other classes of exceptions.
"""

FULL = os.environ.get("TASKSPEC_TESTS") == "full"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on a loop of its own; one that is marked `fake_clock`, under virtual time."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    play = virtual.play if pyfuncitem.get_closest_marker("fake_clock") else asyncio.run
    play(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only a full run plays: tests marked `thorough`, and all but some cases of one marked `sampled`."""
    if FULL:
        return
    thorough = {item for item in items if item.get_closest_marker("thorough")}
    left_out = thorough | _beyond_the_sample([item for item in items if item not in thorough])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _beyond_the_sample(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """The cases that are not among the `sampled(N)` of their test: N stay, spread evenly over all."""
    families: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sampled"):
            families[item.path, item.originalname].append(item)
    beyond: set[pytest.Item] = set()
    for cases in families.values():
        mark = cases[0].get_closest_marker("sampled")
        assert mark is not None
        taken = {number * len(cases) // mark.args[0] for number in range(mark.args[0])}
        beyond.update(case for number, case in enumerate(cases) if number not in taken)
    return beyond


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """To look at our own pages with. For a module: while it is there, asyncio runs nothing else in this thread."""
    expect.set_options(timeout=15_000)  # for what appears on a busy machine
    with sync_playwright() as playwright:
        found = find(BrowserSettings(), Path(playwright.chromium.executable_path), os.environ)
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()
