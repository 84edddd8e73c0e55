"""`harness serve` without a run of pytest: agents take the project's tasks, and each is a run of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import websockets

from harness.bridge.client import Bridge
from harness.bridge.client.losses import MessageRefusedError
from harness.reporting.history.reading import recent_runs
from harness.serve.address import address_of
from harness.serve.tokens import Tokens, TokenScope
from tests.acceptance.conftest import Project
from tests.acceptance.test_bridge import BUY, ONE_ORDER
from tests.acceptance.test_mcp import Spoken, gone
from tests.acceptance.warm import start_harness
from tests.unit.bridge.stage import message

OPEN = {"act": "open", "url": "http://shop.local/"}


class ServedProject:
    """The server of a project as a process."""

    def __init__(self, project: Project) -> None:
        self.path = project.path
        settings = self.path / "pyproject.toml"
        if "[tool.harness.serve]" not in settings.read_text("utf-8"):
            with settings.open("a", encoding="utf-8") as file:
                file.write('\n[tool.harness.serve]\ntasks = ["."]\n')
        self.process = start_harness("serve", cwd=self.path, environment={"PYTHONUNBUFFERED": "1"})
        assert self.process.stdout is not None
        self.said, found = "", None
        while found is None and (line := self.process.stdout.readline()):
            self.said += line
            found = re.search(r"http://(\S+?)/", line)
        assert found is not None
        self.url = f"ws://{found[1]}/bridge"
        self.token = Tokens.of(self.path).issue(TokenScope.AGENT, datetime.now(UTC), timedelta(hours=1))

    def does(self, agent: Callable[[Bridge], Awaitable[None]]) -> None:
        """Let an agent work on the server."""

        async def main() -> None:
            async with Bridge(self.url, self.token, agent="tester 1") as bridge:
                await agent(bridge)

        asyncio.run(main())

    def events(self, run: str = "") -> list[dict[str, Any]]:
        """The events of a run that is over, as a subscriber gets them."""

        async def main() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = []
            async with websockets.connect(self.url, proxy=None) as socket:
                for kind, payload in (("auth", {"token": self.token}), ("subscribe", {"run": run})):
                    await socket.send(json.dumps(message(kind, **payload)))
                while not any(each["type"] == "task" for each in found):
                    told = json.loads(await asyncio.wait_for(socket.recv(), 10))
                    found += told["payload"].get("events", ())
            return found

        return asyncio.run(main())

    def end(self) -> str:
        """Stop it as `harness serve stop` does; what it has said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.said += self.process.communicate(timeout=40)[0]
        return self.said


@pytest.fixture
def served(project: Project) -> Iterator[ServedProject]:
    made = ServedProject(project)
    yield made
    made.end()


async def refused(bridge: Bridge, task_id: str) -> str:
    with pytest.raises(MessageRefusedError) as error:
        await bridge.take(task_id)
    return str(error.value)


