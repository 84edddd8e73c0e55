"""`harness mcp` and the MCP face with the official client: a purchase, the end of the input, servers in trouble."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from harness.bridge.mcp_tools import MCP_TOOLS
from harness.cli.mcp import LAST_WORDS
from harness.serve.address import ServeAddress, address_of
from tests.acceptance.conftest import Project
from tests.acceptance.documented import ROOT, blocks
from tests.acceptance.test_bridge import BUY, ONE_ORDER, BridgeRun, serve
from tests.acceptance.test_bridge_clients import shipped
from tests.acceptance.warm import harness, start_harness

PYTHON = ("-P", "-c", "from harness.cli import main; main()")
WAYS = {"HTTP-NEW": "2026-07-28", "HTTP-OLD": "legacy", "STDIO-NEW": "2026-07-28", "STDIO-OLD": "legacy"}
"""Name of a task, in the order in which pytest offers them -> the mode of the client."""


PATH = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""Where `harness` is found."""
DOCUMENTED = [json.loads(each) for each in blocks(ROOT / "docs/bridge.md", "json")]
(SERVERS,) = (each["mcpServers"] for each in DOCUMENTED if "mcpServers" in each)
(HOOKS,) = (each["hooks"] for each in DOCUMENTED if "hooks" in each)
"""`.mcp.json` and the hooks of `.claude/settings.json`, as docs/bridge.md has them."""


def parameters(folder: Path) -> StdioServerParameters:
    """The documented server of the project in this folder."""
    return StdioServerParameters(**SERVERS["taskspec"], cwd=folder, env={**os.environ, "PATH": PATH})


@asynccontextmanager
async def connected(way: str, project: Project, run: BridgeRun) -> AsyncIterator[Client]:
    """The official client, on one of the ways to the bridge."""
    if way.startswith("STDIO"):
        async with Client(parameters(project.path), mode=WAYS[way]) as client:
            yield client
        return
    headers = {"Authorization": f"Bearer {run.token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=40) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{run.port}/mcp", http_client=http)
        async with Client(transport, mode=WAYS[way]) as client:
            yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    told: dict[str, Any] = answer.structured_content
    assert json.loads(answer.content[0].text) == told  # type: ignore[union-attr]
    return told


async def bought(client: Client, task: str) -> dict[str, Any]:
    """Buy a mouse, each step sent twice; the verdict."""
    assert {each.name for each in (await client.list_tools()).tools} == set(MCP_TOOLS)
    taken = await called(client, "task_take", task=task)
    given, turn = {"session": taken["session"]}, taken["turn"]
    for step in BUY:
        outcome = await called(client, "act", **given, turn=turn, step=step)
        assert outcome["passed"], outcome
        assert await called(client, "act", **given, turn=turn, step=step) == outcome
        turn = outcome["turn"]
    seen = await client.call_tool("observe", {**given, "screenshot": True})
    assert "O-10001" in seen.structured_content["aria"]
    assert [each.type for each in seen.content] == ["text", "image"]
    return await called(client, "finish", **given, turn=turn)


@pytest.mark.thorough
@pytest.mark.parametrize("ways", [pytest.param(("STDIO-NEW",), id="one"), pytest.param(tuple(WAYS), id="all")])
def test_a_mouse_is_bought_once_over_each_way_in_both_eras(project: Project, ways: tuple[str, ...]) -> None:
    for way in ways:
        project.task(way, success_criteria=ONE_ORDER)

    async def all_of_them() -> list[dict[str, Any]]:
        verdicts = []
        for way in ways:
            async with connected(way, project, run) as client:
                verdicts.append(await bought(client, way))
        return verdicts

    run = serve(project)
    verdicts = asyncio.run(all_of_them())
    assert [each["passed"] for each in verdicts] == [True] * len(ways)
    assert f"{len(ways)} passed" in run.ends()


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_each_way_in_both_eras_does_the_shipped_tasks(project: Project, way: str) -> None:
    steps = shipped(project)

    async def all_of_them() -> dict[str, bool]:
        verdicts, given = {}, {}
        async with connected(way, project, run) as client:
            for _ in steps:
                taken = await called(client, "task_take", **given)
                given, turn = {"session": taken["session"]}, taken["turn"]
                for step in steps[taken["task_id"]]:
                    outcome = await finished(client, given, await called(client, "act", **given, turn=turn, step=step))
                    assert outcome["passed"], (step, outcome)
                    turn = outcome["turn"]
                verdicts[taken["task_id"]] = (await called(client, "finish", **given, turn=turn))["passed"]
        return verdicts

    run = serve(project)
    assert asyncio.run(all_of_them()) == dict.fromkeys(steps, True)
    assert "3 passed" in run.ends()


