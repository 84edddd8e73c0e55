"""`allowed_domains` hold for every request that leaves a page: nothing reaches another host, by any way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.failures.navigation import refused_hosts
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.names import Domains
from tests.browser.hosts import Answer, Asked, Host, to
from tests.browser.stage import EVIL, SHOP, Stage, failed, passed, perform

GO = '<button id=go onclick="{}">go</button>'
PAGES = {
    # the page itself goes
    "link": f"<a id=go href=http://{EVIL}/>go</a>",
    "redirect": f"<a id=go href='/to?url=http://{EVIL}/'>go</a>",
    "redirects": f"<a id=go href='/to?url=/to%3Furl=http://{EVIL}/'>go</a>",
    "location": GO.format(f"location = 'http://{EVIL}/'"),
    "form-get": f"<form action=http://{EVIL}/><input name=a value=1><button id=go>go</button></form>",
    "form-post": f"<form action=http://{EVIL}/ method=post><input name=a value=1><button id=go>go</button></form>",
    "form-redirect": f"<form action='/to?url=http://{EVIL}/' method=post><button id=go>go</button></form>",
    "https": f"<a id=go href=https://{EVIL}/>go</a>",
    "loopback": "<a id=go href=http://127.0.0.1:{evil}/>go</a>",
    # another page goes
    "blank": f"<a id=go target=_blank href=http://{EVIL}/>go</a>",
    "noopener": f"<a id=go target=_blank rel=noopener href=http://{EVIL}/>go</a>",
    "window-open": GO.format(f"window.open('http://{EVIL}/')"),
    "form-blank": f"<form target=_blank method=post action=http://{EVIL}/><button id=go>go</button></form>",
    # parts of the page
    "iframe": f"<iframe src=http://{EVIL}/></iframe>",
    "iframe-redirect": f"<iframe src='/to?url=http://{EVIL}/'></iframe>",
    "image": f"<img src=http://{EVIL}/i.png>",
    "image-redirect": f"<img src='/to?url=http://{EVIL}/i.png'>",
    "script": f"<script src=http://{EVIL}/s.js></script>",
    "style": f"<link rel=stylesheet href=http://{EVIL}/s.css>",
    "font": f"<style>@font-face {{font-family: f; src: url(http://{EVIL}/f.woff2)}} p {{font-family: f}}</style><p>x",
    "media": f"<video src=http://{EVIL}/v.mp4 autoplay></video>",
    "fetch": f"<script>fetch('http://{EVIL}/').catch(() => 0)</script>",
    "fetch-redirect": f"<script>fetch('/to?url=http://{EVIL}/').catch(() => 0)</script>",
    "fetch-post": f"<script>fetch('http://{EVIL}/', {{method: 'PUT', body: 'x'}}).catch(() => 0)</script>",
    "keepalive": f"<script>fetch('http://{EVIL}/', {{keepalive: true, mode: 'no-cors'}}).catch(() => 0)</script>",
    "xhr": f"<script>const x = new XMLHttpRequest(); x.open('GET', 'http://{EVIL}/'); x.send()</script>",
    "beacon": f"<script>navigator.sendBeacon('http://{EVIL}/', 'x')</script>",
    "websocket": f"<script>new WebSocket('ws://{EVIL}/')</script>",
    "websocket-tls": f"<script>new WebSocket('wss://{EVIL}/')</script>",
    "eventsource": f"<script>new EventSource('http://{EVIL}/')</script>",
    "prefetch": f"<link rel=prefetch href=http://{EVIL}/p>",
    "preload": f"<link rel=preload as=image href=http://{EVIL}/p.png>",
    "worker": "<script>new Worker('/worker.js')</script>",
    # of these Playwright tells nothing
    "shared-worker": "<script>new SharedWorker('/worker.js')</script>",
    "preconnect": f"<link rel=preconnect href=http://{EVIL}>",
}
OWN = ["link", "redirect", "redirects", "location", "form-get", "form-post", "form-redirect", "https", "loopback"]
OTHERS = ["blank", "noopener", "window-open", "form-blank"]
UNSEEN = ["shared-worker", "preconnect"]
PARTS = [way for way in PAGES if way not in OWN + OTHERS + UNSEEN]
WORKER = f"fetch('http://{EVIL}/').catch(() => 0)"
SERVICE_WORKER = "self.addEventListener('install', () => self.skipWaiting());" + WORKER
REGISTER = (
    "<script>navigator.serviceWorker.register('/service.js').finally(() => {document.title = 'registered'})</script>"
)
HIDDEN_SECONDS = 0.4
"""How long an attempt that leaves no trace in the browser may take."""


class World:
    """An allowed host whose pages want to leave, and a forbidden one that counts."""

    def __init__(self) -> None:
        self.shop, self.evil = Host(self._page), Host()

    def _page(self, asked: Asked) -> Answer:
        if asked.path == "/to":
            return to(asked.query["url"], 307)
        if asked.path in ("/worker.js", "/service.js"):
            return Answer(SERVICE_WORKER if "service" in asked.path else WORKER, kind="text/javascript")
        if asked.path == "/meta":
            return Answer(f"<title>meta</title><meta http-equiv=refresh content='0;url=http://{EVIL}/'>")
        if asked.path == "/service":
            return Answer(f"<title>service</title>{REGISTER}")
        body = PAGES.get(asked.path.strip("/"), "<p>home</p>").replace("{evil}", str(self.evil.port))
        return Answer(f"<!doctype html><title>page</title>{body}")

    @property
    def hosts(self) -> dict[str, int]:
        return {SHOP: self.shop.port, EVIL: self.evil.port}


@pytest.fixture(scope="module")
def world(run: Any, browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two servers, and a session that keeps their browser alive from test to test."""
    world, stage = World(), Stage(browsers, site, tmp_path_factory.mktemp("policy"))

    async def start() -> PlaywrightSession:
        await world.shop.start()
        await world.evil.start()
        return await stage.session(hosts=world.hosts)

    holder = run(start())
    yield world
    run(holder.close())
    run(world.shop.stop())
    run(world.evil.stop())


