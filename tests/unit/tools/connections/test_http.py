"""Tool servers over Streamable HTTP: answers, failures by name, and what one call's failure does to the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from harness.resilience import SystemClock
from harness.tools.connection import ToolConnection
from harness.tools.exchange import Connect, SentCall, ServerInfo, ToolProblem, current
from harness.tools.http import SESSION, ToolTransport, over_http
from tests.ports import free_port
from tests.unit.tools.connections.conftest import HttpServer, Play, Serve, Told, eventually
from tests.unit.tools.connections.test_stdio import ERAS, call, not_opened, refused

Shared = Callable[[str], HttpServer]


@pytest.mark.parametrize("era", ERAS)
def test_a_server_of_either_era_is_opened_listed_called_and_looked_at(
    shared_servers: Shared, play: Play, era: str
) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert await connection.open(20) == ServerInfo("shop", "7", ERAS[era])
        names = {tool.name for tool in await connection.list_tools(5)}
        assert {"echo", "slow", "kill"} <= names
        answer = await call(connection, "echo", text="a", n=1)
        assert (answer.text, answer.is_error) == ("a1", False)
        assert (await call(connection, "fails", 60)).is_error, "the server writes a long traceback first"
        unknown = await refused(connection, "nothing")
        assert unknown.problem is ToolProblem.UNKNOWN_TOOL
        await connection.look(5)
        assert (connection.pid, connection.died) == (None, None)

    play(shared_servers(era).connections(), scene, opens=False)


@pytest.mark.parametrize("era", ERAS)
def test_twenty_calls_at_once_get_their_own_answers(shared_servers: Shared, play: Play, era: str) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        slow = asyncio.create_task(refused(connection, "slow", within=0.5, seconds=30))
        bad = asyncio.create_task(refused(connection, "status_500"))
        answers = await asyncio.gather(*(call(connection, "echo", n=n) for n in range(20)))
        assert [answer.text for answer in answers] == [str(n) for n in range(20)]
        assert ((await slow).problem, (await bad).problem) == (ToolProblem.SLOW, ToolProblem.LOST)
        assert (await call(connection, "echo", n=1)).text == "1"

    play(shared_servers(era).connections(), scene)


@pytest.mark.parametrize("era", ERAS)
def test_refusals_have_their_names(shared_servers: Shared, play: Play, era: str) -> None:
    expected = {
        "status_401": (ToolProblem.UNAUTHORIZED, None, "it answers 401 Unauthorized: not now"),
        "status_403": (ToolProblem.FORBIDDEN, None, "403 Forbidden"),
        "scope": (ToolProblem.FORBIDDEN, None, 'it wants Bearer error="insufficient_scope", scope="orders:write"'),
        "expired": (ToolProblem.UNAUTHORIZED, None, "invalid_token"),
        "oauth": (ToolProblem.UNAUTHORIZED, None, "invalid_grant"),
        "status_429": (ToolProblem.BUSY, 7.0, "429"),
        "status_503": (ToolProblem.BUSY, 7.0, "503 Service Unavailable"),
        "bare_429": (ToolProblem.LOST, None, "429 Too Many Requests"),
        "bare_503": (ToolProblem.LOST, None, "503 Service Unavailable"),
        "status_502": (ToolProblem.LOST, None, "502 Bad Gateway"),
        "status_405": (ToolProblem.GARBLED, None, "405"),
        "moved_far": (ToolProblem.GARBLED, None, "http://elsewhere.local/mcp not followed"),
        "page": (ToolProblem.GARBLED, None, "Unexpected content type: text/plain"),
    }

    async def scene(connection: ToolConnection, told: Told) -> None:
        for tool, (problem, wait, words) in expected.items():
            error = await refused(connection, tool)
            assert (tool, error.problem, error.retry_after) == (tool, problem, wait)
            assert words in error.message
        assert (await call(connection, "echo", n=1)).text == "1"
        assert not told.lost

    play(shared_servers(era).connections(), scene)


def test_a_redirect_within_the_origin_is_followed(shared_servers: Shared, play: Play) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert (await call(connection, "echo", n=1)).text == "1"

    play(shared_servers("new").connections("/moved"), scene)


@pytest.mark.parametrize("habits", [(), ("json",)])
def test_an_answer_that_is_too_long_is_named(serve: Serve, play: Play, habits: tuple[str, ...]) -> None:
    async def scene(connection: ToolConnection, _: Told) -> None:
        assert len((await call(connection, "big", size=2_000_000)).text) == 2_000_000
        error = await refused(connection, "big", size=6_000_000)
        assert error.problem is (ToolProblem.GARBLED)
        assert (await call(connection, "echo", n=1)).text == "1"

    play(serve("new", *habits).connections(longest=5_000_000), scene)


@pytest.mark.parametrize("era", ERAS)
def test_a_server_that_is_killed_in_a_call_harms_only_what_was_sent(serve: Serve, play: Play, era: str) -> None:
    server = serve(era)

    async def scene(connection: ToolConnection, _: Told) -> None:
        others = [asyncio.create_task(refused(connection, "slow", seconds=30)) for _ in range(3)]
        await asyncio.sleep(0.5)
        for error in [await refused(connection, "kill"), *[await other for other in others]]:
            assert error.problem is ToolProblem.LOST
        server.end()
        error = await refused(connection, "echo")
        assert error.problem is ToolProblem.UNREACHED
        assert "shop.local/mcp" in error.message

    play(server.connections(), scene)


def test_a_session_that_a_new_server_does_not_know_is_lost_without_effect(serve: Serve, play: Play) -> None:
    first = serve("old")

    async def scene(connection: ToolConnection, told: Told) -> None:
        first.end()
        await asyncio.to_thread(serve, "old", port=first.port)
        error = await refused(connection, "echo")
        assert error.problem is ToolProblem.UNREACHED
        assert "it does not know the session any more" in error.message
        await eventually(lambda: bool(told.lost))
        assert (await refused(connection, "echo")).problem is ToolProblem.UNREACHED

    play(first.connections(), scene)


def test_a_server_of_the_new_era_may_be_replaced_at_any_time(serve: Serve, play: Play) -> None:
    first = serve("new")

    async def scene(connection: ToolConnection, told: Told) -> None:
        first.end()
        await asyncio.to_thread(serve, "new", port=first.port)
        assert (await call(connection, "echo", n=1)).text == "1"
        assert not told.lost

    play(first.connections(), scene)


@pytest.mark.parametrize("era", ["new", pytest.param("old", marks=pytest.mark.thorough)])
def test_changed_tools_are_told(serve: Serve, play: Play, era: str) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        await asyncio.sleep(0.5)  # the subscription stands
        await call(connection, "change")
        await eventually(lambda: told.changed >= 1)
        assert "echo2" in {tool.name for tool in await connection.list_tools(5)}

    play(serve(era).connections(), scene)


def test_credentials_are_sent_and_their_refusal_is_named(serve: Serve, play: Play) -> None:
    server = serve("old", "guarded")

    async def wrong(connection: ToolConnection, _: Told) -> None:
        error = await not_opened(connection, 20)
        assert error.problem is ToolProblem.UNAUTHORIZED
        assert "invalid_token" in error.message

    async def right(connection: ToolConnection, _: Told) -> None:
        assert (await call(connection, "echo", n=1)).text == "1"

    play(server.connections(headers={"Authorization": "Bearer wrong"}), wrong, opens=False)
    play(server.connections(headers={"Authorization": "Bearer right"}), right)


def _nobody() -> Connect:
    hosts = {"shop.local": free_port()}
    return over_http("http://shop.local/mcp", {}, lambda: hosts, SystemClock())


def _unnamed() -> Connect:
    return over_http("http://no-such-host.invalid/mcp", {}, dict, SystemClock())


@pytest.mark.parametrize("place", [_nobody, _unnamed])
def test_a_server_that_is_not_there_is_unreached(play: Play, place: Callable[[], Connect]) -> None:
    async def scene(connection: ToolConnection, told: Told) -> None:
        error = await not_opened(connection, 20)
        assert error.problem is ToolProblem.UNREACHED
        assert "it cannot be reached at http://" in error.message
        assert not told.lost

    play(place(), scene, opens=False)


async def _silent_server(play_with: Callable[[int], Any], answer: bytes | None) -> None:
    """A server that takes a connection, and ends it (with `answer`) or keeps silent (None)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        if answer is not None:
            writer.write(answer)
            writer.close()
        else:
            await asyncio.sleep(30)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        await play_with(server.sockets[0].getsockname()[1])
        server.close()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(None, ToolProblem.SLOW, marks=pytest.mark.thorough),
        (b"", ToolProblem.UNREACHED),
        (b"SSH-2.0\r\n", ToolProblem.UNREACHED),
    ],
)
def test_what_is_no_server_is_told_when_it_is_opened(answer: bytes | None, problem: ToolProblem) -> None:
    async def scene(port: int) -> None:
        connection = over_http(f"http://127.0.0.1:{port}/mcp", {}, dict, SystemClock())(Told().events())
        assert isinstance(connection, ToolConnection)
        assert (await not_opened(connection, 1 if answer is None else 20)).problem is problem
        await connection.close()

    asyncio.run(_silent_server(scene, answer))


