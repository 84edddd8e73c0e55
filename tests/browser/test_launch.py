"""Starting, sharing and ending browsers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from harness.browser import Browsers, PlaywrightSession, SessionRequest
from harness.browser.context import Tab
from harness.browser.driver import Driver
from harness.model.browser_settings import BrowserSettings
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from tests.browser.moments import until
from tests.browser.processes import gone, signal_tree, tree
from tests.browser.stage import SHOP, Stage, passed

pytestmark = pytest.mark.filterwarnings("default")


def request(folder: Path) -> SessionRequest:
    return SessionRequest(world="w", folder=folder, uploads=folder)


async def test_sessions_of_the_same_hosts_share_a_browser(stage: Stage) -> None:
    one, two = await stage.session(), await stage.session()
    other = await stage.session(hosts={SHOP: stage.site.port})
    assert one.chromium is two.chromium
    assert other.chromium is not one.chromium
    pid = other.chromium.pid
    await other.close()
    assert not psutil.pid_exists(pid)
    await one.close()
    await passed(two, {"act": "open", "url": f"http://{SHOP}/saved"})


@pytest.mark.thorough
async def test_many_sessions_at_once(stage: Stage) -> None:
    sessions = await asyncio.gather(*(stage.session(world=f"w{n}", hosts={SHOP: stage.site.port}) for n in range(4)))
    assert len({session.chromium.pid for session in sessions}) == 1


@pytest.mark.thorough
async def test_where_the_sandbox_cannot_work_it_is_off_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.browser.launch.no_sandbox_reason", lambda: None)
    browsers = Browsers(BrowserSettings(), SystemClock(), temp=tmp_path)
    session = await browsers.open_session(SessionRequest(world="w", folder=tmp_path, uploads=tmp_path))
    command = psutil.Process(session.chromium.pid).cmdline()
    await session.close()
    await browsers.close()
    assert ("--no-sandbox" in command) is ("sandbox off" in browsers.described)
    if os.geteuid() == 0:
        assert "sandbox off (it cannot work here)" in browsers.described


@pytest.mark.thorough
async def test_described_after_the_first_launch(stage: Stage) -> None:
    await stage.session()
    said = stage.browsers.described
    assert "Chromium " in said
    assert "sandbox off (root)" in said if os.geteuid() == 0 else "sandbox" in said


async def test_a_browser_that_is_not_there(tmp_path: Path) -> None:
    browsers = Browsers(BrowserSettings(executable="/nowhere/chrome"), SystemClock(), temp=tmp_path)
    try:
        with pytest.raises(Failed) as raised:
            await browsers.open_session(request(tmp_path))
        assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
        assert "/nowhere/chrome" in raised.value.failure.message
    finally:
        await browsers.close()


@pytest.mark.thorough
async def test_a_program_that_is_no_browser(tmp_path: Path) -> None:
    browsers = Browsers(BrowserSettings(executable="/bin/false"), SystemClock(), temp=tmp_path)
    try:
        with pytest.raises(Failed) as raised:
            await browsers.open_session(request(tmp_path))
        assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
        assert "\n" not in raised.value.failure.message
    finally:
        await browsers.close()


async def test_the_driver_keeps_its_compiled_code_for_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "cache"))
    monkeypatch.delenv("NODE_COMPILE_CACHE", raising=False)
    driver = await Driver.start(tmp_path)
    assert "NODE_COMPILE_CACHE" not in os.environ
    await driver.stop()
    assert [path for path in (tmp_path / "cache" / "node").rglob("*") if path.is_file()]


@pytest.mark.thorough
async def test_drivers_that_start_at_the_same_time_are_not_taken_for_each_other(tmp_path: Path) -> None:
    before = os.environ.get("TMPDIR")
    first, second = await asyncio.gather(Driver.start(tmp_path), Driver.start(tmp_path))
    assert first.pid != second.pid
    await first.stop()
    assert await second.answers()
    await second.stop()
    assert os.environ.get("TMPDIR") == before


@pytest.mark.thorough
async def test_closing_ends_a_stopped_browser_too(stage: Stage) -> None:
    temp = stage.folder / "tmp"
    temp.mkdir()
    browsers = Browsers(BrowserSettings(), SystemClock(), temp=temp)
    session = await browsers.open_session(request(stage.folder))
    pid = session.chromium.pid
    signal_tree(session, signal.SIGSTOP)
    started = time.monotonic()
    await browsers.close()
    assert time.monotonic() - started < 10
    assert gone(pid)


async def test_nothing_is_left_after_close(stage: Stage) -> None:
    temp = stage.folder / "tmp"
    temp.mkdir()
    browsers = Browsers(BrowserSettings(), SystemClock(), temp=temp)
    session = await browsers.open_session(request(stage.folder))
    family = tree(session)
    driver = browsers.driver
    assert driver is not None
    assert driver.pid is not None
    await browsers.close()
    family += [psutil.Process(driver.pid)] if driver.alive else []
    ended, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    assert ended


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells beforehand whether there is a display")
def test_a_window_without_a_display(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    message = refused(run, tmp_path, BrowserSettings(headed=True))
    assert message == ("a browser window needs a display, and DISPLAY is not set: drop --headed, or run under xvfb-run")


def test_the_browsers_last_words_are_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":4711")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with tempfile.TemporaryDirectory() as short:  # Chromium's sockets lie in it, and their paths must not be long
        browser = Path(short) / "chromium"  # the machine may have the headless shell alone, which needs no X server
        browser.write_text("#!/bin/sh\necho 'Missing X server or $DISPLAY' >&2\nexit 1\n", "utf-8")
        browser.chmod(0o755)
        message = refused(run, Path(short), BrowserSettings(headed=True, executable=str(browser)))
    assert "Missing X server or $DISPLAY" in message
    assert "has been closed" not in message


@pytest.mark.thorough
def test_the_exit_code_when_it_says_nothing(run: Any, tmp_path: Path) -> None:
    message = refused(run, tmp_path, BrowserSettings(executable="/bin/false"))
    assert message.endswith("/bin/false: it ended with exit code 1")


def refused(run: Any, folder: Path, settings: BrowserSettings) -> str:
    async def body() -> str:
        browsers = Browsers(settings, SystemClock(), temp=folder)
        try:
            with pytest.raises(Failed) as raised:
                await browsers.open_session(request(folder))
        finally:
            await browsers.close()
        assert raised.value.failure.code == "BROWSER_LAUNCH_FAILED"
        return raised.value.failure.message

    answer: str = run(body())
    return answer


MOMENTS = {
    "asked": lambda _: True,
    "context": lambda browser: len(browser.contexts) > 1,
    "page": lambda browser: any(context.pages for context in browser.contexts[1:]),
}
"""When an opening is cut off: what holds of the browser by then, in which one session lives already."""


@pytest.mark.parametrize("recording", ["minimal", "full"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.sampled(1)
async def test_an_opening_that_is_cut_off_leaves_no_context(stage: Stage, moment: str, recording: str) -> None:
    hosts = {SHOP: stage.site.port}
    chromium = (await stage.session(hosts=hosts)).chromium
    browser = chromium.browser
    for turns in range(4):
        opening = asyncio.create_task(stage.session(hosts=hosts, recording=recording))
        for _ in range(turns):
            await asyncio.sleep(0)
        while not (opening.done() or MOMENTS[moment](browser)):
            await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
    after = await stage.session(hosts=hosts)  # behind what was still on its way
    assert after.chromium is chromium, "nobody's browser was ended for it"
    assert chromium.sessions == 2
    await after.close()
    await until(lambda: len(browser.contexts) == 1)


@pytest.mark.parametrize("error", [None, ValueError("a defect of whoever prepares it")])
@pytest.mark.thorough
async def test_a_tab_that_cannot_be_prepared_is_closed(stage: Stage, error: Exception | None) -> None:
    browser = (await stage.session()).chromium.browser
    asked = asyncio.Event()

    async def on_tab(_tab: Any) -> None:
        asked.set()
        if error is not None:
            raise error
        await asyncio.Event().wait()

    before, stage.browsers.on_tab = len(browser.contexts), on_tab
    try:
        opening = asyncio.create_task(stage.session())
        await asked.wait()
        if error is None:
            opening.cancel()
        with pytest.raises(type(error) if error else asyncio.CancelledError):
            await opening
    finally:
        stage.browsers.on_tab = None
    await until(lambda: len(browser.contexts) == before)


@pytest.mark.thorough
async def test_a_context_that_is_slow_to_come_holds_nobody_up_and_is_closed(stage: Stage) -> None:
    """It was asked for, and the driver answers only after whoever asked is gone."""
    chromium = (await stage.session()).chromium
    may_come, came = asyncio.Event(), list[Any]()

    class Slow:
        async def new_context(self, **options: Any) -> Any:
            await may_come.wait()
            came.append(await chromium.browser.new_context(**options))
            return came[0]

    slow = cast("Any", SimpleNamespace(browser=Slow(), user_agent=chromium.user_agent))
    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await Tab.open(slow, request(stage.folder), SystemClock(), "", {}, None)
    assert asyncio.get_running_loop().time() - began < 10
    may_come.set()
    await until(lambda: came and came[0] not in chromium.browser.contexts)


@pytest.mark.thorough
async def test_only_a_browser_with_hosts_is_told_of_them(stage: Stage) -> None:
    without, with_hosts = await stage.session(hosts={}), await stage.session(hosts={SHOP: 8471})
    told = [
        sorted(each.partition("=")[0] for each in _command(session) if each.startswith(("--host-r", "--ignore-c")))
        for session in (without, with_hosts)
    ]
    assert told == [[], ["--host-resolver-rules", "--ignore-certificate-errors-spki-list"]]
    front = with_hosts.chromium.front
    rules = f"MAP {SHOP}:443 127.0.0.1:{front.ports[SHOP]}, MAP {SHOP} 127.0.0.1:8471"
    assert f"--host-resolver-rules={rules}" in _command(with_hosts)


def _command(session: PlaywrightSession) -> list[str]:
    return psutil.Process(session.chromium.pid).cmdline()
