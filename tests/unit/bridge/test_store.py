"""Sessions whose server was killed: what may go on, what must not, and a damaged file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from harness.bridge.http_face import http_routes
from harness.bridge.hub import BridgeHub
from harness.bridge.mcp_tools import BridgeTools
from harness.bridge.store import STORE, SessionStore, StoredSession, stored_sessions
from harness.model.events import WriteSeen
from harness.model.record import Sent
from harness.recovery.failure import Failure
from harness.resilience.owner import Owner
from tests.unit.bridge.stage import FakeClient, FakeRun, make_hub, message, taken
from tests.unit.fakes import Theatre
from tests.unit.resilience.virtual import LoopClock

pytestmark = pytest.mark.fake_clock

READ, WRITE = {"act": "open", "url": "/"}, {"act": "submit", "selector": "#checkout"}


def hub_of(root: Path, *, alive: bool = False) -> BridgeHub:
    """A hub on the project's file, as a process has it that dies without a word, unless it is `alive`."""
    return BridgeHub(LoopClock(), make_hub().desk, store=SessionStore(root, None if alive else Owner(2**22 + 1)))


@pytest.mark.parametrize(
    ("step", "joins"), [(None, True), (READ, True), ({"act": "click", "selector": "a"}, True), (WRITE, False)]
)
async def test_a_session_goes_on_after_a_kill_only_if_nothing_was_written(
    tmp_path: Path, step: dict[str, str] | None, *, joins: bool
) -> None:
    client, _, playing, session = await taken(hub_of(tmp_path))
    if step is not None:
        await client.ask("act", turn=1, step=step)
    again = FakeClient(hub_of(tmp_path))
    again.joins(session, after=3, epoch="before")
    told = again.heard[1]
    if joins:
        assert (told["payload"]["session"], told["payload"]["resumed"]) == (session, True)
        assert not again.heard[2]["payload"]["complete"]
    else:
        assert told["payload"]["code"] == "SESS_NOT_RESUMABLE"
    playing.cancel()
    await asyncio.gather(playing, return_exceptions=True)


async def test_a_session_of_a_server_that_runs_is_not_taken_from_it(tmp_path: Path) -> None:
    first = FakeClient(hub_of(tmp_path, alive=True))
    session = first.joins()
    again = FakeClient(hub_of(tmp_path))
    again.joins(session)
    assert again.heard[-1]["payload"]["code"] == "SESS_NOT_FOUND"


async def test_of_two_servers_only_one_goes_on_with_a_session_that_was_left(tmp_path: Path) -> None:
    """Both have begun before its server died."""
    one, other = hub_of(tmp_path, alive=True), hub_of(tmp_path, alive=True)
    session = FakeClient(hub_of(tmp_path)).joins()
    told = []
    for each in (one, other):
        client = FakeClient(each)
        client.joins(session)
        told.append(client.heard[1]["payload"].get("code", "joined"))
    assert told == ["joined", "SESS_NOT_FOUND"]


def test_processes_that_claim_a_session_at_once_do_not_both_get_it(tmp_path: Path) -> None:
    SessionStore(tmp_path, Owner(2**22 + 1)).save(StoredSession("sess-1", "active"))
    stores, barrier = [SessionStore(tmp_path) for _ in range(4)], Barrier(4)

    def claims(store: SessionStore) -> bool:
        barrier.wait(10)
        return store.claim("sess-1") is not None

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(claims, stores)) == 1


