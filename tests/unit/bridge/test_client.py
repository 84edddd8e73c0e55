"""The client loses its connection everywhere, and nothing is done twice or lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.bridge.client import (
    Bridge,
    ConnectionRefusedForGood,
    LinkState,
    MessageRefusedError,
    QueueFullError,
    ReconnectionExhausted,
)
from harness.bridge.client.connection import Outbox
from harness.bridge.client.link import bridge_url, read_pin
from harness.bridge.client.losses import BridgeError, LinkLost, refusal
from tests.unit.bridge.small_server import LOST, Network, SmallServer
from tests.unit.resilience.virtual import LoopClock, now, play

pytestmark = pytest.mark.fake_clock

REFUSED = LinkLost("CONN_CONNECT_FAILED", "nothing listens there")
STEP = {"act": "click", "selector": "#buy"}


def bridge(network: Network, **options: Any) -> Bridge:
    return Bridge("ws://here", "t0ken", clock=LoopClock(), connect=network.open, **options)


async def purchase(client: Bridge) -> Any:
    task = await client.take()
    assert task is not None
    assert (task.goal, task.inputs, task.over) == ("Buy a mouse", {"max": 30}, False)
    assert (await task.observe()).aria == "- heading 0"
    for number in range(3):
        assert (await task.act({**STEP, "value": str(number)})).passed
    return await task.finish()


@pytest.mark.parametrize("direction", ["client", "server"])
def test_a_cut_at_any_message_changes_nothing(direction: str) -> None:
    for number in range(1, 9):
        network = Network(SmallServer(), cuts=[(direction, number)])

        async def run(network: Network = network) -> None:
            async with bridge(network) as client:
                verdict = await purchase(client)
                assert verdict.passed
            assert [each["value"] for each in network.server.done] == ["0", "1", "2"]

        play(run())
        assert network.opened == 2
        acts = [number for kind, number in network.server.came if kind == "act"]
        assert len(set(acts)) == 3  # what was sent again had the same id


async def test_the_delays_of_a_loss_are_those_of_the_specification() -> None:
    network, when = Network(SmallServer()), list[float]()

    async def noting() -> Any:
        when.append(round(now(), 2))
        return await network.open()

    client = Bridge("ws://here", "t", clock=LoopClock(), connect=noting)
    await client.open()
    assert network.link is not None
    network.attempts = [REFUSED] * 99
    when.clear()
    network.link.cut()
    with pytest.raises(ReconnectionExhausted, match="6 attempts"):
        await client.request("synchronize")
    assert (client.state, client.circuit.state) == (LinkState.FAILED, "open")
    with pytest.raises(ReconnectionExhausted) as again:
        await client.reconnect()
    assert again.value.code == "CONN_CIRCUIT_OPEN"
    await asyncio.sleep(30)
    network.attempts = []
    await client.reconnect()
    assert (client.session, client.circuit.state) == ("s-1", "closed")
    await client.close()
    assert when == [0, 1, 3, 8, 18, 48, 78]


@pytest.mark.parametrize(
    ("first", "expected"),
    [(REFUSED, [0, 1, 3, 8, 18]), (LinkLost("CONN_CONNECT_FAILED", "reset", at_once=True), [0, 0, 1, 3, 8, 38])],
)
def test_the_first_connection_is_attempted_for_a_while(first: LinkLost, expected: list[float]) -> None:
    network, when = Network(SmallServer(), [first] * 99), list[float]()

    async def opening() -> Any:
        when.append(round(now(), 2))
        return await network.open()

    async def run() -> None:
        with pytest.raises(ReconnectionExhausted):
            await Bridge("ws://here", "t", clock=LoopClock(), connect=opening).open()

    play(run())
    assert when == expected  # the circuit opens after five failures and rests for 30 s


async def test_what_waits_is_sent_in_order_with_the_same_ids_after_the_session_is_whole_again() -> None:
    network = Network(SmallServer())
    async with bridge(network) as client:
        assert network.link is not None
        network.attempts = [REFUSED, REFUSED]
        network.link.cut()
        await asyncio.sleep(0.5)
        assert client.state is LinkState.AWAY
        network.server.complete = False
        hooks = [client.request("hook_event", **_hook(number)) for number in range(5)]
        answers = await asyncio.gather(*hooks)
        assert {each["type"] for each in answers} == {"hook_received"}
        assert client.status["synchronized"]
    kinds = [kind for kind, _ in network.server.came]
    returned = kinds.index("session_join")
    assert kinds[returned : returned + 7] == [
        "session_join", "synchronize", *["hook_event"] * 5,
    ]  # fmt: skip


def _hook(number: int) -> dict[str, Any]:
    moment = "2026-03-20T14:32:00+00:00"
    return {"event": "Stop", "timestamp": moment, "session_id": "a", "payload": {"n": number}}


def test_the_queue_is_bounded() -> None:
    box = Outbox()
    for number in range(1000):
        box.add(str(number), "x")
    with pytest.raises(QueueFullError, match="1,000 messages"):
        box.add("more", "x")
    box.answered("7")
    box.add("more", "x")
    assert [each.id for each in box.unsent()][-2:] == ["999", "more"]
    assert list(box.unsent()) == []
    box.lost()
    assert len(list(box.unsent())) == len(box) == 1000
    large = Outbox()
    large.add("a", "x" * 1024 * 1000)
    with pytest.raises(QueueFullError):
        large.add("b", "é" * 1024 * 20)
    large.clear()
    large.add("b", "é" * 1024 * 20)


async def test_who_waits_while_the_connection_is_given_up_is_told_and_nothing_is_sent_later() -> None:
    network = Network(SmallServer())
    async with bridge(network, delays=(1.0,)) as client:
        task = await client.take()
        assert task is not None
        assert network.link is not None
        network.attempts = [REFUSED] * 2
        network.link.cut()
        with pytest.raises(ReconnectionExhausted):
            await task.act(STEP)
        await client.reconnect()
        await asyncio.sleep(1)
        assert network.server.done == []


@pytest.mark.parametrize("expires", [False, True])
async def test_a_pending_answer_is_followed(expires: bool) -> None:
    network = Network(SmallServer(slow=3, expires=expires))
    async with bridge(network) as client:
        task = await client.take()
        assert task is not None
        assert (await task.act(STEP)).passed
        assert now() == pytest.approx(1.5)
        assert task.turn == 2
    assert len(network.server.done) == 1


REFUSALS = [
    {"code": "AUTH_INVALID", "message": "no"},
    {"code": "AUTH_EXPIRED", "message": "no"},
    {"code": "SYS_X", "message": "no", "recoverable": False},
]


@pytest.mark.parametrize("payload", REFUSALS)
async def test_a_refusal_that_is_not_recoverable_ends_at_once(payload: dict[str, Any]) -> None:
    network = Network(SmallServer(refuses=payload))
    with pytest.raises(ConnectionRefusedForGood) as refused:
        await bridge(network).open()
    assert refused.value.document["payload"]["recoverable"] is False
    assert now() == 0
    assert network.opened == 1


async def test_another_process_goes_on_with_the_task_of_a_session() -> None:
    network = Network(SmallServer())
    first = bridge(network)
    await first.open()
    task = await first.take()
    assert task is not None
    await task.act(STEP)
    await first.detach()
    async with bridge(network, session=first.session) as second:
        again = await second.take()
        assert again is not None
        assert (again.task_id, again.turn) == ("BUY-1", 2)
        assert (await again.act(STEP)).passed
    assert len(network.server.done) == 2


async def test_a_session_that_is_gone_is_not_asked_for_again() -> None:
    network = Network(SmallServer())
    async with bridge(network) as client:
        network.server.sessions.clear()
        assert network.link is not None
        network.link.cut()
        with pytest.raises(ConnectionRefusedForGood, match="SESS_NOT_FOUND"):
            await client.take()


async def test_a_server_that_is_silent_at_first_counts_as_lost() -> None:
    network = Network(SmallServer())
    network.server.handle = lambda text: []  # type: ignore[method-assign]
    with pytest.raises(ReconnectionExhausted, match="does not answer the first messages"):
        await bridge(network).open()


def test_a_message_that_breaks_rules_is_told_with_the_rules() -> None:
    violations = [{"field": "type", "constraint": "unknown"}, {"field": "payload.turn", "constraint": "required"}]
    error = refusal({"code": "PROTO_INVALID_MESSAGE", "message": "Message validation failed", "violations": violations})
    told = "PROTO_INVALID_MESSAGE: Message validation failed: type (unknown), payload.turn (required)"
    assert (str(error), error.message) == (told, "Message validation failed")


async def test_an_error_is_the_answer_of_its_message_alone() -> None:
    network = Network(SmallServer(offers=1))
    async with bridge(network) as client:
        task = await client.take()
        assert task is not None
        assert await client.take() is None
        task.turn = 7
        with pytest.raises(MessageRefusedError, match="SESS_TURN_OVER"):
            await task.act(STEP)
        task.turn = 1
        assert (await task.give_up("too hard")).code == "AGENT_GAVE_UP"
        assert task.over


async def test_the_end_of_a_task_is_noted_when_it_comes() -> None:
    network = Network(SmallServer())
    async with bridge(network) as client:
        task = await client.take()
        assert task is not None
        assert network.link is not None
        ended = {"passed": False, "code": "TASK_TIMEOUT"}
        network.server.tell({"type": "task_ended", "id": "0", "payload": ended})
        network.link.cut()
        await asyncio.sleep(1)
        assert task.verdict is not None
        assert task.verdict.code == "TASK_TIMEOUT"


async def test_nobody_waits_for_ever_for_a_client_that_did_not_connect() -> None:
    network = Network(SmallServer(), attempts=[REFUSED] * 99)
    client = bridge(network)
    with pytest.raises(ReconnectionExhausted):
        await client.open()
    for _ in range(2):
        with pytest.raises(ReconnectionExhausted):
            await asyncio.wait_for(client.take(), 5)
        with pytest.raises(ReconnectionExhausted):
            await client.reconnect()


@pytest.mark.parametrize("broken", ["tell", "server"])
async def test_a_fault_of_the_agent_or_of_the_server_ends_the_connection_and_who_waits_hears_it(broken: str) -> None:
    network = Network(SmallServer())

    def tell(_: str) -> None:
        raise TypeError("the agent's own")

    client = bridge(network, tell=tell)
    await client.open()
    assert network.link is not None
    network.server.handle = lambda _: [{"no": "message"}]  # type: ignore[method-assign,list-item]
    asked = asyncio.create_task(client.request("synchronize"))
    if broken == "tell":
        network.link.cut()
    with pytest.raises(BridgeError, match="CONN_FAILED"):
        await asyncio.wait_for(asked, 5)
    assert client.state is LinkState.FAILED
    await client.detach()


async def test_a_task_that_came_for_an_agent_that_had_given_up_waiting_is_the_next_ones() -> None:
    network = Network(SmallServer(offers=0))
    async with bridge(network) as client:
        turn = {"turn": 1, "task_id": "BUY-1", "goal": "Buy a mouse"}
        handle, network.server.handle = network.server.handle, lambda _: []  # type: ignore[method-assign]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.take(), 1)
        network.server.handle = handle  # type: ignore[method-assign]
        assert network.link is not None
        network.link.say(network.server.tell({"type": "turn", "id": "0", "payload": turn}))
        await asyncio.sleep(1)
        task = await client.take()
        assert task is not None
        assert (task.task_id, await client.take()) == ("BUY-1", None)


def test_addresses_and_pins() -> None:
    assert bridge_url("http://127.0.0.1:1/") == "ws://127.0.0.1:1/bridge"
    assert bridge_url("wss://host/other") == "wss://host/other"
    assert read_pin("sha256:" + ":".join(["AB"] * 32)) == "ab" * 32
    with pytest.raises(ValueError, match="expected an address"):
        bridge_url("host:1")
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        read_pin("ab")
    assert LOST.at_once