async def until(condition: Callable[[], Any], seconds: float = 5) -> bool:
    """Whether the condition came to hold in time."""
    for _ in range(round(seconds / 0.02)):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return bool(condition())


async def at(stage: Stage, world: World, path: str, *allowed: str) -> PlaywrightSession:
    session = await stage.session(hosts=world.hosts, allowed_domains=allowed, webrtc=True)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/{path}"})
    return session


def refused(session: PlaywrightSession) -> tuple[str, ...]:
    tab = session.tab
    return refused_hosts(tab.watch.exchanges, tab.watch.lines, tab.page.url, Domains((SHOP,)))


@pytest.mark.parametrize("way", [way for way in PAGES if way not in ("https", "websocket-tls", "preconnect")])
@pytest.mark.sampled(1)
async def test_every_way_leads_there_when_it_is_not_forbidden(stage: Stage, world: World, way: str) -> None:
    before = world.evil.connections
    session = await at(stage, world, way)
    if way in OWN + OTHERS:
        await passed(session, {"act": "click", "selector": "#go"})
    assert await until(lambda: world.evil.connections > before)


@pytest.mark.parametrize("way", OWN)
@pytest.mark.parametrize("act", ["click", "submit", "press"])
@pytest.mark.sampled(1)
async def test_the_page_itself_does_not_leave(stage: Stage, world: World, way: str, act: str) -> None:
    if act == "submit" and not way.startswith("form"):
        act = "click"
    key = {"value": "Enter"} if act == "press" else {}
    before = world.evil.connections
    session = await at(stage, world, way, SHOP)
    failure = await failed(session, {"act": act, "selector": "#go", **key}, within=5)
    host = "127.0.0.1" if way == "loopback" else EVIL
    assert (failure.code, failure.effect, failure.details["host"]) == ("POLICY_DOMAIN", Effect.DONE, host)
    assert failure.message.startswith(f"{host} is outside the task's allowed_domains: ")
    assert failure.selector == "#go"
    assert failure.details["method"] == ("POST" if way in ("form-post", "form-redirect") else "GET")
    assert world.evil.connections == before


