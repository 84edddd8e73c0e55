"""Agents that run elsewhere, those of docs/bridge.md: they buy a mouse over connections that are cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.bridge.client import Bridge, BridgeError, ConnectionRefusedForGood
from tests.acceptance.conftest import Project
from tests.acceptance.documented import ROOT, blocks
from tests.acceptance.warm import harness
from tests.unit.bridge.test_javascript_client import NODE

PAGE = ROOT / "docs/bridge.md"
TASK, LOOP = blocks(PAGE, "yaml")[0], blocks(PAGE, "python")[0]
JAVASCRIPT, PYTHON = (
    (ROOT / "examples/bridge" / name).read_text("utf-8") for name in ("buy-a-mouse.mjs", "buy_a_mouse.py")
)
NODES = {"playwright": (NODE,), "system": ("node", "--experimental-websocket")}
_ADDRESS = re.compile(r"bridge: agents connect to (\S+) with the token (\S+)")


class Offering:
    """A run that offers its tasks to agents."""

    def __init__(self, project: Project, *args: str) -> None:
        self.process = project.start("--agent", "bridge", "-p", "no:cacheprovider", *args)
        self.said = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if (found := _ADDRESS.search(line)) is not None:
                self.url, self.token = found[1], found[2]
                return
        raise AssertionError(self.said)

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].partition("/")[0])

    def end(self) -> str:
        """What it has said, to its end."""
        said, _ = self.process.communicate(timeout=60)
        self.said += said
        return self.said

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.communicate(timeout=20)


@contextlib.asynccontextmanager
async def cutting(port: int, every: int) -> AsyncIterator[str]:
    """A way to the server on which the first four connections are cut after so many pieces, in the middle of one."""
    writers, times = set[asyncio.StreamWriter](), iter([every] * 4)

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
        while left[0] > 0 and (piece := await reader.read(65536)):
            left[0] -= 1
            writer.write(piece[: len(piece) // 2] if left[0] == 0 else piece)
            await writer.drain()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.transport.abort()
            return
        writers.update((writer, back))
        left = [next(times, 10_000)]
        ways = {asyncio.create_task(carry(reader, back, left)), asyncio.create_task(carry(there, writer, left))}
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in ways:
            each.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for each in (writer, back):
            each.transport.abort()
            writers.discard(each)

    async with await asyncio.start_server(meet, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/bridge"
        for each in writers:
            each.transport.abort()


async def play(command: tuple[str, ...], folder: Path, token: str) -> tuple[int | None, str]:
    environment = {**os.environ, "TASKSPEC_TOKEN": token, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(90):
            said, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    return process.returncode, said.decode()


@pytest.fixture
def agents(project: Project) -> dict[str, tuple[str, ...]]:
    """The documented agents, ready to be started with an address."""
    (project.path / "mouse.task.yaml").write_text(TASK, "utf-8")
    (project.path / "buy-a-mouse.mjs").write_text(JAVASCRIPT, "utf-8")
    (project.path / "buy_a_mouse.py").write_text(PYTHON, "utf-8")
    printed = harness("serve", "client", cwd=project.path)
    assert printed.stdout == (ROOT / "clients/js/bridge.mjs").read_text("utf-8")
    (project.path / "bridge.mjs").write_text(printed.stdout, "utf-8")
    return {"python": (sys.executable, "buy_a_mouse.py")} | {
        name: (*node, "buy-a-mouse.mjs") for name, node in NODES.items()
    }


@pytest.mark.parametrize(
    ("name", "every"),
    [
        ("playwright", 9),
        pytest.param("python", 11, marks=pytest.mark.thorough),
        *(
            pytest.param(name, every, marks=pytest.mark.thorough)
            for name in ("playwright", "python", "system")
            for every in (7, 8, 10, 13, 20, 1000)
        ),
    ],
)
def test_the_documented_agent_buys_one_mouse_however_often_its_connection_is_cut(
    project: Project, agents: dict[str, tuple[str, ...]], name: str, every: int
) -> None:
    run = Offering(project)

    async def through_cuts() -> tuple[int | None, str]:
        async with cutting(run.port, every) as url:
            return await play((*agents[name], url), project.path, run.token)

    try:
        code, said = asyncio.run(through_cuts())
        told = run.end()
    finally:
        run.kill()
    assert (code, "MOUSE-001 passed" in said) == (0, True), said + told
    assert ("connected again" in said) == (every < 1000), said
    assert "1 passed" in told


def test_the_loop_of_the_page_takes_a_task_and_tells_its_end(project: Project) -> None:
    project.task("LOOK", steps=[], success_criteria=["exists('#search-box')"])
    run = Offering(project)
    (project.path / "loop.py").write_text(LOOP.replace("ws://127.0.0.1:7890/bridge", run.url), "utf-8")
    try:
        code, said = asyncio.run(play((sys.executable, "loop.py"), project.path, run.token))
        told = run.end()
    finally:
        run.kill()
    assert (code, "LOOK True" in said) == (0, True), said + told
    assert "1 passed" in told


@pytest.mark.parametrize("wrote", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_a_session_outlives_the_server_unless_its_task_had_begun_to_write(project: Project, wrote: bool) -> None:
    (project.path / "mouse.task.yaml").write_text(TASK, "utf-8")
    steps = [{"act": "open", "url": "http://shop.local/product/WM-5521"}]
    steps += [{"act": "click", "selector": "#add-to-cart", "effect": "write"}] if wrote else []
    first = Offering(project)
    runs = [first]

    async def across_runs() -> tuple[BridgeError, str]:
        client = Bridge(first.url, first.token)
        await client.open()
        task = await client.take()
        assert task is not None
        for step in steps:
            outcome = await task.act(step)
            assert outcome.passed, outcome
        await asyncio.to_thread(first.kill)
        waits = asyncio.create_task(task.observe())
        runs.append(await asyncio.to_thread(Offering, project, "--task-bridge-port", str(first.port)))
        with pytest.raises(BridgeError) as refused:
            await waits
        again = None if wrote else await client.take()
        await client.detach()
        return refused.value, again.task_id if again else ""

    try:
        error, again = asyncio.run(across_runs())
    finally:
        for each in runs:
            each.kill()
    if wrote:
        assert isinstance(error, ConnectionRefusedForGood)
        assert (error.code, error.document["payload"]["recoverable"]) == ("SESS_NOT_RESUMABLE", False)
    else:
        assert (error.code, again) == ("SESS_NO_TASK", "MOUSE-001")


SHIPPED = ("B1-2025-001", "C2-2025-002", "D4-2025-003")
FOLLOW = {
    "python": """