@pytest.mark.parametrize(
    ("status", "headers", "body", "problem"),
    [
        (503, {"retry-after": "1"}, b"", ToolProblem.BUSY),
        (503, {}, b"upstream failed", ToolProblem.LOST),
        (404, {}, b"Session not found", ToolProblem.UNREACHED),
        (404, {}, b"", ToolProblem.UNREACHED),
        (404, {}, b"no such order any more", ToolProblem.GARBLED),
        (400, {}, b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "no session"}}', ToolProblem.UNREACHED),
        (400, {}, b"the session was not saved after the order", ToolProblem.GARBLED),
    ],
)  # fmt: skip
def test_only_a_refusal_that_proves_that_nothing_was_done_is_one(
    status: int, headers: dict[str, str], body: bytes, problem: ToolProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(status, headers=headers, stream=httpx2.ByteStream(body))

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", Refusing)

    async def main() -> SentCall:
        transport, sending = ToolTransport(dict, SystemClock(), 1000, lambda: None), SentCall()
        current.set(sending)
        asked = httpx2.Request("POST", "http://shop.local/mcp", headers={SESSION: "s1"}, content=b'{"id": 1}')
        await transport.handle_async_request(asked)
        return sending

    found = asyncio.run(main()).problem
    assert found is not None
    assert found.problem is problem


@pytest.mark.parametrize("era", ERAS)
def test_a_call_that_was_not_sent_in_time_is_not_sent_later(
    shared_servers: Shared, play: Play, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is told that nothing was sent may call again: the client of the older era goes on to connect meanwhile."""
    gate, sent = asyncio.Event(), []

    class Jammed(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            calls = b"tools/call" in await request.aread()
            if calls:
                await gate.wait()
            answer = await super().handle_async_request(request)
            sent.extend([request.url] if calls else [])
            return answer

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", Jammed)

    async def scene(connection: ToolConnection, _: Told) -> None:
        assert (await refused(connection, "echo", within=0.2)).problem is ToolProblem.UNREACHED
        gate.set()
        assert (await call(connection, "echo", n=1)).text == "1"
        await asyncio.sleep(0.1)
        assert len(sent) == 1

    play(shared_servers(era).connections(), scene)
