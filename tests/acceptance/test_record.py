"""`harness record`: a person, here a program at the debugging port, does something, and its task passes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright

from harness.cli import record as command
from harness.model.settings import load_settings
from harness.runner.recording import RecordingSession
from tests.acceptance.conftest import PYPROJECT
from tests.acceptance.warm import harness, warm


def test_without_a_display_there_is_one_line(tmp_path: Path) -> None:
    done = harness("record", "shop.test", cwd=tmp_path, DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "apt-get install xvfb chromium" in done.stderr
    (tmp_path / "a.task.yaml").write_text("mine", "utf-8")
    taken = harness("record", "shop.test", "-o", "a.task.yaml", cwd=tmp_path)
    assert (taken.returncode, "exists already" in taken.stderr) == (1, True)
    for wrong in (("ftp://x",), ("/path",), ("shop.test", "-o", "a.yaml")):
        refused = harness("record", *wrong, cwd=tmp_path)
        assert refused.returncode == 2, refused.stderr


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


async def buy(page: Page) -> None:
    """Buy a mouse with mouse and keyboard."""

    async def click(selector: str) -> None:
        target = page.locator(selector).first
        await target.scroll_into_view_if_needed()
        box = await target.bounding_box()
        assert box is not None
        await page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    await click("#search-box")
    await page.keyboard.type("wireless mouse")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/search*")
    await click(".product-item[data-sku='WM-5521'] .product-link")
    await page.wait_for_url("**/product/*")
    await click("#add-to-cart")
    await page.wait_for_url("**/cart")
    await page.locator("#cart-total").wait_for()


async def person(port: int, opened: threading.Event) -> None:
    await asyncio.to_thread(opened.wait, 60)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        page = next(page for context in browser.contexts for page in context.pages if "shop.local" in page.url)
        await buy(page)
        await page.evaluate("new Promise(done => setTimeout(done, 700))")  # the recorder waits for double clicks
        await page.close()


def test_what_is_recorded_runs(tmp_path: Path, sites: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.format(base=min(sites.values()), hosts=hosts), "utf-8")
    monkeypatch.chdir(tmp_path)
    port = free_port()
    settings = load_settings(tmp_path)
    browser = settings.browser.model_copy(update={"args": (f"--remote-debugging-port={port}",)})
    quiet: dict[str, Any] = {"recording": "minimal", "tracing": "off", "artifacts": tmp_path / "none"}
    settings = settings.model_copy(update={"browser": browser, **quiet})
    url = "http://shop.local/"
    session = RecordingSession(command.plan_of(url, {}, None, settings, "r-1"), settings, "r-1")
    opened = threading.Event()
    acting = threading.Thread(target=lambda: asyncio.run(person(port, opened)))
    acting.start()
    watchdog = threading.Timer(60, session.stop)
    watchdog.start()
    recording, result = session.run(opened.set)
    watchdog.cancel()
    acting.join(20)
    assert result.ok
    command.write_task(tmp_path / "bought.task.yaml", recording, url, {"task_id": "BOUGHT", "goal": "Buy"})
    written = (tmp_path / "bought.task.yaml").read_text("utf-8")
    assert "POST /cart/items" in written
    assert "effect: write" in written
    assert "allowed_domains: [shop.local]" in written
    assert not list(tmp_path.glob(".*.new"))
    assert "1 passed" in warm().run("pytest", "-p", "no:hypothesispytest", "bought.task.yaml", cwd=tmp_path).stdout


def test_ctrl_c_ends_the_recording_and_not_the_command() -> None:
    class Stopped:
        stops = 0

        def stop(self) -> None:
            self.stops += 1

    stopped: Any = Stopped()
    with command.ended_by_ctrl_c(stopped):
        os.kill(os.getpid(), signal.SIGINT)
    assert stopped.stops == 1