def test_a_server_that_is_dead_and_not_reaped_has_no_session(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as server:
        owner = Owner.of(server.pid)
        SessionStore(tmp_path, owner).save(StoredSession("sess-1", "active"))
        store = SessionStore(tmp_path)
        assert store.claim("sess-1") is None
        server.kill()
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        assert store.claim("sess-1") is not None


async def test_a_session_that_cannot_be_claimed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.bridge.store.WAIT_MS", 1)
    session = FakeClient(hub_of(tmp_path)).joins()
    client, other = FakeClient(hub_of(tmp_path)), sqlite3.connect(tmp_path / STORE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    client.joins(session)
    assert client.heard[1]["payload"]["code"] == "SESS_NOT_RESUMABLE"
    other.rollback()
    other.close()
    FakeClient(client.hub).joins(session)
    assert session in client.hub.sessions


async def test_a_session_of_a_server_that_was_stopped_goes_on_and_knows_what_it_has_had(tmp_path: Path) -> None:
    hub = hub_of(tmp_path)
    session = FakeClient(hub).joins()
    hub.find(session).has_had("T-1")
    await hub.stop(resumable=True)
    after = hub_of(tmp_path)
    FakeClient(after).joins(session)
    assert after.find(session).had == ["T-1"]
    await after.stop()
    last = FakeClient(hub_of(tmp_path))
    last.joins(session)
    assert last.heard[-1]["payload"]["code"] == "SESS_CLOSED"  # a run that is over has closed it


def test_a_damaged_file_is_put_aside_and_said(tmp_path: Path) -> None:
    (tmp_path / STORE).parent.mkdir()
    (tmp_path / STORE).write_bytes(b"no database at all, but long enough to look like one" * 100)
    with pytest.raises(OSError, match="cannot be read"):
        stored_sessions(tmp_path)
    store = SessionStore(tmp_path)
    assert "was damaged" in store.note
    assert len(list((tmp_path / STORE).parent.glob("*.broken-*"))) >= 1
    store.save(StoredSession("sess-1", "active"))
    assert [each.id for each in stored_sessions(tmp_path)] == ["sess-1"]
    store.close()


def test_a_file_of_another_version_is_put_aside_and_said(tmp_path: Path) -> None:
    SessionStore(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / STORE)) as other:
        other.execute("PRAGMA user_version = 77")
    store = SessionStore(tmp_path)
    assert "was of schema 77: it is kept as serve.sqlite3.broken-" in store.note
    store.save(StoredSession("sess-1", "active"))
    assert [each.id for each in stored_sessions(tmp_path)] == ["sess-1"]


def test_rows_that_cannot_be_read_are_left_out_and_said(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, Owner(2**22 + 1))
    store.save(StoredSession("sess-1", "active"))
    with sqlite3.connect(tmp_path / STORE) as other:
        for content in (b"{", "text", 7, b'{"id": 3}'):
            other.execute("INSERT INTO sessions VALUES (?, ?)", (f"sess-{content!r}", content))
    after = SessionStore(tmp_path)
    assert "4 of its sessions cannot be read" in after.note
    assert (after.claim("sess-b'{'"), after.claim("sess-2")) == (None, None)
    assert after.claim("sess-1") is not None


async def test_a_request_that_writes_is_written_down_before_its_step_ends(tmp_path: Path) -> None:
    """The step is a click of which the file says nothing; the server may be killed before the answer comes."""
    hub = hub_of(tmp_path)
    _, run, playing, _ = await taken(hub)
    theatre = Theatre()
    ports = hub.joined(theatre.ports())
    assert [each.wrote for each in stored_sessions(tmp_path) if each.task] == [False]
    seen = WriteSeen(run.plan, 0, Sent("POST", "http://shop.local/cart"))
    ports.emit(seen)
    assert [each.wrote for each in stored_sessions(tmp_path) if each.task] == [True]
    assert theatre.events == [seen]
    await hub.stop()
    await playing


@pytest.mark.parametrize("seconds", [2.0, 60.0])
async def test_while_the_file_cannot_be_written_sessions_go_on_and_no_write_begins(
    tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.bridge.store.WAIT_MS", 1)
    hub = hub_of(tmp_path)
    client, run, playing, _ = await taken(hub)
    other = sqlite3.connect(tmp_path / STORE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    assert (await client.ask("act", turn=1, step=READ))["payload"]["passed"]
    FakeClient(hub).joins()
    asyncio.get_running_loop().call_later(seconds, other.rollback)
    ended = await client.ask("act", turn=2, step=WRITE)
    if seconds == 60:
        assert (ended["payload"]["code"], len(run.done)) == ("ARTIFACTS_UNWRITABLE", 1)
    else:
        assert ended["payload"]["passed"]
        assert [each.wrote for each in stored_sessions(tmp_path) if each.task] == [True]
    other.close()
    await hub.stop()
    await playing


async def test_a_pause_stops_the_agents_clock_and_lets_nothing_be_done() -> None:
    client, run, playing, _ = await taken(make_hub(timeout=60))
    before = (await client.ask("session_pause"))["payload"]
    assert (before["state"], run.shown) == ("paused", False)
    assert (await client.ask("session_pause"))["payload"]["state"] == "paused"
    assert (await client.ask("act", turn=1, step=READ))["payload"]["code"] == "SESS_PAUSED"
    await asyncio.sleep(1000)
    run.fails = Failure("NET_CONNECTION_REFUSED", "the site does not answer")
    assert (await client.ask("session_resume"))["payload"]["code"] == "NET_CONNECTION_REFUSED"
    run.fails, run.differs = None, ("field #q: 'mouse' before, '' now",)
    resumed = (await client.ask("session_resume"))["payload"]
    assert (resumed["state"], resumed["restore_incomplete"], run.shown) == ("active", list(run.differs), True)
    left = before["open_turn"]["task_ms"] - resumed["open_turn"]["task_ms"]
    assert 0 <= left < 5000  # the task's time stood still, too
    assert (await client.ask("act", turn=1, step=READ))["payload"]["passed"]
    await client.ask("finish", turn=2)
    await playing
    assert run.ended == "finished"


async def test_a_session_can_be_paused_only_between_turns_and_not_for_ever() -> None:
    client, run, playing, _ = await taken(make_hub(), takes=10)
    client.say("act", turn=1, step=READ)
    await asyncio.sleep(1)
    assert (await client.ask("session_pause"))["payload"]["code"] == "SESS_NOT_PAUSABLE"
    await asyncio.sleep(10)
    await client.ask("session_pause")
    client.drop()
    await asyncio.sleep(1799)  # longer than the grace of a session that is not paused
    assert run.ended == ""
    await asyncio.sleep(2)
    assert (run.ended, run.shown) == ("AGENT_LOST", True)  # the page is shown again: it is the evidence
    await playing


async def test_pauses_and_their_ends_come_in_the_order_in_which_they_are_asked_for() -> None:
    client, run, playing, _ = await taken(make_hub())
    kinds = ["session_pause", "session_resume", "session_pause", "session_resume", "session_pause"]
    asked = [client.say(kind) for kind in kinds]
    states = [(await client.answer(number))["payload"]["state"] for number in asked]
    assert states == ["paused", "active", "paused", "active", "paused"]
    assert run.shown is False
    await client.ask("session_close")
    await playing


async def test_a_session_that_is_closed_while_its_pause_begins_shows_its_page() -> None:
    client, run, playing, _ = await taken(make_hub())
    run.closes = 3.0
    client.say("session_pause")
    await asyncio.sleep(1)
    client.say("session_close")
    await playing
    await asyncio.sleep(5)
    assert (run.ended, run.shown) == ("AGENT_LOST", True)


async def test_no_task_is_taken_in_a_pause_and_a_long_one_is_not_why_a_later_task_is_lost() -> None:
    hub = make_hub()
    client, run, playing, _ = await taken(hub)
    await client.ask("session_pause")
    await playing
    assert run.ended == "AGENT_LOST"
    assert "paused for more than 30 minutes" in str(run.why)
    later = FakeRun(hub, "LATER")
    playing = asyncio.create_task(later.play())
    assert (await client.ask("task_take"))["payload"]["code"] == "SESS_PAUSED"
    await client.ask("session_resume")
    assert (await client.ask("task_take"))["type"] == "turn"
    await client.ask("session_close")
    await playing
    assert "its client has closed it" in str(later.why)


@pytest.mark.parametrize(("step", "code"), [(READ, "SESS_NO_TASK"), (WRITE, "SESS_NOT_RESUMABLE")])
async def test_a_client_that_only_calls_goes_on_after_a_kill_as_one_that_joins(
    tmp_path: Path, step: dict[str, Any], code: str
) -> None:
    hub = hub_of(tmp_path)
    client, _, playing, session = await taken(hub)
    await client.ask("act", turn=1, step=step)
    over_http = Starlette(routes=http_routes(hub_of(tmp_path), lambda _: True))
    transport = httpx2.ASGITransport(app=over_http)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=None) as http:
        answer = await http.post(f"/sessions/{session}/messages", json=message("act", turn=2, step=step))
    assert code in answer.text
    tools = BridgeTools(hub_of(tmp_path))
    told = (await tools.call("act", {"session": session, "turn": 2, "step": step})).structured
    assert told["code"] == code
    if step is READ:
        assert (await tools.call("session_status", {"session": session})).structured["resumed"]
    await hub.stop()
    await playing
