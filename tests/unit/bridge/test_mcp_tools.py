"""The seven tools under a clock that jumps: what they answer, and that an act is never done twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.bridge.hub import BridgeHub
from harness.bridge.mcp_tools import MCP_TOOLS, BridgeTools, listed_tools, step_schema
from harness.bridge.session import THERE
from harness.spec.validation import ACTS
from tests.unit.bridge.stage import FakeClient, FakeRun, make_hub

pytestmark = pytest.mark.fake_clock

CLICK = {"act": "click", "selector": "#buy"}


async def begun(hub: BridgeHub, **more: Any) -> tuple[BridgeTools, FakeRun, asyncio.Task[None], str]:
    """The tools, after `task_take`."""
    tools, run = BridgeTools(hub), FakeRun(hub, **more)
    playing = asyncio.create_task(run.play())
    taken = (await tools.call("task_take", {}, "fake 1")).structured
    return tools, run, playing, taken["session"]


async def test_a_task_from_the_list_to_its_verdict() -> None:
    hub = make_hub()
    tools, run = BridgeTools(hub), FakeRun(hub)
    playing = asyncio.create_task(run.play())
    await asyncio.sleep(0)
    listed = (await tools.call("tasks_list", {})).structured
    assert [each["task_id"] for each in listed["tasks"]] == ["BUY"]
    assert listed["sessions"] == []
    taken = (await tools.call("task_take", {"task": "BUY"}, "fake 1")).structured
    assert (taken["task_id"], taken["goal"], taken["turn"]) == ("BUY", "buy a mouse", 1)
    assert taken["acts"] == ["click", "open"]
    assert set(taken["left"]) == {"turn_ms", "task_ms"}
    given = {"session": taken["session"]}
    seen = await tools.call("observe", {**given, "screenshot": True})
    assert seen.structured["aria"] == "- button"
    assert seen.pictures == (("image/png", b"png"),)
    done = (await tools.call("act", {**given, "turn": 1, "step": CLICK})).structured
    assert (done["passed"], done["turn"], done["code"]) == (True, 2, None)
    failed = await tools.call("act", {**given, "turn": 2, "step": {**CLICK, "fails": True}})
    told = failed.structured
    assert (failed.is_error, told["passed"], told["code"]) == (False, False, "ELEMENT_NOT_FOUND")
    assert {"category", "retryable", "hint", "attempts", "left"} <= set(told)
    state = (await tools.call("session_status", given)).structured
    assert (state["task"], state["turn"], state["client"]) == ("BUY", 3, "fake 1")
    ended = (await tools.call("finish", {**given, "turn": 3})).structured
    assert (ended["status"], ended["passed"]) == ("ended", True)
    await playing
    assert run.ended == "finished"


async def test_a_call_that_a_client_makes_anew_is_the_same_act_but_not_in_another_task() -> None:
    hub = make_hub()
    tools, run, playing, session = await begun(hub)
    asked = {"session": session, "turn": 1, "step": CLICK}
    first = await tools.call("act", asked)
    for _ in range(4):
        assert await tools.call("act", asked) == first
    assert len(run.done) == 1
    other = await tools.call("act", {**asked, "step": {"act": "open", "url": "/"}})
    assert (other.is_error, other.structured["code"]) == (True, "SESS_TURN_OVER")
    assert other.structured["message"] == "turn 1 is over: the present turn is 2"
    early = await tools.call("act", {**asked, "turn": 3})
    assert early.structured["message"] == "turn 3 has not begun: the present turn is 2"
    await tools.call("finish", {"session": session, "turn": 2})
    await playing
    again = FakeRun(hub)
    playing = asyncio.create_task(again.play())
    turn = (await tools.call("task_take", {"session": session})).structured["turn"]
    assert (await tools.call("act", asked)).structured["code"] == "SESS_TURN_OVER"
    assert (len(run.done), len(again.done)) == (1, 0)
    await tools.call("act", {**asked, "turn": turn})
    assert (len(run.done), len(again.done)) == (1, 1)
    await tools.call("finish", {"session": session, "turn": turn + 1})
    await playing


async def test_long_work_is_pending_after_30_s_and_its_answer_is_asked_for() -> None:
    hub = make_hub()
    tools, run, playing, session = await begun(hub, takes=40.0)
    before = hub.clock.now()
    late = (await tools.call("act", {"session": session, "turn": 1, "step": CLICK})).structured
    assert (late["status"], round(hub.clock.now() - before)) == ("timeout", 30)
    await asyncio.sleep(11)
    asked = {"session": session, "correlation_id": late["correlation_id"]}
    assert (await tools.call("command_result", asked)).structured["passed"] is True
    assert len(run.done) == 1
    playing.cancel()


async def test_a_client_that_only_calls_is_there_for_a_while_and_then_away() -> None:
    hub = make_hub(timeout=1000.0)
    _, run, playing, session = await begun(hub, timeout=10_000.0)
    assert hub.sessions[session].attached
    await asyncio.sleep(THERE + 1)
    assert not hub.sessions[session].attached
    await asyncio.sleep(hub.limits.grace + 1)
    await playing
    assert run.ended == "AGENT_LOST"


async def test_a_connection_that_joins_has_the_session_from_then_on() -> None:
    hub = make_hub(timeout=1000.0)
    tools, _, playing, session = await begun(hub, timeout=10_000.0)
    client = FakeClient(hub)
    client.joins(session)
    await tools.call("observe", {"session": session})
    await asyncio.sleep(THERE + 1)
    assert hub.sessions[session].outlet is client
    playing.cancel()


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "said"),
    [
        ("acts", {}, "PROTO_INVALID_MESSAGE", "`act`"),
        ("act", {}, "PROTO_INVALID_MESSAGE", "session"),
        ("act", {"session": "s", "turn": 1, "step": "click"}, "PROTO_INVALID_MESSAGE", "step"),
        ("observe", {"session": "s", "sreenshot": True}, "PROTO_INVALID_MESSAGE", "sreenshot"),
        ("act", {"session": "s", "turn": 1, "step": CLICK}, "SESS_NOT_FOUND", "'s'"),
        ("session_status", {"session": "s"}, "SESS_NOT_FOUND", "'s'"),
        ("task_take", {"wait_ms": 0}, "SESS_NO_TASK", "no task"),
        ("task_take", {"session": 5}, "PROTO_INVALID_MESSAGE", "session"),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_what_to_do(
    tool: str, arguments: dict[str, Any], code: str, said: str
) -> None:
    reply = await BridgeTools(make_hub()).call(tool, arguments)
    assert (reply.is_error, reply.structured["code"], reply.structured["passed"]) == (True, code, False)
    assert said in reply.structured["message"]
    assert reply.structured["hint"]


def test_the_shipped_list_has_every_key_of_every_step_and_stays_small() -> None:
    assert [each.name for each in listed_tools()] == list(MCP_TOOLS)
    keys = {key for model in ACTS.values() for key in model.model_fields}
    assert keys - {"guards"} <= set(step_schema()["properties"])
    assert step_schema()["properties"]["act"]["enum"] == sorted(ACTS)
    assert len(str([each.parameters for each in listed_tools()])) < 10_000  # every model reads it with every request


async def test_asking_for_tasks_again_and_again_leaves_no_sessions_behind() -> None:
    hub = make_hub(sessions=2)
    tools = BridgeTools(hub)
    for _ in range(3):
        found = await tools.call("task_take", {"wait_ms": 0})
        assert (found.structured["code"], found.structured.get("session")) == ("SESS_NO_TASK", None)
    assert not hub.sessions
    await hub.stop()


async def test_an_act_that_was_refused_in_a_pause_is_done_after_it() -> None:
    hub = make_hub()
    tools, run, playing, session = await begun(hub)
    client, asked = FakeClient(hub), {"session": session, "turn": 1, "step": CLICK}
    client.joins(session)
    await client.ask("session_pause")
    assert (await tools.call("act", asked)).structured["code"] == "SESS_PAUSED"
    await client.ask("session_resume")
    assert (await tools.call("act", asked)).structured["passed"]
    assert len(run.done) == 1
    await hub.stop()
    await playing
