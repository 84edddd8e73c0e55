"""`harness mcp` and a server that has a certificate."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.bridge.mcp_face import mcp_routes
from harness.bridge.mcp_tools import FaceReply
from harness.cli.mcp_relay import ServerRelay
from harness.cli.project import settings_at
from harness.resilience import SystemClock
from harness.serve.server import ProjectServer, bind
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
