"""Whatever a page sends by, it is known that the act has sent something, or that it may have (never-twice.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.targets import UNWATCHED
from harness.browser.unreported import CHANNELS, FAREWELL
from harness.model.record import Sent, first_unsafe
from tests.browser.channels_site import ChannelsSite
from tests.browser.stage import Stage, passed

SEEN = {
    "shared": "sent POST http://127.0.0.1:{}/order?shared",
    "shared-socket": "sent a message over a WebSocket of a worker",
    "dedicated": "sent POST http://127.0.0.1:{}/order?dedicated",
    "nested": "sent POST http://127.0.0.1:{}/order?dedicated",
    "worker-socket": "sent a message over the WebSocket ws://127.0.0.1:{}/ws",
    "service": "sent POST http://127.0.0.1:{}/order?service",
    "service-socket": "sent a message over the WebSocket ws://127.0.0.1:{}/ws",
    "socket": "sent a message over the WebSocket ws://127.0.0.1:{}/ws",
    "broadcast": "sent POST http://127.0.0.1:{}/order?woken",
    "popup": "sent POST http://127.0.0.1:{}/order?popup",
    "beacon": "sent POST http://127.0.0.1:{}/order?beacon",
    "keepalive": "sent POST http://127.0.0.1:{}/order?keepalive",
    "frame": "sent POST http://localhost:{}/order?frame",
    "form": "sent POST http://127.0.0.1:{}/order?form",
    "ping": "sent POST http://127.0.0.1:{}/order?ping",
}
"""What is said of the click on each page."""


@pytest.fixture(scope="module")
def channels(run: Any) -> Iterator[ChannelsSite]:
    site = ChannelsSite()
    run(site.start())
    yield site
    run(site.stop())


async def arrives(site: ChannelsSite) -> None:
    """Wait until an order has come, and until the browser's own report of it must be here too."""
    async with asyncio.timeout(20):
        while not site.orders:
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)


async def clicked(session: PlaywrightSession, site: ChannelsSite, page: str) -> tuple[Sent, ...]:
    """What the click on a page has sent, or may have."""
    site.orders.clear()
    await passed(session, {"act": "open", "url": f"http://127.0.0.1:{site.port}/{page}"})
    session.take_sent()
    await passed(session, {"act": "click", "selector": "#b"})
    await arrives(site)
    return session.take_sent()


def said(site: ChannelsSite, sent: tuple[Sent, ...]) -> str:
    found = first_unsafe(sent)
    return found.describe() if found else ""


def test_what_a_click_sends_is_seen_over_every_channel(run: Any, stage: Stage, channels: ChannelsSite) -> None:
    async def body() -> dict[str, str]:
        found = {}
        for page in SEEN:
            session = await stage.session()
            found[page] = said(channels, await clicked(session, channels, page))
            await session.close()
        return found

    assert run(body()) == {page: text.format(channels.port) for page, text in SEEN.items()}


def test_what_cannot_be_seen_is_said_to_be_possible(run: Any, stage: Stage, channels: ChannelsSite) -> None:
    async def body() -> str:
        session = await stage.session()
        return said(channels, await clicked(session, channels, "shared-begun"))

    seen = f"sent POST http://127.0.0.1:{channels.port}/order?shared"  # it was watched in time
    assert run(body()) in (f"may have sent what could not be seen: {UNWATCHED}", seen)


@pytest.mark.parametrize("logged", [True, False], ids=["logged", "without a log"])
def test_what_a_page_sends_as_it_is_left_is_known_from_the_log_else_it_is_possible(
    run: Any, stage: Stage, channels: ChannelsSite, logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def left(page: str) -> list[tuple[str, str, bool]]:
        session = await stage.session()
        if not logged:
            monkeypatch.setattr(session.chromium, "net_log", None)
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/{page}"})
        session.take_sent()
        await passed(session, {"act": "click", "selector": "#b"})
        assert not any(each.unsafe for each in session.take_sent())
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/plain"})
        assert await session.hold()
        found = [(each.method, each.unseen, each.before) for each in session.take_sent() if each.unsafe]
        await session.close()
        return found

    unseen = ("", FAREWELL, True)
    assert run(left("parting")) == [("POST", "", True) if logged else unseen]
    assert run(left("leaving")) == ([] if logged else [unseen]), "it listens, and sends nothing"


def test_what_writes_nothing_is_no_sign_of_a_write(run: Any, stage: Stage, channels: ChannelsSite) -> None:
    async def body() -> dict[str, tuple[Sent, ...]]:
        session = await stage.session()
        found = {"policy": await clicked(session, channels, "policy")}  # its report is a POST
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/beating"})
        await passed(session, {"act": "wait", "value": 1.5})
        session.take_sent()
        await passed(session, {"act": "click", "selector": "#b"})
        await passed(session, {"act": "wait", "value": 0.6})
        return {**found, "beating": session.take_sent()}

    assert {page: said(channels, sent) for page, sent in run(body()).items()} == {"policy": "", "beating": ""}


def test_an_open_channel_of_which_no_browser_reports_is_found(run: Any, stage: Stage, channels: ChannelsSite) -> None:
    async def body() -> list[list[str]]:
        session, found = await stage.session(), []
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/peers"})
        for step in ({"act": "wait", "value": 0.0}, {"act": "click", "selector": "#b"}):
            await passed(session, step)
            if step["act"] == "click":
                await passed(session, {"act": "wait", "selector": "#a", "value": "open"})
            session.take_sent()
            await session.tab.note_unreported(20)
            found.append([each.unseen for each in session.take_sent() if each.unsafe])
        return found

    assert run(body()) == [[], [CHANNELS["RTCPeerConnection"]]]
