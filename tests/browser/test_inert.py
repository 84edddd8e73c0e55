"""An inert snapshot, opened in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.async_api import Dialog

from harness.reporting.redact_files import inert
from tests.browser.stage import Stage
from tests.unit.reporting.test_inert import HARMFUL


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """A site that notes every request."""
    asked: list[str] = []

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()


def _page(host: str) -> str:
    harmful = "\n".join(part for part in HARMFUL if "<!--" not in part).replace("evil.example", host)
    return (
        f"<html><head><title>Shop</title><style>b {{ color: rgb(1, 2, 3) }}</style></head>"
        f"<body><b id=kept>kept</b>{harmful}"
        f"<script>fetch('http://{host}/script')</script><a id=leave href='http://{host}/leave'>leave</a>"
        f"<form id=f action='http://{host}/form'><input name=q><button id=send>send</button></form></body></html>"
    )


@pytest.mark.thorough
async def test_the_page_itself_does_act(stage: Stage, listener: tuple[str, list[str]], tmp_path: Path) -> None:
    """Otherwise the other test would prove nothing."""
    host, asked = listener
    (tmp_path / "raw.html").write_text(_page(host))
    page = await (await stage.session()).chromium.browser.new_page()
    page.on("dialog", lambda dialog: dialog.dismiss())
    await page.goto((tmp_path / "raw.html").as_uri())
    await page.wait_for_timeout(500)
    await page.close()
    assert asked


async def test_the_snapshot_does_nothing_and_shows_the_same(
    stage: Stage, listener: tuple[str, list[str]], tmp_path: Path
) -> None:
    host, asked = listener
    (tmp_path / "dom.html").write_text(inert(_page(host)))
    page = await (await stage.session()).chromium.browser.new_page()
    dialogs: list[str] = []

    async def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", dismiss)
    await page.goto((tmp_path / "dom.html").as_uri())
    color = await page.locator("#kept").evaluate("element => getComputedStyle(element).color")
    await page.locator("#leave").click(force=True)
    await page.locator("#send").dispatch_event("click")
    await page.wait_for_timeout(500)
    assert (asked, dialogs, color) == ([], [], "rgb(1, 2, 3)")
    assert page.url.startswith("file:")
    await page.close()
