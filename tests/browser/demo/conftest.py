"""The demo sites, running, and a browser that finds them by their names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[3]
PATIENCE_MS = 5000
Open = Callable[[str, str], Page]


class Env:
    """The environment API of one running server."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/env"

    def get(self, world: str) -> Any:
        return self._call(world, "GET", None)

    def patch(self, world: str, patch: dict[str, Any]) -> Any:
        return self._call(world, "PATCH", json.dumps(patch).encode())

    def _call(self, world: str, method: str, body: bytes | None) -> Any:
        headers = {"User-Agent": f"test harness-world/{world}"}
        with urllib.request.urlopen(urllib.request.Request(self._url, body, headers, method=method)) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    """Run the sites on free ports."""
    command = [sys.executable, "-m", "harness.demo", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        yield json.loads(process.stdout.readline())["hosts"]
        process.terminate()


@pytest.fixture(scope="module")
def env(ports: dict[str, int]) -> Env:
    return Env(ports["world.local"])


@pytest.fixture(scope="module")
def browser(ports: dict[str, int]) -> Iterator[Browser]:
    """Chromium that finds the sites by their names."""
    rules = ", ".join(f"MAP {host} 127.0.0.1:{port}" for host, port in ports.items())
    arguments = [f"--host-resolver-rules={rules}", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"), args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a URL in a world; every page must be quiet: no console line, no failed request."""
    contexts, noise = [], []

    def open_url(url: str, world: str) -> Page:
        context = browser.new_context(user_agent=f"test harness-world/{world}")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: noise.append(message.text))
        page.on("pageerror", lambda error: noise.append(str(error)))
        page.on("response", lambda answer: noise.append(answer.url) if answer.status >= 400 else None)
        page.goto(url)
        return page

    yield open_url
    for context in contexts:
        context.close()
    assert noise == []


def log_in(page: Page, user: str, secret: str) -> None:
    page.fill("[name=user]", user)
    page.fill("[name=secret]", secret)
    page.click("#login-button")
