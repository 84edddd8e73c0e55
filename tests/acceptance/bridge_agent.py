"""A client of the bridge that comes back after every loss, and a proxy that loses its connection."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import websockets

Cut = tuple[str, int, bool]
"""The side (`up`: from the client), after how many of its frames, and whether inside the next one."""


class CuttingProxy:
    """Passes a connection on, and cuts the first one after some frames."""

    def __init__(self, port: int, cut: Cut | None) -> None:
        self._port = port
        self._cut = cut
        self.cuts = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/bridge"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cut, self._cut = self._cut, None
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ends = (writer, far_writer)
        sides = [self._pass(reader, far_writer, cut, "up"), self._pass(far_reader, writer, cut, "down")]
        tasks = [asyncio.create_task(each) for each in sides]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for each in ends:
            each.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: Cut | None, side: str
    ) -> None:
        try:
            writer.write(await reader.readuntil(b"\r\n\r\n"))
            count = 0
            while True:
                frame = await _frame(reader)
                if cut is not None and cut[:2] == (side, count):
                    self.cuts += 1
                    if cut[2]:
                        writer.write(frame[: len(frame) // 2])
                        await writer.drain()
                    return
                writer.write(frame)
                count += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            return


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(2)
    size, masked = head[1] & 127, bool(head[1] & 128)
    more = await reader.readexactly({126: 2, 127: 8}.get(size, 0))
    body = int.from_bytes(more) if more else size
    return head + more + await reader.readexactly(body + (4 if masked else 0))


class LastingAgent:
    """Asks one thing after the other; after a loss it joins, reads what it missed, and asks again with the same id."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        self._socket: Any = None
        self.session, self.seq, self.epoch = "", 0, ""
        self.answers: list[str] = []
        """The ids of the final answers, in order."""
        self.heard: list[str] = []
        """All frames of the server."""

    async def ask(self, type: str, **payload: Any) -> dict[str, Any]:  # noqa: A002
        """The final answer to one message."""
        sent = self.message(type, payload)
        for _ in range(20):
            try:
                if self._socket is None and (found := await self._join(sent["id"])):
                    return found
                return await self._exchange(sent)
            except (websockets.ConnectionClosed, OSError, EOFError, websockets.InvalidHandshake):
                self._socket = None
        raise AssertionError("the connection is lost again and again")

    async def _join(self, awaited: str) -> dict[str, Any] | None:
        """Connect; returns the answer that is waited for if it was missed."""
        self._socket = await websockets.connect(self._url)
        await self._exchange(self.message("auth", {"token": self._token}))
        if not self.session:
            state = await self._exchange(self.message("session_create", {"agent": "lasting"}))
            self.session, self.epoch = state["payload"]["session"], state["payload"]["epoch"]
            return None
        after = {"after": self.seq, "epoch": self.epoch}
        join = self.message("session_join", {"session": self.session, **after})
        replay = await self._exchange(join, until="replay_buffer")
        assert replay["payload"].get("complete"), replay
        missed = [each for each in replay["payload"]["messages"] if each["seq"] > self.seq]
        for each in missed:
            self._see(each)
        return next((each for each in missed if each["id"] == awaited and each["type"] != "pending"), None)

    async def _exchange(self, sent: Mapping[str, Any], until: str = "") -> dict[str, Any]:
        await self._socket.send(json.dumps(sent))
        while True:
            self.heard.append(await self._socket.recv())
            message: dict[str, Any] = json.loads(self.heard[-1])
            if "seq" in message:
                self._see(message)
            last = message["type"] == "error" or until in ("", message["type"])
            if message["id"] == sent["id"] and message["type"] != "pending" and last:
                return message

    def _see(self, message: Mapping[str, Any]) -> None:
        if message["seq"] > self.seq:
            assert message["seq"] == self.seq + 1, "a message is missing"
            self.seq = message["seq"]

    @staticmethod
    def message(type: str, payload: Mapping[str, Any]) -> dict[str, Any]:  # noqa: A002
        moment = datetime.now(UTC).isoformat()
        return {"type": type, "id": str(uuid4()), "timestamp": moment, "payload": dict(payload)}

    async def do(self, steps: Sequence[Mapping[str, Any]], task: str = "") -> dict[str, Any]:
        """Take a task, do these steps, and finish; returns how it ended."""
        turn = (await self.ask("task_take", task=task, wait_ms=60_000))["payload"]["turn"]
        for step in steps:
            outcome = await self.ask("act", turn=turn, step=dict(step))
            if outcome["type"] != "outcome":
                return outcome
            turn = outcome["payload"]["turn"]["turn"]
        return await self.ask("finish", turn=turn)

    async def drop(self) -> None:
        """Be gone without a word."""
        if self._socket is not None:
            await self._socket.close()

    async def leave(self) -> None:
        await self.ask("session_close")
        await self._socket.close()