def test_each_task_that_an_agent_takes_is_a_run_of_its_own(project: Project, served: ServedProject) -> None:
    project.task("A-BUYS", steps=[], success_criteria=ONE_ORDER)
    project.task("B-FAILS", steps=[], success_criteria=["text('h1') == 'Nothing'"])
    project.task("C-BROKEN", steps=[], gaol="a typing error")
    project.task("D-DEPENDS", dependencies=["B-FAILS"])
    project.task("E-UNKNOWN", steps=[], inputs={"sku": "WM-5521"}, success_criteria=["exists('#${inputs.skew}')"])
    verdicts: list[Any] = []

    async def agent(bridge: Bridge) -> None:
        for steps in (BUY, BUY[:1]):
            task = await bridge.take()
            assert task is not None
            for step in steps:
                assert (await task.act(step)).passed
            verdict = await task.finish()
            verdicts.append((task.task_id, verdict.passed, verdict.code))
        assert await bridge.take() is None  # each once, and the others cannot begin
        assert "C-BROKEN.task.json:" in await refused(bridge, "C-BROKEN")
        assert "did you mean" in await refused(bridge, "A-BUY")
        assert "depends on B-FAILS" in await refused(bridge, "D-DEPENDS")
        told = await refused(bridge, "E-UNKNOWN")
        assert "E-UNKNOWN.task.json:" in told
        assert "success_criteria[0]: ${inputs.skew}: `inputs` has no `skew`" in told
        project.task("C-BROKEN", steps=[])
        mended = await bridge.take("C-BROKEN")  # the file is read anew
        assert mended is not None
        assert mended.task_id == "C-BROKEN"
        await mended.give_up("that is enough")

    served.does(agent)
    assert {each["task_id"] for each in served.events() if each["type"] == "task"} == {"C-BROKEN"}
    said = served.end()
    assert said.count("not offered: ") == 2  # each once, though the agent that takes the next task never asks for it
    assert verdicts == [("A-BUYS", True, ""), ("B-FAILS", False, "CRITERIA_UNMET")]
    assert "A-BUYS: asked for by tester 1" in said
    runs = sorted(recent_runs(project.path, 10), key=lambda run: run.run)
    assert [(run.ending, run.passed, run.failed) for run in runs] == [("finished", 1, 0), *[("finished", 0, 1)] * 2]
    assert project.report("B-FAILS")["code"] == "CRITERIA_UNMET"
    types = [
        json.loads(line)["type"]
        for line in (project.path / f".harness/events/{runs[0].run}.jsonl").read_text("utf-8").splitlines()
    ]
    assert types.count("run-begun") == types.count("task") == 1


