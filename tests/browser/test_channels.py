"""Whatever a page sends by, it is known that the act has sent something, or that it may have (never-twice.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from harness.browser import PlaywrightSession, targets
from harness.browser.targets import UNWATCHED
from harness.browser.unreported import CHANNELS, FAREWELL
from harness.model.record import Sent, first_unsafe
from tests.browser.channels_site import ChannelsSite
from tests.browser.stage import Stage, passed

SEEN = {
    "shared": "sent POST http://127.0.0.1:{}/order?shared",
    "shared-socket": "sent a message over ",
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
"""How that begins what is said of the click on each page."""
IN_PAGE = {"dedicated", "nested", "worker-socket", "socket", "beacon", "keepalive", "frame", "form", "ping"}
"""What ends with its page: one session can click on all of these."""


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
        found, shared = {}, await stage.session()
        for page in SEEN:
            session = shared if page in IN_PAGE else await stage.session()
            found[page] = said(channels, await clicked(session, channels, page))
            if session is not shared:
                await session.close()
        return found

    found = run(body())
    wrong = {page: found[page] for page, text in SEEN.items() if not found[page].startswith(text.format(channels.port))}
    assert wrong == {}


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


@pytest.mark.thorough
def test_what_a_page_sends_as_it_is_left_is_known_also_after_further_attempts_to_open(
    run: Any, stage: Stage, channels: ChannelsSite
) -> None:
    async def body() -> tuple[list[tuple[str, bool]], list[Sent]]:
        session = await stage.session()
        address = f"http://127.0.0.1:{channels.port}/"
        await passed(session, {"act": "open", "url": f"{address}parting"})
        await passed(session, {"act": "click", "selector": "#b"})
        for _ in range(3):  # an `open` that fails is tried again
            await passed(session, {"act": "open", "url": f"{address}plain"})
        assert await session.hold()
        acted = [(each.method, each.before) for each in session.take_sent() if each.unsafe]
        await session.close()
        session = await stage.session()
        await passed(session, {"act": "open", "url": f"{address}farewell"})
        for _ in range(2):
            await passed(session, {"act": "open", "url": f"{address}plain"})
        assert await session.hold()
        return acted, [each for each in session.take_sent() if each.unsafe]

    acted, unacted = run(body())
    assert acted == [("POST", True)]
    assert unacted == [], "a page on which nothing was done sends it by itself"


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


def test_a_shared_worker_that_is_stopped_sends_nothing_until_it_goes_on(
    run: Any, stage: Stage, channels: ChannelsSite
) -> None:
    """Being offline alone would not stop a WebSocket that was opened before its worker was watched."""

    async def body() -> list[list[str]]:
        session, found = await stage.session(), []
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/later"})
        channels.orders.clear()
        await passed(session, {"act": "click", "selector": "#b"})
        assert await session.hold()
        await asyncio.sleep(1)
        found.append([*channels.orders])
        await session.release()
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/shared"})
        channels.orders.clear()
        assert await session.hold()
        await session.tab.page.evaluate("b.click()")
        await asyncio.sleep(0.3)
        found.append([*channels.orders])
        await session.release()
        await arrives(channels)
        return [*found, channels.orders]

    assert run(body()) == [[], [], ["shared"]]


@pytest.mark.thorough
def test_a_shared_worker_goes_on_although_a_page_hangs(run: Any, stage: Stage, channels: ChannelsSite) -> None:
    async def body() -> list[str]:
        session = await stage.session()
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/plain"})
        order = f"http://127.0.0.1:{channels.port}/order?tick"
        script = f"setInterval(() => fetch('{order}', {{method: 'POST', mode: 'no-cors'}}), 100)"
        begin = "script => { new SharedWorker('data:text/javascript,' + encodeURIComponent(script)) }"
        await session.tab.page.evaluate(begin, script)
        await arrives(channels)
        assert await session.hold()
        await asyncio.sleep(0.2)
        channels.orders.clear()
        hang = "setTimeout(() => { const began = Date.now(); while (Date.now() - began < 60000); }, 0); 0"
        await session.tab.page.evaluate(hang)
        await asyncio.sleep(0.3)
        assert channels.orders == []
        await session.release()
        await arrives(channels)
        return channels.orders[:1]

    assert run(body()) == ["tick"]


def test_the_log_clears_a_shared_worker_that_was_not_watched_of_a_doubt(
    run: Any, stage: Stage, channels: ChannelsSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not where something left, or a WebSocket was opened, that no event has told of."""
    hear = targets.WatchedWorker.hear

    def hear_no_request(worker: targets.WatchedWorker, message: dict[str, Any]) -> None:
        if not message.get("method", "").startswith("Network."):
            hear(worker, message)

    monkeypatch.setattr(targets.WatchedWorker, "hear", hear_no_request)
    scripts = {
        "reads": f"fetch('http://127.0.0.1:{channels.port}/plain', {{mode: 'no-cors'}})",
        "posts": f"fetch('http://127.0.0.1:{channels.port}/order?unseen', {{method: 'POST', mode: 'no-cors'}})",
        "connects": f"new WebSocket('ws://127.0.0.1:{channels.port}/socket')",
    }

    async def doubted(script: str) -> bool:
        session = await stage.session()
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/plain"})
        begin = "script => { new SharedWorker('data:text/javascript,' + encodeURIComponent(script)) }"
        await session.tab.page.evaluate(begin, script)
        await asyncio.sleep(0.5)
        watch = session.tab.watch
        watch.worker_unwatched(watch.sending.doubt(targets.UNWATCHED))
        assert await session.hold()
        return any(each.unsafe for each in session.take_sent())

    async def body() -> dict[str, bool]:
        return {kind: await doubted(script) for kind, script in scripts.items()}

    assert run(body()) == {"reads": False, "posts": True, "connects": True}


@pytest.mark.thorough
def test_a_shared_worker_that_ended_begins_again_and_is_watched_from_its_start(
    run: Any, stage: Stage, channels: ChannelsSite
) -> None:
    async def body() -> list[str]:
        session = await stage.session()
        await clicked(session, channels, "shared")
        await passed(session, {"act": "open", "url": f"http://127.0.0.1:{channels.port}/plain"})
        sent = await clicked(session, channels, "shared")
        return [each.describe() for each in sent if each.unsafe]

    assert run(body()) == [f"sent POST http://127.0.0.1:{channels.port}/order?shared"]
