"""The WebSocket and the stream over real sockets: clients that do not read, that send too much, that are gone."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import websockets

from harness.bridge.http_face import http_routes
from harness.bridge.hub import BridgeHub
from harness.bridge.turns import Desk
from harness.bridge.websocket_face import A_SECOND, websocket_routes
from harness.reporting.live import following
from harness.reporting.telemetry.log import EVENTS_FILE
from harness.resilience import SystemClock
from harness.serve import server as serving
from harness.serve.server import ProjectServer, bind
from harness.serve.tokens import Tokens, TokenScope
from tests.unit.bridge.stage import GOOD, admit, message

MOST = 24 * 1024 * 1024
"""Bytes after which a client that does not read has been cut: the buffers of the system are smaller."""
TOKENS = Tokens(b"k" * 32)


@pytest.fixture(autouse=True)
def _ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LOOK", 0.02)


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[tuple[BridgeHub, int]]:
    """A bridge on a port of loopback."""
    hub, over = BridgeHub(SystemClock(), Desk(("click", "open"))), False
    routes = [*websocket_routes(hub, admit, Followers(root).run), *http_routes(hub, lambda _: True)]
    listener, ready = bind("127.0.0.1", 0), asyncio.Event()
    server = ProjectServer(root, routes, hub.clock, TOKENS)
    running = asyncio.create_task(server.run(listener, ready.set, lambda: not over, inside=True))
    try:
        async with asyncio.timeout(20):
            await ready.wait()
            yield hub, listener.getsockname()[1]
    finally:
        over = True
        await hub.stop()
        await running


class Followers:
    """Those of the project, as a run uses them (runner.bridging)."""

    def __init__(self, root: Path) -> None:
        self._followers = following.Followers(root)

    def run(self, run: str, offset: int) -> tuple[str, AsyncIterator[following.EventLines | None]]:
        return run, self._followers.of(run).lines(offset)


async def said(socket: Any, type: str, **payload: Any) -> dict[str, Any]:  # noqa: A002
    """Send a message, and return its answer."""
    sent = message(type, **payload)
    await socket.send(json.dumps(sent))
    while (answer := json.loads(await socket.recv()))["id"] != sent["id"]:
        pass
    return dict(answer)


async def joined(port: int, session: str = "", **more: Any) -> tuple[Any, dict[str, Any]]:
    """A connection, and the state of its session."""
    socket = await websockets.connect(f"ws://127.0.0.1:{port}/bridge", max_queue=1, ping_interval=None, proxy=None)
    await said(socket, "auth", token=GOOD)
    if session:
        return socket, (await said(socket, "session_join", session=session, **more))["payload"]
    return socket, (await said(socket, "session_create", agent="slow"))["payload"]


async def until(true: Callable[[], object]) -> None:
    while not true():
        await asyncio.sleep(0.01)


async def flooded(hub: BridgeHub, session: str) -> None:
    """Tell a client more than it reads, until its connection is cut. Raises AssertionError if it never is."""
    text, found = secrets.token_hex(30_000), hub.sessions[session]
    for _ in range(MOST // len(text)):
        found.send("note", {"text": text})
        await asyncio.sleep(0)
        if not found.attached:
            return
    async with asyncio.timeout(5):
        await until(lambda: not found.attached)


async def test_a_client_that_does_not_read_is_cut_at_once_and_goes_on_when_it_comes_back(tmp_path: Path) -> None:
    async with served(tmp_path) as (hub, port):
        slow, state = await joined(port)
        await flooded(hub, state["session"])
        again, resumed = await joined(port, state["session"], after=state["seq"], epoch=state["epoch"])
        assert resumed["session"] == state["session"]
        replay = (await said(again, "request_replay", after=0, epoch=state["epoch"]))["payload"]
        assert (replay["complete"], replay["lost"] > 0) == (False, True)
        assert (await said(again, "synchronize"))["payload"]["seq"] == hub.sessions[state["session"]].buffer.last
        with pytest.raises(websockets.ConnectionClosed):
            while True:
                await slow.recv()
        await again.close()


@pytest.mark.parametrize(("code", "broken"), [(None, True), (1000, False), (1005, False), (1011, True)])
async def test_a_connection_that_breaks_is_told_from_one_that_its_client_closes(
    tmp_path: Path, code: int | None, broken: bool
) -> None:
    """1005 is what JavaScript's `close()` sends: no code at all."""
    async with served(tmp_path) as (hub, port):
        connection, state = await joined(port)
        session = hub.sessions[state["session"]]
        if code is None:
            connection.transport.abort()
        elif code == 1005:
            connection.protocol.send_close()
            connection.send_data()
        else:
            await connection.close(code)
        async with asyncio.timeout(5):
            await until(lambda: not session.attached)
        assert session.broken is broken