import asyncio, json, os, sys
from harness.bridge.client import Bridge

async def main(url):
    steps = json.load(open("steps.json"))
    async with Bridge(url, os.environ["TASKSPEC_TOKEN"]) as bridge:
        while (task := await bridge.take()) is not None:
            for step in steps[task.task_id]:
                outcome = await task.act(step)
                assert outcome.passed, (step, outcome)
            print(task.task_id, (await task.finish()).passed)

asyncio.run(main(sys.argv[1]))
""",
    "playwright": """
import { readFileSync } from "node:fs";
import { Bridge } from "./bridge.mjs";
const steps = JSON.parse(readFileSync("steps.json", "utf8"));
const bridge = await Bridge.open(process.argv[2], process.env.TASKSPEC_TOKEN);
for (let task; (task = await bridge.take()); ) {
  for (const step of steps[task.taskId]) {
    const outcome = await task.act(step);
    if (!outcome.passed) throw new Error(JSON.stringify([step, outcome]));
  }
  console.log(task.taskId, (await task.finish()).passed ? "True" : "False");
}
await bridge.close();
""",
}
FOLLOW["system"] = FOLLOW["playwright"]


def shipped(project: Project) -> dict[str, list[dict[str, Any]]]:
    """Give the project three of the shipped tasks; their steps, which an agent tells one by one."""
    shutil.copytree(ROOT / "tasks" / "files", project.path / "files")
    steps = {}
    for task in SHIPPED:
        text = (ROOT / "tasks" / f"{task}.task.yaml").read_text("utf-8")
        steps[task] = yaml.safe_load(text)["steps"]
        (project.path / f"{task}.task.yaml").write_text(f"{text}\nbudget: {{max_steps: 60}}\n", "utf-8")
    return steps


@pytest.mark.thorough
@pytest.mark.parametrize("name", FOLLOW)
def test_all_clients_do_the_same_shipped_tasks(project: Project, agents: dict[str, tuple[str, ...]], name: str) -> None:
    (project.path / "mouse.task.yaml").unlink()
    (project.path / "steps.json").write_text(json.dumps(shipped(project)), "utf-8")
    script = "follow.py" if name == "python" else "follow.mjs"
    (project.path / script).write_text(FOLLOW[name], "utf-8")
    run = Offering(project)
    try:
        code, said = asyncio.run(play((*agents[name][:-1], script, run.url), project.path, run.token))
        told = run.end()
    finally:
        run.kill()
    assert (code, said.split()) == (0, [word for task in SHIPPED for word in (task, "True")]), said + told
    assert "3 passed" in told
