"""The HTTP face under a clock that jumps."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from harness.bridge.http_face import ANSWERED_WITHIN, http_routes, session_events
from harness.bridge.hub import BridgeHub
from harness.bridge.store import SessionStore, stored_sessions
from harness.cli.mcp_relay import ANSWERED_WITHIN as RELAYED_WITHIN
from harness.resilience.owner import Owner
from harness.values import replace
from tests.unit.bridge.stage import FakeClient, FakeRun, make_hub, message, taken
from tests.unit.resilience.virtual import LoopClock

pytestmark = pytest.mark.fake_clock


async def test_a_request_has_more_time_than_the_longest_work_is_waited_for() -> None:
    assert ANSWERED_WITHIN == 35 < RELAYED_WITHIN
    hub = make_hub()
    client, run, playing, session = await taken(hub, takes=60)
    client.drop()
    transport = httpx2.ASGITransport(app=Starlette(routes=http_routes(hub, lambda _: True)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as http:
        place, act = f"/sessions/{session}/messages", message("act", turn=1, step={"act": "click"})
        began = hub.clock.now()
        late = (await http.post(place, json=act)).json()
        assert (late["type"], late["payload"]["status"]) == ("pending", "timeout")
        assert hub.clock.now() - began == pytest.approx(30, abs=0.1)
        await asyncio.sleep(31)
        asked = message("command_result", correlation_id=late["payload"]["correlation_id"])
        assert (await http.post(place, json=asked)).json()["type"] == "outcome"
        assert len(run.done) == 1
        await http.post(place, json=message("finish", turn=2))
    await playing


async def test_a_client_over_http_goes_on_after_its_server_was_killed_and_came_back(tmp_path: Path) -> None:
    """It has its session, is told that it missed something, and takes its task again."""

    def served() -> tuple[BridgeHub, httpx2.AsyncClient]:
        store = SessionStore(tmp_path, Owner(2**22 + 1))
        hub = BridgeHub(LoopClock(), make_hub().desk, store=store)
        transport = httpx2.ASGITransport(app=Starlette(routes=http_routes(hub, lambda _: True)))
        return hub, httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None)

    hub, http = served()
    client, _, playing, session = await taken(hub)
    client.drop()
    place = f"/sessions/{session}"
    epoch = (await http.get(place)).json()["epoch"]
    playing.cancel()  # it is killed
    await asyncio.gather(playing, return_exceptions=True)
    stored = [each for each in stored_sessions(tmp_path) if each.id == session]
    SessionStore(tmp_path, Owner(2**22 + 1)).save(replace(stored[0], state="active", task="BUY"))
    hub, http = served()
    run = FakeRun(hub)
    playing = asyncio.create_task(run.play())
    act = message("act", turn=1, step={"act": "click"})
    assert (await http.post(f"{place}/messages", json=act)).json()["payload"]["code"] == "SESS_NO_TASK"
    assert hub.sessions[session].resumed
    events = session_events(hub, hub.sessions[session], f"{epoch}:1")
    assert b'"complete":false' in await anext(events)
    await events.aclose()
    for each in (message("task_take"), act, message("finish", turn=2)):
        answer = await http.post(f"{place}/messages", json={**each, "id": str(uuid4())})
        assert answer.status_code == 200
    await playing
    assert (run.ended, len(run.done)) == ("finished", 1)
    assert (await http.get("/sessions/sess-none")).status_code == 404
    assert (await http.delete(place)).json()["state"] == "closed"


async def test_a_stream_whose_client_is_gone_before_it_begins_holds_no_session() -> None:
    hub = make_hub(grace=10)
    client = FakeClient(hub)
    session = client.joins()
    client.drop()
    app, sent = Starlette(routes=http_routes(hub, lambda _: True)), list[Any]()

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    for last in (b"", b"epoch:" + b"9" * 5000):
        scope = {
            "type": "http", "method": "GET", "path": f"/sessions/{session}/messages", "query_string": b"",
            "headers": [(b"last-event-id", last)],
        }  # fmt: skip
        await app(scope, gone, send)
        await asyncio.sleep(1)
        assert not hub.sessions[session].attached
    assert [each["status"] for each in sent if "status" in each] == [200, 200]
    await asyncio.sleep(10)
    assert not hub.sessions


async def test_a_replay_larger_than_what_may_wait_for_a_client_is_sent() -> None:
    hub = make_hub(replay_bytes=4 * 1024 * 1024)
    session = hub.sessions[FakeClient(hub).joins()]
    for _ in range(30):
        session.send("outcome", {"message": "x" * 100_000})
    events = session_events(hub, session, f"{session.buffer.epoch}:0")
    seen = [await anext(events) for _ in range(30)]
    assert b'"seq":30' in seen[-1]
    await events.aclose()
    await hub.stop()


async def test_a_request_that_waits_when_the_server_ends_is_told_so() -> None:
    hub = make_hub()
    client, run, playing, session = await taken(hub, takes=5)
    client.drop()
    transport = httpx2.ASGITransport(app=Starlette(routes=http_routes(hub, lambda _: True)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as http:
        act = message("act", turn=1, step={"act": "click"})
        asked = asyncio.create_task(http.post(f"/sessions/{session}/messages", json=act))
        await asyncio.sleep(1)
        await hub.stop()
        answer = await asked
        assert (answer.status_code, answer.json()["payload"]["code"]) == (503, "SYS_STOPPING")
    await playing
    assert (run.ended, len(run.done)) == ("AGENT_LOST", 1)