async def test_a_stream_that_is_not_read_is_cut_at_once_and_keeps_nothing(tmp_path: Path) -> None:
    token = TOKENS.issue(TokenScope.AGENT, SystemClock().wall(), timedelta(hours=1))
    async with served(tmp_path) as (hub, port):
        first, state = await joined(port)
        await first.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        head = f"GET /sessions/{state['session']}/messages HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
        session = hub.sessions[state["session"]]
        assert b"200" in await reader.readline()
        await until(lambda: session.attached)
        await flooded(hub, state["session"])
        writer.transport.abort()


async def test_a_client_has_fifty_messages_a_second_and_more_of_them_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, port):
        socket, _ = await joined(port)
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(A_SECOND + 5):
            await said(socket, "health_check")
        assert loop.time() - began >= 0.9
        await socket.close()


async def test_a_client_that_answers_no_ping_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert serving.PING == 20
    monkeypatch.setattr(serving, "PING", 0.2)
    async with served(tmp_path) as (hub, port):
        alive, kept = await joined(port)
        frozen, state = await joined(port)
        frozen.transport.pause_reading()
        await until(lambda: not hub.sessions[state["session"]].attached)
        assert hub.sessions[kept["session"]].attached
        frozen.transport.abort()
        await alive.close()


@pytest.mark.parametrize("header", [{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}])
async def test_a_page_or_a_name_of_somebody_else_gets_no_connection(tmp_path: Path, header: dict[str, str]) -> None:
    async with served(tmp_path) as (hub, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        told = {
            "Host": f"127.0.0.1:{port}", "Connection": "Upgrade", "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", **header,
        }  # fmt: skip
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        writer.write(f"GET /bridge HTTP/1.1\r\n{lines}\r\n".encode())
        assert b" 403 " in await reader.readline()
        assert not hub.sessions
        writer.close()


async def test_a_frame_that_is_too_long_ends_the_connection_and_the_session_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as (hub, port):
        socket, state = await joined(port)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.send("x" * 2 * 1024 * 1024)
            await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
        await until(lambda: not hub.sessions[state["session"]].attached)
        again, resumed = await joined(port, state["session"])
        assert resumed["state"] == "active"
        await again.close()


@pytest.mark.parametrize(
    "path",
    ["/blobs/../../etc/passwd", "/blobs/..%2f..%2fetc%2fpasswd", "/sessions/..%2f..%2fetc%2fpasswd", "//etc/passwd"],
)
def test_a_path_leads_to_no_file(tmp_path: Path, path: str) -> None:
    async def main() -> bytes:
        token = TOKENS.issue(TokenScope.AGENT, SystemClock().wall(), timedelta(hours=1))
        async with served(tmp_path) as (_, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
            writer.write(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
            return await reader.read()

    answer = asyncio.run(main())
    assert b" 404 " in answer.splitlines()[0]
    assert b"root:" not in answer


@pytest.mark.parametrize("offset", range(0, 12, 3))
async def test_an_offset_inside_a_line_and_a_line_of_a_killed_process_spoil_no_message(
    tmp_path: Path, offset: int
) -> None:
    folder = tmp_path / EVENTS_FILE.with_suffix("")
    folder.mkdir(parents=True)
    (folder / "R-1.jsonl").write_text('{"n":1}\n{"n":\n{"n":2}\n', "utf-8")
    async with served(tmp_path) as (_, port):
        socket, _ = await joined(port)
        told = await said(socket, "subscribe", run="R-1", offset=offset)
        first = [{"n": 1}] if offset == 0 else []
        assert told["payload"] == {"run": "R-1", "end": 22, "events": [*first, {"n": 2}]}
        refused = await said(socket, "subscribe", run="../R-1")
        assert refused["payload"]["code"] == "PROTO_NOT_OFFERED"
