"""Starting, sharing and ending browsers."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.browser import Browsers, SessionRequest
from harness.failure import Failed
from harness.resilience import SystemClock
from harness.settings import BrowserSettings
from tests.browser.stage import SHOP, Stage, passed

pytestmark = pytest.mark.filterwarnings("default")


def request(folder: Path) -> SessionRequest:
    return SessionRequest(world="w", folder=folder, uploads=folder)


def test_sessions_of_the_same_hosts_share_a_browser(run: Any, stage: Stage) -> None:
    async def body() -> None:
        one, two = await stage.session(), await stage.session()
        other = await stage.session(hosts={SHOP: stage.site.port})
        assert one._chromium is two._chromium
        assert other._chromium is not one._chromium
        pid = other._chromium.pid
        await other.close()
        assert not psutil.pid_exists(pid)
        await one.close()
        await passed(two, {"act": "open", "url": f"http://{SHOP}/saved"})

    run(body())


def test_many_sessions_at_once(run: Any, stage: Stage) -> None:
    async def body() -> None:
        sessions = await asyncio.gather(
            *(stage.session(world=f"w{n}", hosts={SHOP: stage.site.port}) for n in range(4))
        )
        assert len({session._chromium.pid for session in sessions}) == 1

    run(body())


def test_described_after_the_first_launch(run: Any, stage: Stage) -> None:
    async def body() -> None:
        await stage.session()
        said = stage.browsers.described
        assert "Chromium " in said
        assert "sandbox off (root)" in said if os.geteuid() == 0 else "sandbox" in said

    run(body())


def test_a_browser_that_is_not_there(run: Any, tmp_path: Path) -> None:
    async def body() -> None:
        browsers = Browsers(BrowserSettings(executable="/nowhere/chrome"), SystemClock(), temp=tmp_path)
        try:
            with pytest.raises(Failed) as raised:
                await browsers.open_session(request(tmp_path))
            assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
            assert "/nowhere/chrome" in raised.value.failure.message
        finally:
            await browsers.close()

    run(body())


def test_a_program_that_is_no_browser(run: Any, tmp_path: Path) -> None:
    async def body() -> None:
        browsers = Browsers(BrowserSettings(executable="/bin/false"), SystemClock(), temp=tmp_path)
        try:
            with pytest.raises(Failed) as raised:
                await browsers.open_session(request(tmp_path))
            assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
            assert "\n" not in raised.value.failure.message
        finally:
            await browsers.close()

    run(body())


def test_closing_ends_a_stopped_browser_too(run: Any, stage: Stage) -> None:
    async def body() -> None:
        temp = stage.folder / "tmp"
        temp.mkdir()
        browsers = Browsers(BrowserSettings(), SystemClock(), temp=temp)
        session = await browsers.open_session(request(stage.folder))
        process = psutil.Process(session._chromium.pid)
        for each in [process, *process.children(recursive=True)]:
            each.suspend()
        started = time.monotonic()
        await browsers.close()
        assert time.monotonic() - started < 3
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE

    run(body())


def test_nothing_is_left_after_close(run: Any, stage: Stage) -> None:
    async def body() -> None:
        temp = stage.folder / "tmp"
        temp.mkdir()
        browsers = Browsers(BrowserSettings(), SystemClock(), temp=temp)
        session = await browsers.open_session(request(stage.folder))
        pid = session._chromium.pid
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        driver = browsers._driver
        assert driver is not None
        assert driver.pid is not None
        await browsers.close()
        gone, alive = psutil.wait_procs([*tree, *([psutil.Process(driver.pid)] if driver.alive else [])], timeout=3)
        assert not alive
        assert gone

    run(body())
