"""A harness in the process of the test, and what ends its browser from outside while a task runs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from harness.browser import PlaywrightSession
from harness.model.events import Event, StepStarted
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import load_settings
from harness.resilience.events import Emit, discard
from harness.runner.compile import compile_plan
from harness.runner.loop import Caller
from harness.runner.sync import SyncHarness
from harness.spec.load import load_file
from tests.acceptance.conftest import PYPROJECT
from tests.browser.processes import words

TASKS = Path(__file__).parents[2] / "tasks"
LOOP = {"expression": "for (;;);"}


COMMAND = '[tool.harness.services.demo]\ncommand = ["{{python}}", "-m", "harness.demo", "--port", "{base}"]'


def write_project(folder: Path, sites: dict[str, int], *, own: bool = False) -> None:
    """A project on the demo sites. Not pytester's: that unloads what the harness has imported in this process.

    `own`: the project starts them itself, and starts them again.
    """
    hosts = ", ".join(f'"{host}" = {port}' for host, port in sites.items())
    settings = PYPROJECT.replace("[tool.harness.services.demo]", COMMAND) if own else PYPROJECT
    (folder / "pyproject.toml").write_text(settings.format(base=min(sites.values()), hosts=hosts), "utf-8")
    shutil.copytree(TASKS / "files", folder / "files")


Strike = Callable[["Kills", str], None]
"""Ends something of the task in this world."""


@dataclass
class Kills:
    """Tasks run one after the other, or at once, in one harness."""

    root: Path
    tell: Emit = discard
    harness: SyncHarness = field(init=False)
    sessions: dict[str, PlaywrightSession] = field(default_factory=dict)
    """Those that were opened, by world."""
    events: list[Event] = field(default_factory=list)
    """Of the last task."""
    _opening: list[Callable[[PlaywrightSession, str], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.harness = SyncHarness(load_settings(self.root), tell=self.tell)
        browsers = self.harness.browsers
        opened = browsers.open_session

        async def remembering(request: Any) -> PlaywrightSession:
            session = self.sessions[request.world] = await opened(request)
            while self._opening:
                self._opening.pop()(session, request.world)
            return session

        browsers.open_session = remembering  # type: ignore[method-assign]

    def plan(self, task: str | dict[str, Any], name: str, **changes: Any) -> Plan:
        """A shipped task without its faults and expectations, or one written down; under a name of its own."""
        path = TASKS / f"{task}.task.yaml"
        spec = yaml.safe_load(path.read_text("utf-8")) if isinstance(task, str) else {"goal": "a test", **task}
        spec = {key: value for key, value in spec.items() if key not in ("faults", "expect", "episode_id")}
        file = self.root / f"{name}.task.json"
        file.write_text(json.dumps({**spec, **changes, "task_id": name}), "utf-8")
        return compile_plan(load_file(file), settings=self.harness.settings, run_id=self.harness.run_id)

    def run(self, plan: Plan, *strikes: tuple[int, Strike]) -> TaskResult:
        """Run a task; the strikes are made in their order, each as its step (for the first time since) begins.

        On the harness's own thread: no step goes on while a strike is being made, however busy the machine is.
        """
        waiting, self.events = list(strikes), []

        def sink(event: Event) -> None:
            self.events.append(event)
            if isinstance(event, StepStarted) and waiting and event.index == waiting[0][0]:
                waiting.pop(0)[1](self, plan.world)

        (result,) = self.together(plan, sink=sink)
        assert not waiting, f"a step that was to be struck never began: {result.failure}"
        return result

    def together(self, *plans: Plan, sink: Callable[[Event], None]) -> list[TaskResult]:
        """Run tasks at once; the sink is called on the harness's own thread."""

        async def all_of_them(caller: Caller) -> list[TaskResult]:
            return await asyncio.gather(*(self.harness.play(plan, caller.heard_by(sink)) for plan in plans))

        return self.harness.begin(all_of_them).finish(lambda _: None)

    @contextmanager
    def serving(self, start: Coroutine[Any, Any, asyncio.Server]) -> Iterator[None]:
        """A server on the harness's own thread."""
        server = self.harness.begin(lambda _: start).finish(lambda _: None)

        async def close() -> None:
            server.close()

        try:
            yield
        finally:
            self.harness.begin(lambda _: close()).finish(lambda _: None)

    def as_it_is_to(self, method: str, *strikes: Strike) -> None:
        """Strike in the moment in which the next session is asked to do this: each strike once, in their order."""
        waiting = list(strikes)

        def prepare(session: PlaywrightSession, world: str) -> None:
            does = getattr(session, method)

            async def struck(*args: Any, **kwargs: Any) -> Any:
                if waiting:
                    waiting.pop(0)(self, world)
                return await does(*args, **kwargs)

            setattr(session, method, struck)

        self._opening.append(prepare)

    def browser_pid(self, world: str) -> int:
        """Of the browser that the task lives in, or of the one that the last session was opened in."""
        session = self.sessions.get(world) or next(reversed(self.sessions.values()))
        assert session.chromium.pid is not None
        return session.chromium.pid

    def driver_pid(self) -> int:
        driver = self.harness.browsers.driver
        assert driver is not None
        assert driver.pid is not None
        return driver.pid

    def send(self, world: str, method: str, params: dict[str, Any] | None = None) -> None:
        """To the task's page, by its standing session; without waiting for an answer."""
        control = self.sessions[world].tab.control
        self.harness.begin(lambda _: control.send(method, params))

    def close(self) -> None:
        self.harness.close()


def browser_killed(kills: Kills, world: str) -> None:
    os.kill(kills.browser_pid(world), signal.SIGKILL)


def browser_stopped(kills: Kills, world: str) -> None:
    os.kill(kills.browser_pid(world), signal.SIGSTOP)


def renderers(kills: Kills, world: str) -> list[psutil.Process]:
    """The processes of all pages of the browser."""
    children = psutil.Process(kills.browser_pid(world)).children(recursive=True)
    return [child for child in children if "--type=renderer" in words(child)]


def page_crashed(kills: Kills, world: str) -> None:
    for renderer in renderers(kills, world):
        renderer.kill()


def page_stopped(kills: Kills, world: str) -> None:
    for renderer in renderers(kills, world):
        renderer.suspend()


def page_looping(kills: Kills, world: str) -> None:
    kills.send(world, "Runtime.evaluate", LOOP)


def driver_killed(kills: Kills, world: str) -> None:
    os.kill(kills.driver_pid(), signal.SIGKILL)


def driver_stopped(kills: Kills, world: str) -> None:
    os.kill(kills.driver_pid(), signal.SIGSTOP)


def site_killed(kills: Kills, world: str) -> None:
    """The process that serves all hosts, which the harness has started; below its watchdog."""
    for watchdog in psutil.Process().children():
        if "harness.demo" in words(watchdog):
            for site in watchdog.children():
                site.kill()
