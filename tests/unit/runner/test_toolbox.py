"""How tool servers join the run: who shares a server, whose calls a channel makes, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from harness.model.plan import Plan
from harness.model.ports import Injector, Session
from harness.model.settings import Settings
from harness.model.tool_settings import shared_problem
from harness.model.tools import ToolAnswer, ToolRequest, ToolState
from harness.recovery.failure import Failed
from harness.resilience import SystemClock
from harness.resilience.events import Emit, discard
from harness.runner.compile import compile_plan
from harness.runner.toolbox import RunTools, TaskTools
from harness.spec.task import TaskSpec
from harness.tools.exchange import ToolServerError
from harness.tools.server import ToolServer
from harness.tools.statefile import kept_states, order_restart
from tests.unit.resilience.virtual import LoopClock, play
from tests.unit.tools.scripted_server import Shop

TOOLS = {"mail": {"command": ["mail"]}, "shop": {"url": "http://shop.local/mcp"}, "far": {"url": "http://far.test/mcp"}}
HOSTS = {0: {"shop.local": 1000}, 1: {"shop.local": 1001}}
KILLED = {"kind": "tool_killed", "server": "mail"}
REFUSES = {"kind": "refuse", "host": "shop.local", "seconds": 1}


def settings(root: Path, **keys: Any) -> Settings:
    return Settings.model_validate({"root": root, "tools": TOOLS, **keys})


def plan(config: Settings, *faults: Any, **keys: Any) -> Plan:
    spec = {"task_id": "t1", "goal": "g", "steps": [{"act": "open", "url": "http://shop.local/"}], **keys}
    return compile_plan(TaskSpec.model_validate({**spec, "faults": faults}), settings=config, run_id="r1")


class Tools(RunTools):
    """A run whose servers are scripted."""

    def __init__(self, config: Settings, tell: Emit = lambda _: None) -> None:
        super().__init__(config, "r1", LoopClock(), tell, lambda slot: HOSTS[slot], self._nothing)
        self.made: list[tuple[str, Mapping[str, int]]] = []

    async def _nothing(self, slot: int, url: str) -> None:
        """There is no service."""

    def make(self, name: str, hosts: Mapping[str, int], slot: int, file: Any = None) -> ToolServer:
        self.made.append((name, hosts))
        return Shop(self.settings.tools[name]).server


def box(tools: TaskTools, which: Plan) -> Any:
    return tools.box(which, cast("Session", None), cast("Injector", None))


async def called(tools: RunTools, config: Settings, name: str, *faults: Any, slot: int = 0) -> None:
    which = plan(config, *faults)
    async with tools.task(which, lambda _: None, slot) as task:
        task.found_at({"shop.local": 5})
        await box(task, which).call(ToolRequest(name, "get_order", {}, "read"), 10)


@pytest.mark.fake_clock
async def test_tasks_share_a_server_and_slots_share_one_that_no_service_is_behind(tmp_path: Path) -> None:
    config = settings(tmp_path)
    tools = Tools(config)
    for name in ("mail", "shop", "far"):
        for slot in (0, 0, 1):
            await called(tools, config, name, slot=slot)
    assert [(name, hosts["shop.local"]) for name, hosts in tools.made] == [
        ("mail", 1000), ("shop", 1000), ("shop", 1001), ("far", 1000),
    ]  # fmt: skip
    await tools.close()


@pytest.mark.fake_clock
async def test_a_task_whose_faults_strike_a_server_has_one_of_its_own_which_ends_with_it(tmp_path: Path) -> None:
    config = settings(tmp_path)
    tools = Tools(config)
    await called(tools, config, "mail")
    await called(tools, config, "mail", REFUSES)
    assert [name for name, _ in tools.made] == ["mail"]
    await called(tools, config, "mail", KILLED)
    await called(tools, config, "shop", REFUSES)
    assert tools.made[1:] == [("mail", {"shop.local": 5}), ("shop", {"shop.local": 5})]
    await tools.close()
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


def test_a_call_names_the_world_only_where_worlds_are_kept_apart(tmp_path: Path) -> None:
    async def meta(isolation: str) -> Any:
        config = settings(tmp_path, isolation=isolation)
        tools, which = Tools(config), plan(config)
        async with tools.task(which, lambda _: None, 0) as task:
            answer: ToolAnswer = await box(task, which).call(ToolRequest("mail", "get_order", {}, "read"), 10)
        await tools.close()
        return answer.structured["meta"]

    assert play(meta("world")) == {"pytest-taskspec/world": plan(settings(tmp_path)).world}
    assert play(meta("none")) == {}


@pytest.mark.fake_clock
async def test_a_channel_calls_as_a_part_of_the_task_that_reads_it(tmp_path: Path) -> None:
    config = settings(tmp_path)
    tools, which = Tools(config), plan(config)
    request = ToolRequest("mail", "get_order", {}, "read")
    async with tools.task(which, lambda _: None, 0) as task:
        assert (await asyncio.create_task(tools.call(0, request, 10))).text == "done"
        assert [(each.tool, each.step) for each in task.calls(which)] == [("get_order", None)]
    assert (await tools.call(0, request, 10)).text == "done"
    assert len(task.calls(which)) == 1
    with pytest.raises(Failed, match="did you mean `mail`"):
        await tools.call(0, ToolRequest("mial", "get_order", {}, "read"), 10)
    await tools.close()


def test_a_task_has_a_toolbox_if_there_are_servers_or_a_step_calls_a_tool(tmp_path: Path) -> None:
    none = Settings.model_validate({"root": tmp_path})
    step = {"act": "tool", "server": "page", "tool": "add"}
    assert box(Tools(none).of(plan(none), lambda _: None), plan(none)) is None
    with_step = plan(none, steps=[step])
    assert play(_made(none, with_step)) is not None
    assert play(_made(settings(tmp_path), plan(settings(tmp_path)))) is not None


async def _made(config: Settings, which: Plan) -> Any:
    return box(Tools(config).of(which, lambda _: None), which)


def test_only_one_process_can_use_a_shared_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(tmp_path, tools={"mail": {"command": ["mail"], "shared": True}})
    assert shared_problem(config.tools, 1) == ""
    assert "each of 2 xdist workers would start its own" in shared_problem(config.tools, 2)
    assert shared_problem(settings(tmp_path).tools, 2) == ""
    Tools(config)
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    with pytest.raises(ValueError, match=r"\[tool.harness.tools.mail\] has `shared = true`"):
        Tools(config)


def test_an_order_to_restart_is_told_once_for_the_circuit(tmp_path: Path) -> None:
    async def nothing(slot: int, url: str) -> None:
        """There is no service."""

    async def main() -> None:
        table = {"command": ["mail"], "environment": {"KEY": "${env:NOT_SET_ANYWHERE}"}}
        mended: list[str] = []
        tools = RunTools(
            settings(tmp_path, tools={"mail": table}),
            "r1",
            LoopClock(),
            discard,
            HOSTS.__getitem__,
            nothing,
            mended.append,
        )
        with pytest.raises(Failed, match="NOT_SET_ANYWHERE"):
            await tools.call(0, ToolRequest("mail", "get_code", {}, "read"), 10)
        await asyncio.sleep(2)
        assert [each.reason.partition(":")[0] for each in kept_states(tmp_path)] == ["Tool server `mail`"]
        assert mended == []
        order_restart(tmp_path, "mail")
        await asyncio.sleep(2)
        assert mended == ["mail"]
        await tools.close()
        assert [each.state for each in kept_states(tmp_path)] == [ToolState.STOPPED]

    play(main())


@pytest.mark.fake_clock
async def test_what_a_server_of_one_task_does_is_not_told_of_the_run_s_server(tmp_path: Path) -> None:
    told: list[Any] = []
    config = settings(tmp_path, tools={"mail": {"command": ["mail"]}})
    tools = RunTools(config, "r1", LoopClock(), told.append, HOSTS.__getitem__, lambda _slot, _url: asyncio.sleep(0))
    own, shared = tools.make("mail", {}, 0), tools.server("mail")
    await own.close()
    await shared.close()
    assert [(each.after, each.own) for each in told] == [("stopped", True), ("stopped", False)]


def code_of(which: Plan) -> str:
    assert which.one_time is not None
    return which.one_time.code("OTP", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("running", [True, False], ids=["while the task runs", "after it"])
async def test_the_log_of_a_server_has_no_one_time_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, running: bool
) -> None:
    monkeypatch.setenv("OTP", "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
    steps = [{"act": "type", "selector": "#a", "value": "${totp:OTP}"}]
    code = code_of(plan(settings(tmp_path), steps=steps))
    config = settings(tmp_path, tools={"mail": {"command": ["sh", "-c", f"echo get_code for {code} >&2"]}})
    tools, which = Tools(config), plan(config, steps=steps)
    tools.clock = SystemClock()
    task = tools.of(which, lambda _: None)
    assert code_of(which) == code  # the task makes it when it runs
    if not running:
        await task.close()
    server = RunTools.make(tools, "mail", {}, 0)
    with pytest.raises((Failed, ToolServerError)):
        await server.connected(60)  # it ends at once: what it said is there when that is noticed
    await server.close()
    await task.close()
    log = (tmp_path / ".harness" / "logs" / "tool-mail.log").read_text("utf-8")
    assert "get_code for [redacted]\n" in log
    assert code not in log
