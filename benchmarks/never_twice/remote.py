"""Plays trials over the bridge: a client does the steps of each, and is lost in the middle, as is its server.

By chance the connection is cut while the order is under way, or the client's process ends without a word and another
one takes its session up, or the session is paused; once in each batch the server is killed as an order has arrived,
and started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from harness.bridge.client import Bridge, BridgeError, TakenTask
from harness.reporting.history.reading import load_run, recent_runs
from harness.serve.tokens import Tokens, TokenScope

LOSSES: Final = ("none", "cut", "process", "pause")
"""What happens to a client while its order is under way, or, for a pause, after it."""
PAUSES: Final = (0.0, 0.02, 0.1, 0.4, 1.0)
"""Seconds between the beginning of the act, or an order that has arrived, and what happens then."""
TRIES: Final = 3
"""How often a client does a step that fails, and takes its task up after a killed server."""
LONGEST: Final = 240.0
_LOOKS: Final = 0.05
_SERVE: Final = "import sys; from harness.cli import main; sys.argv[1:] = ['serve', '--port', '{}']; main()"

Steps = Sequence[Mapping[str, Any]]


class Relay:
    """Passes the connections of one client on to the server, until they are cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._passing: set[asyncio.Task[None]] = set()

    async def open(self) -> str:
        """Listen; returns the address for the client."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/bridge"

    def cut(self) -> None:
        """End all connections without a word."""
        for each in self._writers:
            each.transport.abort()
        self._writers.clear()

    def close(self) -> None:
        """Listen no more."""
        self.cut()
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers += [writer, far_writer]
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._passing.add(task)
            task.add_done_callback(self._passing.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                target.write(data)
                await target.drain()
        except OSError:
            pass
        target.close()


class Serving:
    """The server of a project, which is killed and started again at the same port."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self.port = 0
        self.token = Tokens.of(project).issue(TokenScope.AGENT, datetime.now(UTC), timedelta(hours=1))

    def start(self) -> None:
        """Start it, and wait until it serves."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(self.port)],
            cwd=self._project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**environ, "PYTHONUNBUFFERED": "1"},
            text=True,
        )
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if found := re.search(r"live view at http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found[1])
                return
        raise RuntimeError(f"the server of {self._project} did not begin to serve")

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it, or kill it; what it has started ends by itself."""
        self._process.send_signal(number)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process.wait()


class Client:
    """An agent that does the steps of one trial, and comes back after each loss."""

    def __init__(self, name: str, steps: Steps, serving: Serving) -> None:
        chance = Random(name)
        self._name = name
        self._steps = steps
        self._act = next(number for number, step in enumerate(steps) if step.get("note") == "act")
        self._loss, self._pause = chance.choice(LOSSES), chance.choice(PAUSES)
        self._serving = serving
        self._relay = Relay(serving.port)
        self._task: TakenTask | None = None
        self._failed = 0

    async def play(self) -> None:
        """Do the steps, and go on after each loss as long as the server allows it."""
        self._url = await self._relay.open()
        self._bridge = await self._opened("")
        try:
            async with asyncio.timeout(LONGEST):
                for _ in range(TRIES):
                    if await self._played():
                        return
        except (BridgeError, TimeoutError):  # it was told that it cannot go on, or the task is over
            return
        finally:
            await self._bridge.close()
            self._relay.close()

    async def _opened(self, session: str) -> Bridge:
        bridge = Bridge(self._url, self._serving.token, agent=self._name, session=session)
        await bridge.open()
        return bridge

    async def _played(self) -> bool:
        """Do the task from its beginning; False if its server was killed, and the session goes on in the next one."""
        try:
            self._task, done = await self._bridge.take(self._name), 0
            while self._task is not None and not self._task.over and done < len(self._steps):
                done += await self._passed(self._task, done)
            if self._task is not None and not self._task.over:
                await self._task.finish()
        except BridgeError as error:
            if error.code != "SESS_NO_TASK":
                raise
            return False
        return True

    async def _passed(self, task: TakenTask, number: int) -> bool:
        """Do a step, and be lost in it if it is the order; whether it has passed."""
        if self._failed == TRIES:
            await task.give_up("a step failed again and again")
            return False
        if self._loss == "pause" and number > self._act:
            self._loss = "none"
            await self._bridge.request("session_pause")
            await asyncio.sleep(self._pause)
            await self._bridge.request("session_resume")
        acting = asyncio.create_task(task.act(self._steps[number]))
        loss = self._loss if number == self._act and self._loss != "pause" else "none"
        if loss != "none":
            self._loss = "none"
            await asyncio.sleep(self._pause)
            self._relay.cut()
        passed = await self._taken_up(acting, task.turn) if loss == "process" else (await acting).passed
        self._failed = 0 if passed else self._failed + 1
        return passed

    async def _taken_up(self, acting: asyncio.Task[Any], turn: int) -> bool:
        """Another process takes the session up; whether the step has passed that was the answer to this turn.

        If the turn is still open, the step has not arrived: the last outcome is that of the step before it.
        """
        await self._bridge.detach()
        await asyncio.gather(acting, return_exceptions=True)
        self._bridge = await self._opened(self._bridge.session)
        while True:
            state = (await self._bridge.request("synchronize"))["payload"]
            self._task = TakenTask(self._bridge, state["open_turn"]) if state["open_turn"] else None
            if self._task is not None or state["task"] is None:
                arrived = self._task is None or self._task.turn != turn
                return arrived and bool((state["last_outcome"] or {}).get("passed"))
            await asyncio.sleep(_LOOKS)


def play_remotely(
    project: Path, steps: Mapping[str, Steps], is_struck: Callable[[], bool]
) -> Mapping[str, Mapping[str, Any]]:
    """Play trials, each by its name, with a server that is killed as soon as `is_struck` says so; their records."""
    serving = Serving(project)
    serving.start()
    try:
        asyncio.run(_played(serving, [Client(*each, serving) for each in steps.items()], is_struck))
    finally:
        serving.end()
    runs = [load_run(project, each.run) for each in reversed(recent_runs(project, 1000))]
    records = [each.record for run in runs for each in run.executions if each.record]
    ended = {each.task_id: each.model_dump(mode="json") for each in records}
    return {**_told(project), **_of_killed(project), **ended}


async def _played(serving: Serving, clients: Sequence[Client], is_struck: Callable[[], bool]) -> None:
    playing = asyncio.gather(*(each.play() for each in clients))
    while not playing.done() and not is_struck():
        await asyncio.wait({playing}, timeout=_LOOKS)
    if not playing.done():
        await asyncio.to_thread(serving.end, signal.SIGKILL)
        await asyncio.to_thread(serving.start)
    await playing


def _told(project: Path) -> Mapping[str, Mapping[str, Any]]:
    """The ends of tasks as the events tell them: a server that is killed just then has no more time for its history."""
    lines = [line for each in sorted(project.glob(".harness/events/*.jsonl")) for line in each.open(encoding="utf-8")]
    events = [json.loads(line) for line in lines if '"task"' in line]
    return {each["task_id"]: each for each in events if each["type"] == "task"}


def _of_killed(project: Path) -> Mapping[str, Mapping[str, Any]]:
    """The records of tasks whose server was killed in them: the next server has written their reports."""
    reports = [json.loads(each.read_text("utf-8")) for each in project.glob("errors/*/error_report.json")]
    return {each["task_id"]: {**each, "message": each["error_message"]} for each in reports}