async def finished(client: Client, given: Mapping[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The answer of a step, also if that takes longer than a call."""
    while told["status"] in ("pending", "timeout"):
        await asyncio.sleep(0.5)
        told = await called(client, "command_result", **given, correlation_id=told["correlation_id"])
    return told


def test_hooks_are_kept_in_the_trace_and_a_stop_without_finish_fails_the_task(project: Project) -> None:
    project.task("HOOKED", inputs={"password": "${env:SHOP_PASSWORD}"})
    secret = "s3cret-of-the-shop"
    os.environ["SHOP_PASSWORD"] = secret

    def told(**event: Any) -> subprocess.CompletedProcess[str]:
        (kind,) = HOOKS.get(event["hook_event_name"], HOOKS["Stop"])
        (hook,) = kind["hooks"]
        assert hook["type"] == "command"
        return subprocess.run(
            ["sh", "-c", hook["command"]], input=json.dumps(event), cwd=project.path,
            env={**os.environ, "PATH": PATH}, capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip

    try:
        run = serve(project)
        with httpx2.Client(
            base_url=f"http://127.0.0.1:{run.port}", headers={"Authorization": f"Bearer {run.token}"}, trust_env=False
        ) as http:
            taken = http.post("/calls", json={"tool": "task_take"}).json()["structured"]
            wrong = http.post("/hooks", json={"event": "Start", "timestamp": "2026-11-25T10:00:00Z", "session_id": "c",
                                              "payload": {}})  # fmt: skip
            assert (wrong.status_code, wrong.json()["code"]) == (400, "HOOK_VALIDATION_FAILED")
            assert wrong.json()["errors"][0]["field"] == "event"
            assert http.post("/calls", content=b"{").status_code == 400
            assert http.post("/calls", json={"tool": "tasks_list"}, headers={"Authorization": ""}).status_code == 401
        given = {"session": taken["session"], "note": secret}
        told(hook_event_name="PreToolUse", session_id="claude-1", tool_name="mcp__taskspec__act", tool_input=given)
        assert "Invalid enum value" in told(hook_event_name="Notification", session_id="claude-1").stderr
        told(hook_event_name="Stop", session_id="claude-1")
        said = run.ends()
    finally:
        del os.environ["SHOP_PASSWORD"]
    assert "AGENT_FAILED" in said
    assert "stopped without `finish`" in said
    trace = (project.path / "errors/HOOKED/partial_trace.json").read_text("utf-8")
    events = json.loads(trace)["agent_events"]
    assert [each["event"] for each in events] == ["PreToolUse", "Stop"]
    assert events[0]["payload"]["tool_input"]["session"] == taken["session"]
    assert secret not in trace


# Servers and their trouble.


class Spoken:
    """`harness mcp` as a process, spoken to line by line."""

    def __init__(self, folder: Path, *args: str) -> None:
        pipe = subprocess.PIPE
        self.process = start_harness("mcp", *args, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
        info = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}}
        self.server = self.asked("initialize", protocolVersion="2025-11-25", **info)["serverInfo"]
        assert self.server == {"name": "taskspec", "version": version("pytest-taskspec")}
        self._say({"method": "notifications/initialized"})

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def asked(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._say({"id": 1, "method": method, "params": parameters})
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())["result"]
        return found

    def called(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.asked("tools/call", name=tool, arguments=arguments)["structuredContent"]
        return found

    def served(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The same, once there is a server: on a busy machine it takes longer to start than a call waits for it."""
        for _ in range(120):
            if (found := self.called(tool, **arguments)).get("code") != "CONN_NO_SERVER":
                break
            time.sleep(0.5)
        return found

    def left(self) -> str:
        """End the input, while a call is under way; what it says at its end, which must come at once."""
        self._say({"id": 2, "method": "tools/call", "params": {"name": "task_take", "arguments": {"wait_ms": 30_000}}})
        _, said = self.process.communicate(timeout=2)
        assert self.process.returncode == 0
        return said


@contextmanager
def ended_servers(folder: Path) -> Iterator[None]:
    try:
        yield
    finally:
        if address_of(folder) is not None:
            harness("serve", "stop", cwd=folder)


def gone(address: ServeAddress, within: float = 5.0) -> bool:
    until = time.perf_counter() + within
    while address.owner.alive and time.perf_counter() < until:
        time.sleep(0.02)
    return not address.owner.alive


def bare(folder: Path, settings: str = "") -> Path:
    (folder / "pyproject.toml").write_text(f"[tool.harness]\n{settings}", "utf-8")
    return folder


def test_the_last_words_are_within_the_100_ms_of_the_specification() -> None:
    assert LAST_WORDS <= 0.1


def test_two_at_once_have_one_server_and_the_last_one_ends_it(tmp_path: Path) -> None:
    folder = bare(tmp_path)
    with ended_servers(folder):
        both = [Spoken(folder), Spoken(folder)]
        for each in both:
            assert each.served("tasks_list")["tasks"] == [
                {"file": "tasks", "problem": "there is no such file or folder"}
            ]
            assert each.called("task_take")["code"] == "SESS_NO_TASK"
        address = address_of(folder)
        assert address is not None
        servers = [each for each in psutil.process_iter(["cmdline", "cwd"]) if _serves(each, folder)]
        assert [each.pid for each in servers] == [address.pid]
        assert "ends, too" not in both[0].left()
        assert not gone(address, 0.3)
        began = time.perf_counter()
        said = both[1].left()
        assert f"the server {address.pid} ends, too" in said
        assert gone(address)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", address.port)) != 0
        assert time.perf_counter() - began < 5
        assert "the input has ended" in (folder / ".harness/logs/mcp.log").read_text("utf-8")


def _serves(process: psutil.Process, folder: Path) -> bool:
    return process.info["cwd"] == str(folder) and "serve" in (process.info["cmdline"] or [])


@pytest.mark.thorough
def test_a_server_persists_or_is_started_again(tmp_path: Path) -> None:
    folder = bare(tmp_path)
    with ended_servers(folder):
        agent = Spoken(folder, "--persist")
        agent.called("tasks_list")
        first = address_of(folder)
        assert first is not None
        os.kill(first.pid, signal.SIGKILL)
        assert gone(first)
        assert agent.called("tasks_list").get("code") in (None, "CONN_NO_SERVER")
        for _ in range(100):
            if (second := address_of(folder)) is not None and "tasks" in agent.called("tasks_list"):
                break
            time.sleep(0.1)
        assert second is not None
        assert second.pid != first.pid
        assert "ends, too" not in agent.left()
        assert not gone(second, 0.3)


def test_a_stranger_on_the_port_is_named_and_the_list_is_there_all_the_same(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        folder = bare(tmp_path, f"[tool.harness.serve]\nport = {port}\n")
        agent = Spoken(folder)
        began = time.perf_counter()
        assert len(agent.asked("tools/list")["tools"]) == len(MCP_TOOLS)
        assert time.perf_counter() - began < 4.5
        for _ in range(120):  # on a busy machine it is first told that the server has not started yet
            answer = agent.asked("tools/call", name="task_take", arguments={"wait_ms": 0})
            assert answer["isError"]
            told = answer["structuredContent"]
            assert (told["code"], told["retryable"]) == ("CONN_NO_SERVER", True)
            if str(port) in told["message"]:
                break
            time.sleep(0.5)
        assert re.search(rf"{port}.*{os.getpid()}", told["message"])
        agent.left()
    late = time.monotonic() + 15
    while address_of(folder) is not None and time.monotonic() < late:
        time.sleep(0.2)
    assert address_of(folder) is None, "a server that was starting when its user left ends too"


@pytest.mark.thorough
def test_a_silent_server_is_named_and_the_list_is_there_all_the_same(tmp_path: Path) -> None:
    folder = bare(tmp_path)
    with ended_servers(folder):
        harness("serve", "--persist", cwd=folder)
        address = address_of(folder)
        assert address is not None
        os.kill(address.pid, signal.SIGSTOP)
        try:
            agent = Spoken(folder)
            began = time.perf_counter()
            assert agent.asked("tools/list")["tools"]
            assert time.perf_counter() - began < 4.5
            told = agent.called("tasks_list")
            assert told["code"] == "CONN_NO_SERVER"
            agent.left()
        finally:
            os.kill(address.pid, signal.SIGCONT)
