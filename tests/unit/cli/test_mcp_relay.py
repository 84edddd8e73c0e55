"""`harness mcp` and a server that has a certificate."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.bridge.mcp_face import mcp_routes
from harness.bridge.mcp_tools import FaceReply
from harness.cli import mcp_relay
from harness.cli.mcp_relay import ServerRelay
from harness.cli.project import settings_at
from harness.resilience import SystemClock
from harness.serve.address import keep_address
from harness.serve.server import SERVICE, ProjectServer, bind
from harness.serve.start import NotServedError
from harness.serve.tokens import Tokens
from harness.serve.users import ServerUse
from tests.unit.bridge.certificates import certificate
from tests.unit.bridge.stage import make_hub

SETTINGS = "[tool.harness.serve]\ntls_cert = 'valid.pem'\ntls_key = 'valid.pem'\n"


@contextlib.asynccontextmanager
async def secured(root: Path, file: Path) -> AsyncIterator[None]:
    """A server with a bridge and this certificate."""
    over, ready, clock = asyncio.Event(), asyncio.Event(), SystemClock()
    server = ProjectServer(root, mcp_routes(make_hub(), lambda _: True), clock, Tokens.of(root))
    running = asyncio.create_task(
        server.run(bind("127.0.0.1", 0), ready.set, lambda: not over.is_set(), certificate=(file, file), inside=True)
    )
    async with asyncio.timeout(20):
        await ready.wait()
        yield
        over.set()
        await running


def told(root: Path, other: Path | None = None) -> FaceReply:
    """What `tasks_list` answers from a server that has the certificate of the project, or that of another folder."""
    settings = settings_at(root)

    async def main() -> FaceReply:
        async with secured(root, (other or root) / "valid.pem"):
            relay = ServerRelay(settings, SystemClock(), ServerUse(root), persist=True)
            attending = asyncio.create_task(relay.attend())
            try:
                return await relay.call("tasks_list", {}, "fake 1")
            finally:
                attending.cancel()

    return asyncio.run(main())


@pytest.mark.parametrize("issued", [False, True], ids=["self-signed", "issued"])
def test_the_certificate_of_the_project_is_trusted_whoever_issued_it(tmp_path: Path, *, issued: bool) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    certificate(tmp_path, issued=issued)
    assert told(tmp_path) == FaceReply({"tasks": [], "sessions": []})


def test_a_server_with_another_certificate_is_not_told_the_token(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS, "utf-8")
    (tmp_path / "other").mkdir()
    certificate(tmp_path)
    certificate(tmp_path / "other")
    reply = told(tmp_path, tmp_path / "other")
    assert (reply.is_error, reply.structured["code"]) == (True, "CONN_TLS_HANDSHAKE_FAILED")


@contextlib.asynccontextmanager
async def dying(root: Path) -> AsyncIterator[None]:
    """A server that is killed by the first call of a tool."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/health" in await reader.readuntil(b"\r\n\r\n"):
            body = json.dumps({"service": SERVICE}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        else:
            server.close()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    keep_address(root, "127.0.0.1", server.sockets[0].getsockname()[1], secure=False)
    yield


@pytest.mark.parametrize("starts", [False, True])
def test_a_server_that_is_killed_in_a_call_is_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    """`starts`: another one is being started, and takes its time."""

    async def serving(*_: Any, **__: Any) -> Any:
        if not starts:
            raise NotServedError("there is no room for it")
        await asyncio.sleep(2)
        raise NotServedError("late")

    async def main() -> FaceReply:
        relay = ServerRelay(settings_at(tmp_path), SystemClock(), ServerUse(tmp_path), persist=True)
        async with dying(tmp_path):
            attending = asyncio.create_task(relay.attend())
            try:
                return await relay.call("act", {"session": "sess-1", "turn": 1, "step": {}}, "fake 1")
            finally:
                attending.cancel()

    monkeypatch.setattr(mcp_relay, "serving", serving)
    monkeypatch.setattr(mcp_relay, "AWAY", 0.3 if starts else 6.0)
    monkeypatch.setattr(mcp_relay, "LOOK", 0.1)
    told = asyncio.run(main()).structured
    assert told["code"] == "CONN_NO_SERVER"
    assert ("another one is being started" if starts else "no room") in told["message"]