@pytest.mark.parametrize("url", [f"http://{EVIL}/", f"http://{SHOP}/to?url=http://{EVIL}/", f"http://not{SHOP}/"])
@pytest.mark.parametrize("act", ["open", "api"])
@pytest.mark.sampled(2)
async def test_no_step_leaves(stage: Stage, world: World, act: str, url: str) -> None:
    before = world.evil.connections
    session = await at(stage, world, "", SHOP)
    failure = await failed(session, {"act": act, "url": url}, within=5)
    assert (failure.code, failure.effect) == ("POLICY_DOMAIN", Effect.NONE)
    assert failure.details["host"] in failure.message
    assert world.evil.connections == before
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})


@pytest.mark.parametrize("next_step", [{"act": "click"}, {"act": "wait"}, {"act": "type", "value": "x"}])
@pytest.mark.sampled(1)
async def test_a_page_that_goes_by_itself_does_not_leave(stage: Stage, world: World, next_step: dict[str, Any]) -> None:
    before = world.evil.connections
    session = await stage.session(hosts=world.hosts, allowed_domains=(SHOP,))
    await perform(session, {"act": "open", "url": f"http://{SHOP}/meta"})
    assert await until(lambda: session.url == "chrome-error://chromewebdata/")
    failure = await failed(session, {**next_step, "selector": "#never"}, within=1)
    assert (failure.code, failure.details["host"]) == ("POLICY_DOMAIN", EVIL)
    assert world.evil.connections == before


@pytest.mark.parametrize("way", OTHERS)
@pytest.mark.sampled(1)
async def test_no_other_page_leaves(stage: Stage, world: World, way: str) -> None:
    before = world.evil.connections
    session = await at(stage, world, way, SHOP)
    outcome = await perform(session, {"act": "click", "selector": "#go"})
    if isinstance(outcome, Passed):  # its request came after the click was over: the next step tells
        outcome = await failed(session, {"act": "scroll"}, within=5)
    assert (outcome.code, outcome.details["host"]) == ("POLICY_DOMAIN", EVIL)
    assert world.evil.connections == before


@pytest.mark.parametrize("way", PARTS)
@pytest.mark.sampled(2)
async def test_no_part_of_a_page_is_asked_for_elsewhere(stage: Stage, world: World, way: str) -> None:
    before = world.evil.connections
    session = await at(stage, world, way, SHOP)
    assert await until(lambda: refused(session) == (EVIL,)), map(str, session.tab.watch.console_lines())
    outcome = await passed(session, {"act": "scroll"})
    assert outcome.details["refused_hosts"] == [EVIL]
    assert world.evil.connections == before
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert refused(session) == ((EVIL,) if way.startswith("websocket") else ())


async def test_a_failure_tells_which_hosts_were_refused(stage: Stage, world: World) -> None:
    session = await at(stage, world, "script", SHOP)
    assert await until(lambda: refused(session) == (EVIL,))
    failure = await failed(session, {"act": "click", "selector": "#never"})
    assert (failure.code, failure.details["refused_hosts"]) == ("ELEMENT_NOT_FOUND", [EVIL])


@pytest.mark.parametrize("way", UNSEEN)
async def test_what_nobody_sees_does_not_leave_either(stage: Stage, world: World, way: str) -> None:
    """`preconnect`: started without background networking, Chromium connects to nothing ahead anyway."""
    before = world.evil.connections
    await at(stage, world, way, SHOP)
    assert not await until(lambda: world.evil.connections > before, HIDDEN_SECONDS)


@pytest.mark.parametrize("policed", [pytest.param(False, marks=pytest.mark.thorough), True])
async def test_no_service_worker_asks_elsewhere(stage: Stage, world: World, policed: bool) -> None:
    """On 127.0.0.1: workers of this kind live in secure contexts only."""
    before = world.evil.connections
    allowed = ("127.0.0.1",) if policed else ()
    session = await stage.session(hosts=world.hosts, allowed_domains=allowed)
    await passed(session, {"act": "open", "url": f"http://127.0.0.1:{world.shop.port}/service"})
    assert await until(lambda: any(asked.path == "/service.js" for asked in world.shop.asked))
    if policed:
        assert not await until(lambda: world.evil.connections > before, HIDDEN_SECONDS)
    else:
        assert await until(lambda: world.evil.connections > before)
    assert isinstance(await perform(session, {"act": "scroll"}), Passed)


