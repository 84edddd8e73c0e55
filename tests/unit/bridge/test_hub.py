"""Sessions and turns under a clock that jumps: exactly once, escalation, grace, the newest connection."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from typing import Any
from unittest.mock import ANY

import pytest

from harness.bridge.hub import LONGEST_TEXT, RETURN_WITHIN, BridgeHub
from harness.bridge.session import REPLIES, BridgeLimits
from harness.bridge.turns import Desk, RemoteRules
from harness.bridge.websocket_face import BEHIND
from harness.model.ports import Observation
from harness.resilience.events import Escalated, InvariantBroken, ResilienceEvent
from tests.unit.bridge.stage import FakeClient, FakeRun, make_hub, message, taken
from tests.unit.resilience.virtual import LoopClock, now, play

pytestmark = pytest.mark.fake_clock

CLICK = {"act": "click", "selector": "#buy"}


async def test_an_agent_takes_a_task_acts_and_finishes() -> None:
    client, run, playing, _ = await taken(make_hub())
    seen = await client.ask("observe", turn=1, screenshot=True)
    assert seen["payload"]["aria"] == "- button"
    name = seen["payload"]["screenshot_blob"]["sha256"]
    assert client.hub.blob(name) == ("image/png", b"png")
    outcome = (await client.ask("act", turn=1, step=CLICK))["payload"]
    assert outcome["passed"] is True
    assert outcome["turn"]["turn"] == 2
    failed = (await client.ask("act", turn=2, step={**CLICK, "fails": True}))["payload"]
    assert (failed["passed"], failed["failure"]["code"]) == (False, "ELEMENT_NOT_FOUND")
    ended = await client.ask("finish", turn=3)
    assert (ended["type"], ended["payload"]["passed"]) == ("task_ended", True)
    await playing
    assert run.ended == "finished"
    assert (await client.ask("act", turn=3, step=CLICK))["payload"]["code"] == "SESS_NO_TASK"


async def test_the_verdict_is_told_only_if_the_settings_say_so() -> None:
    client, _, playing, _ = await taken(make_hub(reveal=False))
    ended = await client.ask("finish", turn=1)
    assert ended["payload"] == {"task_id": "BUY", "turn": 1}
    await playing


async def test_an_agent_that_gives_up_says_why() -> None:
    client, run, playing, _ = await taken(make_hub())
    assert (await client.ask("finish", turn=1, gave_up="sold out"))["payload"]["code"] == "AGENT_GAVE_UP"
    await playing
    assert run.ended == "AGENT_GAVE_UP"


async def test_the_same_message_five_times_acts_once_also_after_its_answer_has_expired() -> None:
    client, run, playing, _ = await taken(make_hub(), takes=40.0)
    sent = message("act", turn=1, step=CLICK)
    for _ in range(3):
        client.say("act", sent["id"], turn=1, step=CLICK)
        await asyncio.sleep(1)
    first = await client.answer(sent["id"])
    correlation = next(each for each in client.heard if each["type"] == "pending")["payload"]["correlation_id"]
    assert (await client.ask("command_result", correlation_id=correlation))["payload"] == first["payload"]
    await asyncio.sleep(31)
    number = client.say("command_result", correlation_id=correlation)
    await asyncio.sleep(0.01)
    expired = client.answers(number)[0]["payload"]
    assert expired["status"] == "expired"
    before = len(client.answers(sent["id"]))
    for _ in range(2):
        client.say("act", sent["id"], turn=1, step=CLICK)
        await asyncio.sleep(0.01)
    again = client.answers(sent["id"])[before:]
    assert [each["payload"] for each in again] == [first["payload"]] * 2
    assert len(run.done) == 1
    assert (await client.ask("act", turn=1, step=CLICK))["payload"]["code"] == "SESS_TURN_OVER"
    assert len(run.done) == 1
    await client.ask("finish", turn=2)
    await playing


async def test_an_id_with_another_content_is_refused() -> None:
    client, run, playing, _ = await taken(make_hub())
    number = client.say("act", turn=1, step=CLICK)
    client.say("act", number, turn=1, step={"act": "open", "url": "/"})
    await client.answer(number)
    await asyncio.sleep(0.1)
    codes = [each["payload"].get("code") for each in client.answers(number)]
    assert codes.count("PROTO_ID_REUSED") == 1
    assert run.done == [CLICK]
    await client.ask("finish", turn=2)
    await playing


async def test_two_acts_of_one_turn_are_one_act() -> None:
    client, run, playing, _ = await taken(make_hub(), takes=1)
    first, second = client.say("act", turn=1, step=CLICK), client.say("act", turn=1, step=CLICK)
    assert (await client.answer(second))["payload"]["code"] == "SESS_TURN_OVER"
    assert (await client.answer(first))["type"] == "outcome"
    assert len(run.done) == 1
    await client.ask("finish", turn=2)
    await playing


async def test_long_work_is_pending_at_two_five_and_thirty_seconds_and_its_answer_comes() -> None:
    client, _, playing, _ = await taken(make_hub(), takes=50)
    began = now()
    number = client.say("act", turn=1, step=CLICK)
    answer = await client.answer(number)
    assert now() - began == pytest.approx(50, abs=0.1)
    pending = [each["payload"] for each in client.answers(number) if each["type"] == "pending"]
    assert [(each["waited"], each["status"]) for each in pending] == [
        (2, "pending"), (5, "pending"), (30, "timeout"),
    ]  # fmt: skip
    assert len({each["correlation_id"] for each in pending}) == 1
    assert answer["type"] == "outcome"
    await client.ask("finish", turn=2)
    await playing


async def test_the_events_of_long_work_name_its_correlation_id_in_the_context_of_its_task() -> None:
    task: ContextVar[str] = ContextVar("task", default="")
    told: list[tuple[ResilienceEvent, str]] = []
    hub = BridgeHub(
        LoopClock(),
        Desk(("click", "open")),
        BridgeLimits(),
        RemoteRules(),
        lambda event: told.append((event, task.get())),
    )
    token = task.set("BUY")
    client, _, playing, _ = await taken(hub, takes=6)
    task.reset(token)
    number = client.say("act", turn=1, step=CLICK)
    await client.answer(number)
    pending = next(each["payload"] for each in client.answers(number) if each["type"] == "pending")
    found = [(event.waited, event.correlation_id, of) for event, of in told if isinstance(event, Escalated)]
    assert found == [(2, pending["correlation_id"], "BUY"), (5, pending["correlation_id"], "BUY")]
    await client.ask("finish", turn=2)
    await playing


async def test_who_no_longer_waits_is_told_nothing_and_the_work_goes_on() -> None:
    client, run, playing, _ = await taken(make_hub(), takes=10)
    number = client.say("act", turn=1, step=CLICK)
    await asyncio.sleep(3)
    name = client.answers(number)[0]["payload"]["correlation_id"]
    assert (await client.ask("task_take"))["payload"]["code"] == "SESS_BUSY"
    client.say("cancel", correlation_id=name)
    await asyncio.sleep(20)
    assert [each["type"] for each in client.answers(number)] == ["pending"]
    assert len(run.done) == 1
    assert (await client.ask("synchronize"))["payload"]["open_turn"]["turn"] == 2
    await client.ask("finish", turn=2)
    await playing


@pytest.mark.parametrize(("away", "code"), [(299.0, "finished"), (301.0, "AGENT_LOST")])
async def test_a_session_lives_for_its_grace_without_its_client(away: float, code: str) -> None:
    hub = make_hub()
    client, run, playing, session = await taken(hub, timeout=1000)
    client.drop()
    await asyncio.sleep(away)
    again = FakeClient(hub)
    again.joins(session)
    if code == "finished":
        assert (await again.ask("act", turn=1, step=CLICK))["payload"]["passed"]
        await again.ask("finish", turn=2)
    else:
        assert again.heard[-1]["payload"]["code"] == "SESS_CLOSED"
    await playing
    assert run.ended == code


async def test_the_agents_clock_stands_still_while_it_is_away_and_runs_while_it_is_there() -> None:
    hub = make_hub(timeout=60)
    client, run, playing, session = await taken(hub)
    await asyncio.sleep(50)
    client.drop()
    await asyncio.sleep(200)
    again = FakeClient(hub)
    again.joins(session)
    await asyncio.sleep(9)
    assert not run.ended
    await asyncio.sleep(2)
    assert run.ended == "AGENT_TIMEOUT"
    assert again.heard[-1]["type"] == "task_ended"
    await playing


async def test_the_time_of_a_look_is_not_the_agents() -> None:
    client, run, playing, _ = await taken(make_hub(timeout=60))
    run.looks = 55
    await client.ask("observe", turn=1)
    await asyncio.sleep(30)
    assert (await client.ask("act", turn=1, step=CLICK))["type"] == "outcome"
    await client.ask("finish", turn=2)
    await playing
    assert run.ended == "finished"


async def test_a_task_that_nobody_takes_says_so() -> None:
    run = FakeRun(make_hub(wait=60))
    await run.play()
    assert (run.ended, now()) == ("AGENT_UNAVAILABLE", pytest.approx(60))


async def test_a_task_is_not_given_to_a_session_whose_client_is_away() -> None:
    hub = make_hub()
    away, there = FakeClient(hub), FakeClient(hub)
    session = away.joins()
    away.say("task_take", wait_ms=600_000)
    await asyncio.sleep(1)
    away.drop()
    run = FakeRun(hub)
    playing = asyncio.create_task(run.play())
    await asyncio.sleep(5)
    assert hub.sessions[session].task is None
    there.joins()
    assert (await there.ask("task_take"))["type"] == "turn"
    await there.ask("finish", turn=1)
    await playing


async def test_the_newest_connection_has_the_session_and_the_older_one_hears_it() -> None:
    hub = make_hub()
    client, run, playing, session = await taken(hub)
    newer = FakeClient(hub)
    newer.joins(session)
    assert client.ended == "CONN_SUPERSEDED"
    client.connection.lost()
    assert hub.sessions[session].attached
    await newer.ask("finish", turn=1)
    await playing
    assert run.ended == "finished"


async def test_a_client_whose_connection_broke_at_the_verdict_still_hears_it_as_the_bridge_ends() -> None:
    hub = make_hub()
    client, _, playing, session = await taken(hub)
    number, epoch = client.say("finish", turn=1), hub.sessions[session].buffer.epoch
    client.drop(broken=True)
    await playing
    stopping = asyncio.create_task(hub.stop())
    await asyncio.sleep(RETURN_WITHIN - 1)
    late = FakeClient(hub)
    late.joins(session, after=1, epoch=epoch)
    await stopping
    missed = next(each["payload"]["messages"] for each in late.heard if each["type"] == "replay_buffer")
    assert [each["type"] for each in missed if each["id"] == number] == ["task_ended"]
    assert late.ended == "SYS_STOPPING"


@pytest.mark.parametrize(("broken", "waited"), [(True, RETURN_WITHIN), (False, 0.0)])
async def test_the_end_of_the_bridge_waits_only_for_a_client_that_may_come_back(broken: bool, waited: float) -> None:
    hub = make_hub()
    client, _, playing, _ = await taken(hub)
    client.say("finish", turn=1)
    client.drop(broken=broken)
    await playing
    began = now()
    await hub.stop()
    assert now() - began == pytest.approx(waited, abs=0.2)


async def test_a_client_that_closes_its_session_ends_its_task() -> None:
    hub = make_hub()
    client, run, playing, session = await taken(hub)
    await client.ask("session_close")
    await playing
    assert run.ended == "AGENT_LOST"
    for kind in ("task_take", "session_pause", "session_resume"):
        assert (await client.ask(kind))["payload"]["code"] == "SESS_CLOSED"
    assert (await client.ask("synchronize"))["payload"]["state"] == "closed"
    late = FakeClient(hub)
    late.joins(session)
    assert late.heard[-1]["payload"]["code"] == "SESS_CLOSED"


async def test_what_was_missed_is_replayed_and_too_much_must_be_synchronized() -> None:
    hub = make_hub()
    client, _, playing, session = await taken(hub, takes=1)
    last = client.heard[-1]
    number = client.say("act", turn=1, step=CLICK)
    client.drop()
    await asyncio.sleep(5)
    again = FakeClient(hub)
    again.joins(session, after=last["seq"], epoch=last["epoch"])
    replay = again.heard[-1]
    assert replay["type"] == "replay_buffer"
    assert replay["payload"]["complete"]
    assert [each["id"] for each in replay["payload"]["messages"]] == [number]
    for _ in range(40):
        hub.sessions[session].send("note", {"text": "x" * 8000})
    lost = (await again.ask("request_replay", after=last["seq"], epoch=last["epoch"]))["payload"]
    assert (lost["complete"], lost["lost"] > 20) == (False, True)
    other = (await again.ask("request_replay", after=0, epoch="another"))["payload"]
    assert not other["complete"]
    state = (await again.ask("synchronize"))["payload"]
    assert (state["task"], state["turn"], state["open_turn"]["turn"]) == ("BUY", 2, 2)
    assert state["last_outcome"]["passed"] is True
    await again.ask("finish", turn=2)
    await playing


def test_after_300_kb_the_state_is_that_of_a_client_that_was_never_cut() -> None:
    async def main() -> dict[str, Any]:
        states = {}
        for cut in (False, True):
            hub = make_hub()
            client, _, playing, session = await taken(hub)
            await client.ask("act", turn=1, step=CLICK)
            last = client.heard[-1]
            if cut:
                client.drop()
            for _ in range(300):
                hub.sessions[session].send("note", {"text": "x" * 1024})
            if cut:
                client = FakeClient(hub)
                client.joins(session, after=last["seq"], epoch=last["epoch"])
                assert [client.heard[-1]["payload"][key] for key in ("complete", "lost")] == [False, ANY]
            states[cut] = (await client.ask("synchronize"))["payload"]
            await client.ask("finish", turn=2)
            await playing
        return states

    states = play(main())
    own = {"session", "epoch", "created", "open_turn"}
    assert [{key: each[key] for key in each if key not in own} for each in states.values()] == [
        {key: states[False][key] for key in states[False] if key not in own}
    ] * 2
    assert [each["open_turn"]["turn"] for each in states.values()] == [2, 2]


async def test_several_tasks_are_given_in_their_order_each_to_a_session_of_its_own() -> None:
    hub = make_hub()
    runs = [FakeRun(hub, f"T{number}") for number in range(3)]
    playing = [asyncio.create_task(each.play()) for each in runs]
    await asyncio.sleep(1)
    assert [each["task_id"] for each in await hub.desk.offered()] == ["T0", "T1", "T2"]
    clients = [FakeClient(hub) for _ in range(3)]
    for each in clients:
        each.joins()
    wanted: list[dict[str, Any]] = [{}, {"task": "T2"}, {}]
    turns = [await each.ask("task_take", **more) for each, more in zip(clients, wanted, strict=True)]
    assert [each["payload"]["task_id"] for each in turns] == ["T0", "T2", "T1"]
    for each in clients:
        await each.ask("finish", turn=1)
    await asyncio.gather(*playing)


async def test_there_are_only_so_many_sessions() -> None:
    hub = make_hub(sessions=2)
    for _ in range(2):
        FakeClient(hub).joins()
    third = FakeClient(hub)
    third.joins()
    assert third.heard[-1]["payload"]["code"] == "SESS_LIMIT"
    await hub.stop()


def test_the_end_of_the_server_is_told_and_leaves_nothing() -> None:
    async def main() -> BridgeHub:
        hub = make_hub()
        client, run, playing, _ = await taken(hub, takes=100)
        client.say("act", turn=1, step=CLICK)
        await asyncio.sleep(1)
        await hub.stop()
        assert client.ended == "SYS_STOPPING"
        await playing
        assert run.ended == "AGENT_LOST"
        return hub

    assert not play(main()).sessions


async def test_the_clients_states_follow_the_table_and_break_no_rule_until_the_server_is_gone() -> None:
    events: list[Any] = []
    hub = BridgeHub(LoopClock(), Desk(()), emit=events.append)
    client, _, playing, name = await taken(hub, takes=1)
    session = hub.sessions[name]
    assert (session.link.state, hub.judge(session)) == ("connected", ())
    client.say("act", turn=1, step=CLICK)
    await asyncio.sleep(0.5)
    assert session.link.state == "active"
    client.drop()
    assert session.link.state == "disconnected"
    await asyncio.sleep(2)
    again = FakeClient(hub)
    again.joins(name)
    assert session.link.state == "connected"
    await again.ask("finish", turn=2)
    await playing
    await hub.stop()
    assert not [each for each in events if isinstance(each, InvariantBroken)]
    session.attach(FakeClient(hub))
    assert [each.rule for each in events if isinstance(each, InvariantBroken)] == [
        "Cannot be `connected` if server is `down`"
    ]


async def test_a_session_that_asks_twice_for_a_task_gets_one() -> None:
    hub = make_hub()
    client, runs = FakeClient(hub), [FakeRun(hub, "A"), FakeRun(hub, "B")]
    client.joins()
    asked = [client.say("task_take") for _ in runs]
    await asyncio.sleep(0.1)
    playing = [asyncio.create_task(run.play()) for run in runs]
    first, second = [await client.answer(each) for each in asked]
    assert (first["payload"]["task_id"], second["payload"]["code"]) == ("A", "SESS_BUSY")
    other = FakeClient(hub)
    other.joins()
    assert (await other.ask("task_take"))["payload"]["task_id"] == "B"
    await hub.stop()
    await asyncio.gather(*playing)


async def test_an_act_of_the_task_before_is_never_one_of_the_next_task_even_when_its_reply_is_forgotten() -> None:
    client, _, playing, session = await taken(make_hub())
    number = client.say("act", turn=1, step=CLICK)
    await client.answer(number)
    await client.ask("finish", turn=2)
    await playing
    client.hub.sessions[session].replies.clear()  # as after a thousand further messages
    following = FakeRun(client.hub, "NEXT")
    playing = asyncio.create_task(following.play())
    turn = (await client.ask("task_take"))["payload"]["turn"]
    client.heard.clear()
    again = await client.ask("act", number, turn=1, step=CLICK)
    assert (again["payload"]["code"], following.done) == ("SESS_TURN_OVER", [])
    assert (await client.ask("act", turn=turn, step=CLICK))["payload"]["turn"]["turn"] == turn + 1
    await client.ask("finish", turn=turn + 1)
    await playing


async def test_a_page_with_an_endless_title_does_not_cost_the_agent_its_connection() -> None:
    client, run, playing, _ = await taken(make_hub())
    long = "x" * 3_000_000
    dialog = {"type": "alert", "message": long}
    run.sees = Observation(f"data:,{long}", long, "- button", (long,) * 200, dialogs=(dialog,), held_back=(long,))
    seen = (await client.ask("observe", turn=1))["payload"]
    assert len(json.dumps(seen)) < BEHIND
    assert seen["title"] == "x" * LONGEST_TEXT + "..."
    await client.hub.stop()
    await playing


async def test_bodies_of_all_sessions_are_bounded_and_those_of_closed_ones_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.bridge.hub.ALL_BLOBS", 250)
    hub = make_hub()
    sessions = [hub.sessions[FakeClient(hub).joins()] for _ in range(3)]
    for number in range(9):
        hub.keep_body(sessions[number % 3], "text/plain", bytes([number]) * 50)
    assert [each.blob_bytes for each in sessions] == [
        sum(len(body) for _, body in each.blobs.values()) for each in sessions
    ]
    assert sum(each.blob_bytes for each in sessions) == 250
    hub.close(sessions[0], "closed")
    assert (sessions[0].blobs, sessions[0].blob_bytes) == ({}, 0)
    await hub.stop()


async def test_messages_that_wait_for_their_answers_are_bounded() -> None:
    hub = make_hub()
    client = FakeClient(hub)
    session = hub.sessions[client.joins()]
    for _ in range(REPLIES):
        client.say("task_take", wait_ms=600_000)
    await asyncio.sleep(0)
    assert (await client.ask("task_take"))["payload"]["code"] == "SESS_BUSY"
    assert len(session.replies) == REPLIES
    await hub.stop()


async def test_the_verdict_of_the_last_task_is_told_though_the_server_ends_at_once() -> None:
    hub = make_hub()
    client, _, playing, _ = await taken(hub)
    number = client.say("finish", turn=1)
    await playing
    await hub.stop()
    assert [each["type"] for each in client.answers(number)] == ["task_ended"]
