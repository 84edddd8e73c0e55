"""What a door of a task answers to requests that have no path."""

from __future__ import annotations

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

from harness.serve.doors import Doors


def test_a_request_without_a_path_is_refused_as_any_other() -> None:
    async def main() -> bytes:
        doors = Doors()
        try:
            door = await doors.open(lambda _: Response("inside"))
            host, port = door.address.partition("/")[0].split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"OPTIONS * HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {door.token}\r\n\r\n".encode())
            answer = await asyncio.wait_for(reader.readline(), 5)
            writer.close()
            return answer
        finally:
            await doors.close()

    assert asyncio.run(main()).split()[1] == b"404"


def test_a_program_may_send_a_file_in_one_message() -> None:
    """As Playwright does it over the DevTools protocol."""

    async def size_of_first(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": str(len((await receive())["text"]))})

    async def main() -> str | bytes:
        doors = Doors()
        try:
            door = await doors.open(lambda _: size_of_first)
            async with connect(f"ws://{door.address}", proxy=None, compression=None) as socket:
                await socket.send("x" * 2_000_000)
                return await asyncio.wait_for(socket.recv(), 5)
        finally:
            await doors.close()

    assert asyncio.run(main()) == "2000000"
