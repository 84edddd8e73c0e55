"""Events of hooks: which task they belong to, what ends it, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.bridge.hub import BridgeHub
from harness.bridge.mcp_tools import BridgeTools
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.session import BridgeLimits
from harness.bridge.turns import Desk, RemoteRules
from harness.model.agent_events import LONGEST_EVENT, SHOWN, AgentEvent, shown
from harness.resilience.events import HookRefused, ResilienceEvent
from harness.resilience.thresholds import VALIDATIONS, Thresholds
from tests.unit.bridge.stage import FakeClient, FakeRun, make_hub, taken
from tests.unit.fakes import START
from tests.unit.resilience.virtual import LoopClock

pytestmark = pytest.mark.fake_clock

KINDS = ("SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop")


def hook(event: str, session: str = "agent-1", **payload: Any) -> dict[str, Any]:
    return {"event": event, "timestamp": "2026-11-25T10:00:00Z", "session_id": session, "payload": payload}


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_kept_with_the_task_of_the_session_that_it_names(kind: str) -> None:
    client, run, playing, session = await taken(make_hub())
    answer = client.hub.hooks.take(hook(kind, session, note="x"))
    assert answer == {"received": True, "session": session, "task": "BUY"}
    kept = client.hub.events_of(run.plan)
    assert [(each.event, each.session, each.payload) for each in kept] == [(kind, session, {"note": "x"})]
    playing.cancel()


async def test_an_agent_is_known_by_the_handle_in_its_calls_and_its_earlier_events_are_not_lost() -> None:
    client, run, playing, session = await taken(make_hub())
    take = client.hub.hooks.take
    assert take(hook("SessionStart"))["session"] is None
    assert take(hook("PreToolUse", tool_name="Bash", tool_input={"command": "ls"}))["session"] is None
    assert take(hook("PreToolUse", "agent-2", tool_input={"session": "sess-000000000000"}))["session"] is None
    assert take(hook("PreToolUse", tool_input={"session": session, "turn": 1}))["session"] == session
    assert take(hook("SubagentStop"))["task"] == "BUY"
    kinds = [each.event for each in client.hub.events_of(run.plan)]
    assert kinds == ["SessionStart", "PreToolUse", "PreToolUse", "SubagentStop"]
    playing.cancel()


@pytest.mark.parametrize("kind", ["Stop", "SessionEnd"])
async def test_an_agent_that_stops_without_finish_has_failed(kind: str) -> None:
    client, run, playing, session = await taken(make_hub())
    client.hub.hooks.take(hook(kind, session))
    await playing
    assert run.ended == "AGENT_FAILED"


async def test_a_stop_during_a_step_ends_the_task_after_it() -> None:
    client, run, playing, session = await taken(make_hub(), takes=5.0)
    client.say("act", turn=1, step={"act": "click", "selector": "#buy"})
    await asyncio.sleep(1)
    client.hub.hooks.take(hook("Stop", session))
    await playing
    assert (len(run.done), run.ended) == (1, "AGENT_FAILED")


async def test_a_stop_after_finish_and_one_of_a_stranger_change_nothing() -> None:
    hub = make_hub()
    tools, run = BridgeTools(hub), FakeRun(hub)
    playing = asyncio.create_task(run.play())
    session = (await tools.call("task_take", {})).structured["session"]
    hub.hooks.take(hook("Stop", "a developer's own session"))
    assert (await tools.call("finish", {"session": session, "turn": 1})).structured["passed"]
    hub.hooks.take(hook("Stop", session))
    await playing
    assert run.ended == "finished"
    assert hub.events_of(run.plan) == ()


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"event": "Start"}, "event", f"Invalid enum value. Expected one of: {', '.join(KINDS)}"),
        ({"event": None}, "event", "Required"),
        ({"timestamp": "yesterday"}, "timestamp", "datetime"),
        ({"session_id": ""}, "session_id", "at least 1"),
        ({"session_id": None}, "session_id", "Required"),
        ({"payload": [1]}, "payload", "dictionary"),
        ({"payload": None}, "payload", "Required"),
        ({"more": 1}, "more", "Unrecognized key"),
    ],
)
async def test_a_wrong_event_is_refused_field_by_field_over_both_ways(
    change: dict[str, Any], field: str, message: str
) -> None:
    client, _, playing, _ = await taken(make_hub())
    document = {key: value for key, value in {**hook("Stop"), **change}.items() if value is not None}
    with pytest.raises(RefusedMessageError) as refused:
        client.hub.hooks.take(document)
    answer = await client.ask("hook_event", **document)
    for told in (refused.value.payload, answer["payload"]):
        assert (told["code"], told["received"]) == ("HOOK_VALIDATION_FAILED", False)
        assert [each["field"] for each in told["errors"]] == [field]
        assert message in told["errors"][0]["message"]
    playing.cancel()


@pytest.mark.parametrize("document", [None, [], "Stop", 5])
async def test_what_is_no_object_is_refused_too(document: Any) -> None:
    with pytest.raises(RefusedMessageError) as refused:
        make_hub().hooks.take(document)
    assert refused.value.details["errors"]


async def test_refused_events_count_towards_the_fourth_threshold() -> None:
    told: list[ResilienceEvent] = []
    hub = BridgeHub(LoopClock(), Desk(()), BridgeLimits(), RemoteRules(), told.append)
    for _ in range(21):
        with pytest.raises(RefusedMessageError):
            hub.hooks.take({})
    assert {type(each) for each in told} == {HookRefused}
    thresholds = Thresholds(hub.clock.now)
    for each in told:
        thresholds.count(each)
    assert next(each.level for each in thresholds.worst if each.metric == VALIDATIONS) == "warning"


async def test_memory_stays_bounded_whatever_agents_send() -> None:
    client, run, playing, session = await taken(make_hub())
    for number in range(500):
        client.hub.hooks.take(hook("PreToolUse", f"stranger-{number}"))
        client.hub.hooks.take(hook("PreToolUse", "stranger"))
        client.hub.hooks.take(hook("PreToolUse", session, number=number))
    kept = client.hub.events_of(run.plan)
    assert (len(kept), kept[-1].payload["number"]) == (200, 499)
    playing.cancel()


def test_the_trace_shows_payloads_in_a_size_that_can_be_read() -> None:
    long, huge = {"text": "x" * (SHOWN + 100)}, {"text": "x" * LONGEST_EVENT}
    events = [AgentEvent(START, "PreToolUse", "s", payload).document() for payload in ({"a": 1}, long, huge)]
    small, cut, left_out = shown(events)
    assert small["payload"] == {"a": 1}
    assert len(cut["payload"]) < SHOWN + 100
    assert left_out["payload"] == {"left_out": "it is too long"}


async def test_a_client_on_a_socket_tells_events_of_its_own_session() -> None:
    client, run, playing, session = await taken(make_hub())
    assert isinstance(client, FakeClient)
    answer = await client.ask("hook_event", **hook("UserPromptSubmit", "agent-9", prompt="buy"))
    assert (answer["type"], answer["payload"]["session"]) == ("hook_received", session)
    assert client.hub.hooks.take(hook("SubagentStop", "agent-9"))["task"] == "BUY"
    assert len(client.hub.events_of(run.plan)) == 2
    playing.cancel()


async def test_an_event_that_is_too_long_is_not_held_in_memory() -> None:
    client, run, playing, session = await taken(make_hub())
    client.hub.hooks.take(hook("PreToolUse", session, text="x" * LONGEST_EVENT))
    assert [each.payload for each in client.hub.events_of(run.plan)] == [{"left_out": "it is too long"}]
    playing.cancel()