@pytest.mark.thorough
def test_a_server_that_is_stopped_ends_its_task_with_evidence(project: Project, served: ServedProject) -> None:
    project.task("T", steps=[])
    begun: list[psutil.Process] = []

    async def agent(bridge: Bridge) -> None:
        task = await bridge.take("T")
        assert task is not None
        await task.act(BUY[0])
        begun.extend(psutil.Process(served.process.pid).children(recursive=True))
        served.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(served.process.wait, 40)
        await bridge.detach()

    served.does(agent)
    served.end()
    assert project.report("T")["code"] == "INTERRUPTED"
    (run,) = recent_runs(project.path, 10)
    assert run.ending == "interrupted"
    assert begun
    assert not [each for each in begun if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_the_task_of_a_server_that_was_killed_has_a_report(project: Project, served: ServedProject) -> None:
    """The next server writes it, once, and the session goes on: its task begins anew."""
    project.task("T", steps=[], success_criteria=["exists('#search-box')"])
    sessions: list[str] = []

    async def agent(bridge: Bridge) -> None:
        task = await bridge.take("T")
        assert task is not None
        await task.act(OPEN)
        sessions.append(bridge.session)
        served.process.kill()
        await asyncio.to_thread(served.process.wait, 40)
        await bridge.detach()

    served.does(agent)
    after = ServedProject(project)
    place = f"died while session {sessions[0]} did task T: WORKER_CRASHED, errors/T"
    assert after.said.count(place) == 1
    assert project.report("T")["code"] == "WORKER_CRASHED"
    (run,) = [each.name.partition(".")[0] for each in (project.path / ".harness/events").glob("*.jsonl")]
    assert json.loads((project.path / "errors/T/manifest.json").read_text("utf-8"))["run"] == run
    assert [each["code"] for each in after.events(run) if each["type"] == "task"] == ["WORKER_CRASHED"]
    after.end()
    last = ServedProject(project)
    assert "WORKER_CRASHED" not in last.said

    async def goes_on() -> None:
        async with Bridge(last.url, last.token, session=sessions[0]) as bridge:
            task = await bridge.take()
            assert task is not None
            await task.act(OPEN)
            assert (await task.finish()).passed

    try:
        asyncio.run(goes_on())
    finally:
        last.end()


def test_an_agent_over_mcp_needs_no_run_and_no_server(project: Project) -> None:
    (project.path / "tasks").mkdir()
    project.task("T", steps=[], success_criteria=["exists('#search-box')"]).rename(project.path / "tasks/T.task.json")
    agent = Spoken(project.path)
    try:
        assert [each["task_id"] for each in agent.served("tasks_list")["tasks"]] == ["T"]
        session = agent.called("task_take")["session"]
        assert agent.called("act", session=session, turn=1, step=OPEN)["passed"]
        assert agent.called("finish", session=session, turn=2)["passed"] is True
        server = address_of(project.path)
    finally:
        said = agent.left()
    assert "ends, too" in said
    assert server is not None
    assert gone(server, 20)
    assert [run.passed for run in recent_runs(project.path, 10)] == [1]


async def ended(path: Path, count: int) -> None:
    """Return when so many runs of the project have ended with their browsers, for at most 40 s."""
    async with asyncio.timeout(40):
        while [run.ending for run in recent_runs(path, 10)].count("finished") < count:
            await asyncio.sleep(0.2)


@pytest.mark.thorough
def test_the_end_of_one_run_leaves_the_other_its_browser(project: Project, served: ServedProject) -> None:
    for name in ("A", "B"):
        project.task(name, steps=[], success_criteria=ONE_ORDER)

    async def buys(bridge: Bridge, name: str) -> None:
        task = await bridge.take(name)
        assert task is not None
        for number, step in enumerate(BUY):
            assert (await task.act(step)).passed
            if (name, number) == ("B", len(BUY) // 2):
                await ended(project.path, 1)
        assert (await task.finish()).passed

    async def agent(bridge: Bridge) -> None:
        async with Bridge(served.url, served.token) as other:
            await asyncio.gather(buys(bridge, "A"), buys(other, "B"))

    served.does(agent)
    served.end()
    for run in recent_runs(project.path, 10):
        lines = (project.path / f".harness/events/{run.run}.jsonl").read_text("utf-8").splitlines()
        (end,) = [each for each in map(json.loads, lines) if each["type"] == "task"]
        assert (end["final_state"], end["failures"], end["retries"]) == ("completed", 0, 0)


@pytest.mark.thorough
def test_more_tasks_than_workers_wait_as_pending(project: Project) -> None:
    with (project.path / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('\n[tool.harness.serve]\ntasks = ["."]\nworkers = 1\n')
    for name in ("A", "B"):
        project.task(name, steps=[], success_criteria=["exists('#search-box')"])
    served = ServedProject(project)

    async def does(bridge: Bridge, before_its_end: Callable[[], Awaitable[object]]) -> None:
        task = await bridge.take()
        assert task is not None
        await task.act(OPEN)
        await before_its_end()
        assert (await task.finish()).passed

    async def agent(bridge: Bridge) -> None:
        async with Bridge(served.url, served.token) as other:
            waits: list[asyncio.Task[None]] = []

            async def a_second_one_comes() -> None:
                waits.append(asyncio.create_task(does(other, lambda: asyncio.sleep(0))))
                async with asyncio.timeout(20):
                    while "escalated" not in (project.path / ".harness/events.jsonl").read_text("utf-8"):
                        await asyncio.sleep(0.2)

            await does(bridge, a_second_one_comes)
            await waits[0]

    try:
        served.does(agent)
    finally:
        said = served.end()
    assert re.findall(r"^(?:task )?(\w): asked|^task (\w) is over", said, re.M) == [
        ("A", ""),
        ("", "A"),
        ("B", ""),
        ("", "B"),
    ]


@pytest.mark.thorough
def test_a_session_outlives_a_server_that_is_stopped(project: Project, served: ServedProject) -> None:
    for name in ("A", "B"):
        project.task(name, steps=[], success_criteria=["exists('#search-box')"])
    sessions: list[str] = []

    async def agent(bridge: Bridge) -> None:
        for stops in (False, True):
            task = await bridge.take()
            assert task is not None
            await task.act(OPEN)
            if stops:
                served.process.send_signal(signal.SIGTERM)
                await asyncio.to_thread(served.process.wait, 40)
            else:
                assert (await task.finish()).passed
        sessions.append(bridge.session)
        await bridge.detach()

    served.does(agent)
    served.end()
    again = ServedProject(project)

    async def goes_on() -> None:
        async with Bridge(again.url, again.token, session=sessions[0]) as bridge:
            task = await bridge.take()
            assert task is not None
            assert task.task_id == "B"  # it was cut off and had written nothing; A was done
            await task.act(OPEN)
            assert (await task.finish()).passed
            assert await bridge.take() is None

    try:
        asyncio.run(goes_on())
    finally:
        again.end()
