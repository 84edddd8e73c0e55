"""The client in JavaScript behaves as its twin in Python: both meet the same server and the same cuts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from socket import socket
from typing import Any

import playwright
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.unit.bridge.small_server import SmallServer

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients/js/bridge.mjs"
NODE = str(Path(playwright.__file__).with_name("driver") / "node")
"""Node as Playwright brings it."""
SCRIPT = Path(__file__).with_name("javascript_client.mjs")


class Worlds:
    """A server for each path, whose first connection is cut as the path says, as in `-client-3`."""

    def __init__(self) -> None:
        self.of: dict[str, SmallServer] = {}

    def server(self, name: str) -> SmallServer:
        made = SmallServer(slow=2 if name in ("slow", "expires") else 0, expires=name == "expires")
        if name == "refuses":
            made.refuses = {"code": "AUTH_INVALID", "message": "the token is wrong"}
        made.complete = name != "incomplete"
        return self.of.setdefault(name, made)

    async def serve(self, client: ServerConnection) -> None:
        assert client.request is not None
        name = client.request.path.strip("/")
        first, server = name not in self.of, self.server(name)
        direction, _, number = name.partition("-")
        cut = (direction, int(number)) if first and number else None
        count = {"client": 0, "server": 0}
        try:
            async for text in client:
                count["client"] += 1
                if cut == ("client", count["client"]):
                    break
                for each in server.handle(str(text)):
                    count["server"] += 1
                    if cut == ("server", count["server"]):
                        return
                    await client.send(json.dumps(each))
        except ConnectionClosed:
            pass
        finally:
            client.transport.abort()


async def play_in_node(worlds: Worlds) -> dict[str, Any]:
    async with serve(worlds.serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with socket() as closed:
            closed.bind(("127.0.0.1", 0))
            nobody = f"ws://127.0.0.1:{closed.getsockname()[1]}/bridge"
        command = (NODE, str(SCRIPT), str(CLIENT), f"ws://127.0.0.1:{port}", nobody)
        process = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.fixture(scope="module")
def played() -> tuple[Worlds, dict[str, Any]]:
    worlds = Worlds()
    return worlds, asyncio.run(play_in_node(worlds))


@pytest.fixture
def told(played: tuple[Worlds, dict[str, Any]]) -> dict[str, Any]:
    return played[1]


def test_a_cut_at_any_message_changes_nothing(played: tuple[Worlds, dict[str, Any]]) -> None:
    worlds, told = played
    names = [*told["cuts"], "slow", "expires"]
    assert len(names) == 18
    for name in names:
        found = told["cuts"].get(name) or told[name]
        assert found == {
            "goal": "Buy a mouse",
            "inputs": {"max": 30},
            "aria": "- heading 0",
            "passed": True,
            "over": True,
            "left": None,
        }
        assert [each["value"] for each in worlds.of[name].done] == ["0", "1", "2"], name
        assert len({number for kind, number in worlds.of[name].came if kind == "act"}) == 3


def test_the_delays_and_the_circuit_are_those_of_python(told: dict[str, Any]) -> None:
    assert told["delays"] == [0, 1, 2, 5, 10, 30]
    assert (told["exhausted"]["name"], told["exhausted"]["code"]) == (
        "ReconnectionExhausted",
        "CONN_RECONNECTION_EXHAUSTED",
    )
    assert told["state"] == ["failed", "open"]
    assert told["circuit"]["code"] == "CONN_CIRCUIT_OPEN"
    assert told["again"] == ["joined", "closed", "s-1"]
    assert told["first"] == [1, 2, 5, 10]
    assert "nothing listens there" in told["nobody"]["message"]
    assert told["afterwards"]["code"] == "CONN_RECONNECTION_EXHAUSTED"  # nobody waits for ever


def test_a_closed_client_leaves_no_timer_that_keeps_node_alive(told: dict[str, Any]) -> None:
    assert told["closed"] == ["CONN_CLOSED", 0, 0]


def test_a_fault_of_the_agents_own_function_is_the_answer_of_all_that_wait(told: dict[str, Any]) -> None:
    assert told["tells"] == ["TypeError", "TypeError"]


def test_a_message_that_breaks_rules_is_told_with_the_rules(told: dict[str, Any]) -> None:
    assert told["broken"] == "PROTO_INVALID_MESSAGE: Message validation failed: type (unknown)"


def test_a_refused_token_ends_at_once(told: dict[str, Any]) -> None:
    assert told["refused"]["name"] == "ConnectionRefusedForGood"
    assert told["refused"]["document"] == {
        "type": "connection_error",
        "payload": {
            "code": "AUTH_INVALID",
            "message": "the token is wrong",
            "details": {},
            "recoverable": False,
        },
    }


def test_what_waits_is_bounded_and_sent_in_order_after_the_session_is_whole(
    played: tuple[Worlds, dict[str, Any]],
) -> None:
    worlds, told = played
    assert told["full"] == "CONN_QUEUE_FULL"
    assert told["flushed"] == ["hook_received"] * 5
    assert told["synchronized"] is True
    kinds = [kind for kind, _ in worlds.of["incomplete"].came]
    assert kinds[2:6] == ["auth", "session_join", "synchronize", "hook_event"]
    assert kinds.count("hook_event") == 1000
