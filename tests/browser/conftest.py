"""One loop in a thread of its own, one set of browsers and one site for all browser tests."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.browser import Browsers
from harness.model.browser_settings import BrowserSettings
from harness.resilience import SystemClock
from tests.browser.site import Site
from tests.browser.stage import Stage, hosts_of

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test on the loop on which its browser is."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    pyfuncitem.funcargs["run"](pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session", autouse=True)
def run() -> Iterator[Run[Any]]:
    """Run a coroutine on the shared loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture(scope="session")
def site(run: Run[Any]) -> Iterator[Site]:
    site = Site()
    run(site.start())
    yield site
    run(site.stop())


@pytest.fixture(scope="session")
def browsers(run: Run[Any], site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    """Those with the site's hosts stay from test to test, whichever test comes first."""

    async def make() -> Browsers:
        temp = tmp_path_factory.mktemp("t")
        return Browsers(BrowserSettings(), SystemClock(), temp=temp, hosts=(hosts_of(site),))

    browsers = run(make())
    yield browsers
    run(browsers.close())


@pytest.fixture
def stage(run: Run[Any], browsers: Browsers, site: Site, tmp_path: Path) -> Iterator[Stage]:
    site.hits.clear()  # the site serves all tests of a worker, in any order; a test counts its own requests
    stage = Stage(browsers, site, tmp_path)
    yield stage
    for session in stage.sessions:
        with suppress(TimeoutError):
            run(session.close())
