"""`routes:` of WebSockets in a real browser, in front of a real server of WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from harness.browser import PlaywrightSession
from harness.browser.routing import Routing
from harness.spec.routes import Route
from tests.browser.moments import COMES_WITHIN, until
from tests.browser.site import PAGES
from tests.browser.stage import SHOP, Stage, failed, passed
from tests.browser.test_displayed import judged

PAGES["/talk"] = """<!doctype html><title>Talk</title><input id=say><button id=go>Send</button>
<button id=new>Open</button><ol id=log></ol><script>
let at, socket;
const note = text => log.append(Object.assign(document.createElement('li'), {textContent: text}));
window.opened = url => { at = url; socket = new WebSocket(at); socket.onopen = () => note('open');
  socket.onmessage = event => note('got ' + event.data);
  socket.onclose = event => note('closed ' + event.code + ' ' + event.reason) };
document.querySelector('#new').onclick = () => opened(at);
go.onclick = () => socket.send(say.value);</script>"""


class Server:
    """Answers each message with `echo:` and the message, unless it is JSON: then with it as it is."""

    def __init__(self) -> None:
        self.port, self.got, self.codes = 0, list[str](), list[int | None]()
        self.connections: list[ServerConnection] = []

    async def closing(self) -> None:
        """Close what is open."""
        for each in self.connections:
            await each.close()

    async def serve(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        async for message in connection:
            text = str(message)
            self.got.append(text)
            await connection.send(text if text.startswith("{") else f"echo:{text}")
        self.codes.append(connection.close_code)


@asynccontextmanager
async def talking(
    stage: Stage, *routes: Mapping[str, Any], memory: Mapping[str, Any] | None = None, path: str = "/feed"
) -> AsyncIterator[tuple[PlaywrightSession, Server, Routing]]:
    """A page with an open WebSocket to a server, through these routes."""
    server = Server()
    async with serve(server.serve, "127.0.0.1", 0) as listening:
        server.port = next(iter(listening.sockets)).getsockname()[1]
        found = [Route.model_validate({"url": f"*:{server.port}/*", **each}) for each in routes]
        routing = await Routing.of(found, stage.folder, lambda: memory or {})
        routing.begin_step(0)
        session = await stage.session(routing=routing, hears=frozenset({"messages"}))
        await passed(session, {"act": "open", "url": f"http://{SHOP}/talk"})
        await session.tab.page.evaluate("url => opened(url)", f"ws://127.0.0.1:{server.port}{path}")
        yield session, server, routing
        await session.close()


async def logged(session: PlaywrightSession, *lines: str) -> None:
    """The page has exactly these lines, in this order."""

    script = "[...document.querySelectorAll('#log li')].map(each => each.textContent)"
    with suppress(TimeoutError):
        async with asyncio.timeout(COMES_WITHIN):
            while await session.tab.page.evaluate(script) != [*lines]:
                await asyncio.sleep(0.02)
    assert await session.tab.page.evaluate(script) == [*lines]


async def say(session: PlaywrightSession, *texts: str) -> None:
    for text in texts:
        await passed(session, {"act": "type", "selector": "#say", "value": text})
        await passed(session, {"act": "click", "selector": "#go"})


async def test_a_route_stands_in_for_the_server_and_nothing_leaves(stage: Stage) -> None:
    rules = [
        {"send": ["hello ${memory.name}", {"json": {"type": "ready", "n": "${memory.n}"}}]},
        {"sent": {"json": {"op": "subscribe"}}, "send": {"json": {"type": "subscribed"}, "same": ["id"]}},
        {"sent": "bye*", "close": 4001, "reason": "as you like"},
    ]
    route = {"connect": False, "messages": rules}
    async with talking(stage, route, memory={"name": "Ann", "n": 2}) as (session, server, _):
        await logged(session, "open", "got hello Ann", 'got {"type": "ready", "n": 2}')
        session.take_sent()
        await say(session, '{"op": "subscribe", "id": 7, "more": []}', "nobody hears this", "bye now")
        said = ["open", "got hello Ann", 'got {"type": "ready", "n": 2}', 'got {"type": "subscribed", "id": 7}']
        await logged(session, *said, "closed 4001 as you like")
        assert [each.unsafe for each in session.take_sent()] == []
        assert server.got == []
        hold = [
            "messages('sent *').length == 3 && messages('received *').length == 3",
            "messages('received *')[-1].json.id == 7 && messages('*')[0].text == 'hello Ann'",
        ]
        assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}
        (met,) = session.routes
        assert (met.count, met.idle, met.problem) == (1, (), "")
        assert [each.what.partition(" {")[0] for each in met.answered] == [
            "taken, without a server", "received hello Ann", "received", "answered sent", "received",
            "answered sent bye now", "closed 4001 as you like",
        ]  # fmt: skip
        assert "-> no server, send, close: took once in step 0: WebSocket ws://127.0.0.1" in met.describe()


async def test_messages_to_and_from_the_server_are_dropped_and_patched(stage: Stage) -> None:
    rules = [
        {"sent": "secret*", "drop": True},
        {"sent": {"json": {"op": "buy"}}, "patch": {"json": {"n": 1, "by": "${memory.name}"}}},
        {"received": {"json": {"op": "price"}}, "patch": {"json": {"items[*].price": 5}}},
        {"received": "echo:noise", "drop": True},
        {"received": "echo:b", "send": "and more"},
    ]
    async with talking(stage, {"messages": rules}, memory={"name": "Ann"}) as (session, server, _):
        await logged(session, "open")
        session.take_sent()
        await say(
            session, "secret 1", '{"op": "buy", "n": 9}', '{"op": "price", "items": [{"price": 1}]}', "noise", "b"
        )
        bought, price = '{"op": "buy", "n": 1, "by": "Ann"}', '{"op": "price", "items": [{"price": 5}]}'
        await logged(session, "open", f"got {bought}", f"got {price}", "got echo:b", "got and more")
        assert server.got == [bought, '{"op": "price", "items": [{"price": 1}]}', "noise", "b"]
        sent = session.take_sent()
        assert [(each.method, each.unsafe) for each in sent] == [("WebSocket", True)] * 4, "each message counts once"
        hold = [
            "messages('sent *').length == 5 && messages('received *').length == 4",
            "messages('received *')[1].json.items[0].price == 5 && messages('sent *')[1].json.n == 9",
            "messages('received *')[-1].text == 'and more'",
        ]
        assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}


async def test_the_server_seems_to_send_and_to_close_when_a_step_begins(stage: Stage) -> None:
    routes = [
        {"steps": 1, "messages": [{"send": "news"}]},
        {"steps": [2, 3], "messages": [{"received": "*", "at": 2, "close": 1011, "reason": "gone"}]},
        {"steps": 9, "messages": [{"close": 1000}]},
    ]
    async with talking(stage, *routes) as (session, server, routing):
        await say(session, "a")
        await logged(session, "open", "got echo:a")
        routing.begin_step(1)
        routing.begin_step(1)
        await logged(session, "open", "got echo:a", "got news")
        routing.begin_step(2)
        await say(session, "b", "c")
        seen = ["open", "got echo:a", "got news", "got echo:b", "got echo:c", "closed 1011 gone"]
        await logged(session, *seen)
        await until(lambda: server.codes == [1000])
        await passed(session, {"act": "click", "selector": "#new"})
        await say(session, "d")
        await logged(session, *seen, "open", "got echo:d")
        news, gone, never = session.routes
        assert (news.count, gone.count, gone.idle, never.count) == (1, 2, (), 0)
        assert never.why == "2 matched, but not during its `steps`"


@pytest.mark.thorough
async def test_what_comes_late_comes_in_the_order_of_its_causes(stage: Stage) -> None:
    slow = {"steps": 0, "connect": False, "delay": 0.3, "messages": [{"sent": "*", "send": "slow"}]}
    quick = {"steps": 1, "connect": False, "messages": [{"send": "quick"}, {"sent": "bye", "close": 1000}]}
    async with talking(stage, slow, quick) as (session, _, routing):
        await say(session, "a")
        await until(lambda: any(each.what == "answered sent a" for each in session.routes[0].answered))
        routing.begin_step(1)
        await logged(session, "open", "got slow", "got quick")
        await say(session, "bye")
        await logged(session, "open", "got slow", "got quick", "closed 1000 ")


@pytest.mark.thorough
async def test_a_route_closes_the_first_socket_at_once_and_the_next_one_passes(stage: Stage) -> None:
    rules = [{"close": 1013, "reason": "try again"}, {"sent": "x", "drop": True}]
    async with talking(stage, {"times": 1, "delay": 0.05, "messages": rules}) as (session, server, _):
        await logged(session, "open", "closed 1013 try again")
        assert server.codes == []
        session.take_sent()
        await passed(session, {"act": "click", "selector": "#new"})
        await logged(session, "open", "closed 1013 try again", "open")
        await say(session, "x")
        await logged(session, "open", "closed 1013 try again", "open", "got echo:x")
        assert [(each.method, each.unsafe) for each in session.take_sent()] == [("WebSocket", True)]
        (met,) = session.routes
        assert (met.count, met.idle) == (1, (1,))
        assert "`messages[1]` did nothing: no message matched" in met.describe()


async def test_what_a_route_cannot_do_about_a_message_fails_the_step(stage: Stage) -> None:
    rules = [
        {"sent": "buy*", "patch": {"json": {"n": 1}}},
        {"sent": "hi", "send": "${memory.nothing}"},
        {"sent": "id", "send": {"json": {}, "same": ["id"]}},
    ]
    async with talking(stage, {"messages": rules}) as (session, server, _):
        await logged(session, "open")
        for text, why in (
            ("buy 1", "the message is no JSON, so nothing in it can be changed"),
            ("hi", "it needs memory entry 'nothing', which was never written"),
            ("id", "the message that it answers has no 'id'"),
        ):
            await passed(session, {"act": "type", "selector": "#say", "value": text})
            found = await failed(session, {"act": "click", "selector": "#go"}, within=5)
            assert (found.code, why in found.message) == ("ROUTE_UNANSWERED", True), found
        await until(lambda: server.got == ["hi", "id"])


@pytest.mark.thorough
async def test_frames_and_popups_are_routed_and_other_sockets_are_not(stage: Stage) -> None:
    async with talking(stage, {"url": "ws://feed.example/*", "connect": False, "messages": [{"send": "hi"}]}) as (
        session, server, _,
    ):  # fmt: skip
        await say(session, "a")
        await logged(session, "open", "got echo:a")
        assert server.got == ["a"]
        said = await session.tab.page.evaluate("""() => new Promise(done => {
          const frame = document.body.appendChild(document.createElement('iframe'));
          const socket = new frame.contentWindow.WebSocket('wss://FEED.example/prices?x=1');
          socket.onmessage = event => {
            socket.onclose = over => done([event.data, over.code]); socket.close(3001) } })""")
        assert said == ["hi", 3001]
        hold = ["messages('received wss://feed.example/*').length == 1", "messages('sent ws://127*').length == 1"]
        assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}


async def test_a_route_takes_no_socket_that_has_gone_before_its_steps(stage: Stage) -> None:
    news = {"steps": 1, "times": 1, "messages": [{"send": "news"}]}
    for way in ("the server closes it", "the page goes"):
        async with talking(stage, news) as (session, server, routing):
            await logged(session, "open")
            if way == "the page goes":
                await passed(session, {"act": "open", "url": f"http://{SHOP}/talk?anew"})
            else:
                await server.closing()
                await logged(session, "open", "closed 1000 ")
            await until(lambda server=server: len(server.codes) == 1)
            routing.begin_step(1)
            assert [each.count for each in session.routes] == [0], way
            await session.tab.page.evaluate("url => opened(url)", f"ws://127.0.0.1:{server.port}/feed")
            await until(lambda session=session: session.routes[0].count == 1)
