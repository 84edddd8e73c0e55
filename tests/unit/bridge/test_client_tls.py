"""Certificates that the clients refuse, and those that are pinned: the same for both."""

from __future__ import annotations

import asyncio
import http
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from harness.bridge.client import Bridge, ConnectionRefusedForGood
from tests.unit.bridge.certificates import certificate
from tests.unit.bridge.small_server import SmallServer
from tests.unit.bridge.test_javascript_client import CLIENT, NODE

WRONG = "ab" * 32


def blob(connection: ServerConnection, request: Request) -> Response | None:
    if not request.path.startswith("/blobs/"):
        return None
    assert request.headers["authorization"] == "Bearer t0ken"
    return connection.respond(http.HTTPStatus.OK, "a picture")


@asynccontextmanager
async def secured(context: ssl.SSLContext, seen: list[str]) -> AsyncIterator[str]:
    """A server with a certificate; what clients say goes to `seen`."""

    async def answer(client: ServerConnection) -> None:
        server = SmallServer()
        with suppress(ConnectionClosed):
            async for text in client:
                seen.append(str(text))
                for each in server.handle(str(text)):
                    await client.send(json.dumps(each))

    async with serve(answer, "127.0.0.1", 0, ssl=context, process_request=blob) as server:
        yield f"wss://localhost:{server.sockets[0].getsockname()[1]}/bridge"


async def in_python(url: str, pin: str) -> Any:
    try:
        async with Bridge(url, "t0ken", pin=pin) as bridge:
            return {"session": bridge.session, "blob": (await bridge.blob("b" * 64)).decode()}
    except ConnectionRefusedForGood as refused:
        return refused.document


async def in_javascript(url: str, *pins: str) -> Any:
    script = str(Path(__file__).with_name("certificates.mjs"))
    process = await asyncio.create_subprocess_exec(NODE, script, str(CLIENT), url, *pins, stdout=-1)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    return json.loads(out)


def reason(document: Any) -> Any:
    assert document["type"] == "connection_error", document
    payload = document["payload"]
    assert (payload["code"], payload["recoverable"]) == ("CONN_TLS_HANDSHAKE_FAILED", False)
    return payload["details"]


@pytest.mark.parametrize("expired", [False, True])
def test_certificates_are_refused_with_a_reason_or_pinned(tmp_path: Path, expired: bool) -> None:
    context, fingerprint = certificate(tmp_path, expired=expired)
    seen = list[str]()

    async def both() -> list[Any]:
        async with secured(context, seen) as url:
            pins = ("", WRONG, fingerprint)
            return [*[await in_python(url, pin) for pin in pins], *await in_javascript(url, *pins)]

    unknown, wrong, pinned, *others = asyncio.run(both())
    assert [unknown, wrong, pinned] == others
    refused = reason(unknown)
    expected = ("CERTIFICATE_EXPIRED", "regenerate_certificates") if expired else ("SELF_SIGNED", "pin_the_certificate")
    assert (refused["reason"], refused["suggested_action"]) == expected
    assert refused["fingerprint"] == fingerprint
    assert reason(wrong)["reason"] == "PIN_MISMATCH"
    if expired:
        found = reason(pinned)
        assert (found["reason"], found["expiry"]) == ("CERTIFICATE_EXPIRED", "2026-03-01T00:00:00Z")
        assert found["suggested_action"] == "regenerate_certificates"
        assert seen == []  # nobody but the owner of the certificate hears the token
    else:
        assert pinned == {"session": "s-1", "blob": "a picture"}


def test_a_server_without_tls_is_told_apart() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def both() -> list[Any]:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/bridge"
            return [await in_python(url, ""), *await in_javascript(url, "")]

    for document in asyncio.run(both()):
        assert reason(document)["reason"] == "HANDSHAKE_FAILED"