async def test_hosts_below_an_allowed_one_are_reached(stage: Stage, world: World) -> None:
    hosts = {**world.hosts, f"img.{SHOP}": world.shop.port}
    session = await stage.session(hosts=hosts, allowed_domains=(f"*.{SHOP}",))
    for host in (SHOP, f"img.{SHOP}"):
        await passed(session, {"act": "open", "url": f"http://{host}/"})
    assert refused(session) == ()


async def test_a_proxy_error_without_allowed_domains_is_no_policy(stage: Stage, world: World) -> None:
    session = await at(stage, world, "link")
    outcome = await perform(session, {"act": "click", "selector": "#go"})
    assert not isinstance(outcome, Failure)
    assert "refused_hosts" not in outcome.details


RTC = """
(async () => {{
  const servers = [{{urls: 'stun:{host}:{udp}'}}];
  for (const [port, kind] of [[{udp}, 'udp'], [{tcp}, 'tcp']]) {{
    servers.push({{urls: `turn:{host}:${{port}}?transport=${{kind}}`, username: 'a', credential: 'b'}});
  }}
  const outer = new RTCPeerConnection({{iceServers: servers}});
  outer.createDataChannel('x');
  await outer.setLocalDescription(await outer.createOffer());
  const a = new RTCPeerConnection(), b = new RTCPeerConnection();
  a.onicecandidate = e => e.candidate && b.addIceCandidate(e.candidate);
  b.onicecandidate = e => e.candidate && a.addIceCandidate(e.candidate);
  b.ondatachannel = e => {{ e.channel.onmessage = m => {{ document.title = m.data; }}; }};
  const channel = a.createDataChannel('d');
  channel.onopen = () => channel.send('over UDP');
  await a.setLocalDescription(await a.createOffer());
  await b.setRemoteDescription(a.localDescription);
  await b.setLocalDescription(await b.createAnswer());
  await a.setRemoteDescription(b.localDescription);
}})()
"""
ELSEWHERE = "127.0.0.3"


@pytest.mark.parametrize("policed", [pytest.param(False, marks=pytest.mark.thorough), True])
async def test_webrtc_does_not_leave(stage: Stage, world: World, policed: bool) -> None:
    """STUN and TURN over UDP, TURN over TCP, and a channel between two ends in the page itself."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
        for each in (udp, tcp):
            each.bind((ELSEWHERE, 0))
            each.setblocking(False)
        tcp.listen()
        session = await at(stage, world, "", *([SHOP] if policed else []))
        ports = {"udp": udp.getsockname()[1], "tcp": tcp.getsockname()[1]}
        script = RTC.format(host=ELSEWHERE, **ports)
        await session.tab.control.send("Runtime.evaluate", {"expression": script})
        told = await until(lambda: _arrived(udp), HIDDEN_SECONDS if policed else 5)
        called = await until(lambda: _called(tcp), HIDDEN_SECONDS if policed else 5)
        linked = await session.tab.page.title() == "over UDP" if policed else await _linked(session)
        assert (told, called, linked) == (not policed, not policed, not policed)
        await passed(session, {"act": "open", "url": f"http://{SHOP}/"})


async def _linked(session: PlaywrightSession) -> bool:
    async with asyncio.timeout(5):
        while await session.tab.page.title() != "over UDP":
            await asyncio.sleep(0.02)
    return True


def _arrived(udp: socket.socket) -> bool:
    try:
        return bool(udp.recv(2000))
    except BlockingIOError:
        return False


def _called(tcp: socket.socket) -> bool:
    try:
        tcp.accept()[0].close()
    except BlockingIOError:
        return False
    return True
