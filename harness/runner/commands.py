"""Agents that are processes of their own: each task gets one, with an address, a token and a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import harness.agents
from harness.agents.python import AgentSource, chosen_index
from harness.bridge.http_face import http_routes
from harness.bridge.hub import BridgeHub
from harness.bridge.mcp_face import mcp_routes
from harness.bridge.turns import Desk, RemoteRules, steps_before
from harness.bridge.websocket_face import websocket_routes
from harness.browser import PlaywrightSession
from harness.browser.debugger import ClientFiles, DebuggedContext, serve_debugger
from harness.model.agent_events import AgentEvent
from harness.model.agent_settings import AgentSettings
from harness.model.plan import Plan
from harness.model.policy import AgentPolicy
from harness.model.ports import Observe, Sight
from harness.model.record import History, TaskEnding, Warning_
from harness.model.service_settings import expand, placeholders_in
from harness.model.settings import Settings
from harness.model.tool_settings import REFERENCE
from harness.model.warnings import command_ended, command_refused, control_observed
from harness.recovery.catalog import Family
from harness.recovery.failure import Failed, Failure
from harness.reporting.files import safe_name
from harness.resilience import Clock, poll_until
from harness.resilience.events import Emit
from harness.resilience.process import Child, Program, signal_all, with_variable
from harness.runner.inference import TaskInference
from harness.serve.doors import MODELS, Doors, TaskDoor, forwarding_routes
from harness.serve.edges import SCOPE
from harness.serve.tokens import TokenScope
from harness.spec.validation import ACTS

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

    from harness.models.gateway import ModelGateway

_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables of the run that each command has; all others are declared."""
_TOKEN: Final = "TASKSPEC_TOKEN"  # noqa: S105 - a name
"""The variable with the token of a task, which its command and everything that it starts have."""
_JUDGED: Final = 5.0
"""Seconds of a task that are left for its success criteria when its command is ended."""
_LOOK: Final = 0.1
"""Seconds between two looks at a process."""
_ENDS: Final = 5.0
"""Seconds that a program may take to end after it has closed its session."""
_REST: Final = 0.5
"""Seconds in which the last messages of a process that has ended are read."""
_AFTER_TASK: Final = 1.0
"""Seconds that a process may take to end by itself after it has heard that its task is over."""
_AFTER_SIGTERM: Final = 1.0
_LONGEST_LOG: Final = 16 * 1024 * 1024
"""Bytes of output; with more, what came before is dropped."""
_SHOWN: Final = 15
"""Lines of the output that a message shows."""
_SEARCHED: Final = 60
"""Lines of the output in which a message looks for what was thrown."""
_STACK: Final = ("  File ", "    at ")
"""How the lines of a stack begin, in Python and in Node."""
_THROWN: Final = re.compile(r"(?:\w+\.)*[A-Z]\w*(?: \[\w+\])?: .")
"""The line that names what was thrown, which is seldom the last one."""
_HookEvents = Callable[[Plan], tuple[AgentEvent, ...]]
"""What the hooks of a task's agent have told so far (ports.Ports.agent_events)."""


def telling_line(output: str) -> str:
    """The line that says why a program failed: what was thrown, if its output shows a stack, or else the last."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    thrown = [line for line in lines if _THROWN.match(line)] if any(each.startswith(_STACK) for each in lines) else []
    return next(reversed(thrown or lines), "").strip()


_Redact = Callable[[Any, Plan], Any]


class RunCommands:
    """What all command agents of a run share: one server, on which each task has a door of its own."""

    def __init__(
        self, settings: Settings, redact: _Redact, learn: Callable[[Iterable[str]], None], clock: Clock, emit: Emit
    ) -> None:
        """`redact` masks the secrets of a task in a JSON value; `learn` takes further secrets of the run."""
        self.settings, self.redact, self.learn, self.clock, self.emit = settings, redact, learn, clock, emit
        self.doors = Doors()


class TaskCommands:
    """The commands of one task and of the tasks inside it."""

    def __init__(self, run: RunCommands, inference: TaskInference, key: str) -> None:
        """`inference`: the models that they ask. `key`: of the outermost task."""
        self.run = run
        self.inference = inference
        self._key = key
        self.folders: dict[str, Path] = {}
        """Key of a task -> the folder in which it keeps its files while it runs."""
        self.contexts: dict[str, tuple[DebuggedContext, PlaywrightSession]] = {}
        """Key of a task -> where a command that drives the browser itself reaches its context."""
        self._agents: list[CommandAgent] = []
        self._warnings: list[tuple[str, Warning_]] = []

    def make(self, source: AgentSource) -> CommandAgent:
        """The agent of this name for the tasks here (registry.MakeCommand)."""
        self._agents.append(CommandAgent(self, source))
        return self._agents[-1]

    def told_by_hooks(self, others: _HookEvents) -> _HookEvents:
        """What the hooks of a task's agents have told so far, those of other agents first."""
        return lambda plan: (*others(plan), *(event for each in self._agents for event in each.events_of(plan)))

    def warn(self, plan: Plan, warning: Warning_) -> None:
        self._warnings.append((plan.key, warning))

    def warnings_of(self, plan: Plan) -> tuple[Warning_, ...]:
        """What a person should know about the processes of a task and of the tasks inside it (Ports.agent_warnings)."""
        return tuple(warning for key, warning in self._warnings if plan.key in (key, self._key))


class CommandAgent:
    """A command as the agent of one run of a task, and of the tasks inside it: each has a process of its own."""

    def __init__(self, task: TaskCommands, source: AgentSource) -> None:
        self._task = task
        self._source = source
        self._running: dict[str, RunningCommand] = {}

    async def propose(
        self, plan: Plan, history: History, observe: Sight, policy: AgentPolicy
    ) -> Mapping[str, Any] | None:
        """The step that the process chooses, unchecked; None when it is done, or its time is over. Raises Failed."""
        if plan.key not in self._running:
            self._running[plan.key] = RunningCommand(self._task, self._source, plan)
        if not self._running[plan.key].started:
            await self._running[plan.key].start(observe, history)
        return await self._running[plan.key].propose(plan, history, observe, policy)

    def events_of(self, plan: Plan) -> tuple[AgentEvent, ...]:
        """What the hooks of a task's process have told so far."""
        return self._running[plan.key].hub.events_of(plan) if plan.key in self._running else ()

    def end(self, verdict: TaskEnding | None) -> None:
        """The task is over: the processes are told."""
        for running in self._running.values():
            running.end(verdict)

    async def close(self) -> None:
        """End the processes, with all that they have started in their groups. Bounded; it never raises."""
        await asyncio.gather(*(running.close() for running in self._running.values()), return_exceptions=True)


class RunningCommand:
    """The process of one task, and the bridge that only it can use."""

    def __init__(self, task: TaskCommands, source: AgentSource, plan: Plan) -> None:
        assert source.command is not None
        self._task, self._run = task, task.run
        self._name, self._plan = source.name, plan
        self._table: AgentSettings = source.command
        desk, clock = Desk(tuple(ACTS), self._run.redact), self._run.clock
        rules = RemoteRules(source.timeout, source.timeout, name=source.name)
        self.hub = BridgeHub(clock, desk, None, rules, self._run.emit)
        self._agent = self.hub.agent()
        self._door: TaskDoor | None = None
        self._child: Child | None = None
        self._ended: asyncio.Task[int | None] | None = None
        """Its exit code, once it has ended and was reaped."""
        self._killed = False
        """Whether it was ended because its time was over."""
        self._gateway: ModelGateway | None = None
        self._index = 0
        self._lost: Failed | None = None
        """The loss of the browser by which the process has failed: another browser does not bring it back."""
        self._page = ""
        """The target of the page that a command which drives the browser itself has acted on last."""
        self.over = asyncio.Event()
        """Set at the end of the process: what it has started and left must not touch pages that are judged."""
        self._refusals: set[str] = set()

    @property
    def started(self) -> bool:
        """Whether its process was started; whoever asks again after a failure hears that failure again."""
        return self._ended is not None

    def _acts_on(self, page: str) -> None:
        self._page = page

    def _refused(self, why: str) -> None:
        """A DevTools command was refused: the record says it once for each reason."""
        if why not in self._refusals and len(self._refusals) < _REFUSALS_TOLD:
            self._refusals.add(why)
            self._task.warn(self._plan, command_refused(self._name, why, self._index))

    @property
    def _driven(self) -> tuple[DebuggedContext, PlaywrightSession] | None:
        """The context of a command that drives the browser itself, and its session; None for others."""
        return self._task.contexts.get(self._plan.key) if self._table.drives_itself else None

    async def start(self, observe: Observe, history: History) -> None:
        """Start the process, which is told what agents before it have done. Raises Failed."""
        if missing := _missing_extra(self._table):
            message = f"Agent `{self._name}`: its command cannot take a task: pip install 'pytest-taskspec[{missing}]'"
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": self._name}))
        seconds = await self._seconds_left(observe)
        self._door = self._door or await self._run.doors.open(self._app)
        self._run.learn((self._door.token,))
        folder = self._task.folders[self._plan.key]
        log = folder / "files" / f"agent-{safe_name(self._name)}.log"
        try:
            program = self._program(self._door, folder, seconds, history)
            self._child = Child(program, log, Path(os.devnull), self._run.clock)
        except (OSError, ValueError) as error:  # ValueError: a word of it has the character NUL
            message = f"Agent `{self._name}`: its command was not started: {error}"
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": self._name})) from error
        self._ended = asyncio.create_task(self.watch(self._child, seconds - min(_JUDGED, seconds / 4)))

    async def _seconds_left(self, observe: Observe) -> float:
        """The seconds that the task still has; more than that if its page cannot be read."""
        with contextlib.suppress(Failed):
            return (await observe()).left.get("seconds", self._plan.timeout)
        return self._plan.timeout

    def _app(self, token: str) -> Any:
        from starlette.routing import Router

        def admit(given: str) -> tuple[str, str] | None:
            right = hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
            return None if right else ("AUTH_INVALID", "the token is not that of this task")

        def may_act(scope: Mapping[str, Any]) -> bool:
            return scope.get(SCOPE) == TokenScope.AGENT

        routes: list[BaseRoute] = [
            *websocket_routes(self.hub, admit),
            *http_routes(self.hub, may_act),
            *mcp_routes(self.hub, may_act),
        ]
        if self._driven is not None:
            files = ClientFiles(self._plan.folder, (self._task.folders[self._plan.key], *_TEMPORARY))
            routes = [_debugger_route(self._driven[0], files, self._acts_on, self._refused, self.over)]
        if models := self._table.models:
            self._gateway = self._task.inference.gateway(self._plan, self._name, models, lambda: self._index)
            routes += forwarding_routes(self._gateway)
        return Router(routes=routes)

    def _program(self, door: TaskDoor, folder: Path, seconds: float, history: History) -> Program:
        """The command to start. Raises Failed for a variable that is not set, OSError if it has no folder."""
        own = folder / f"agent-{safe_name(self._name)}"
        own.mkdir(exist_ok=True)
        bridge = f"ws://{door.address}/bridge"
        how = _STEP_BY_STEP if self._driven is None else _ITSELF
        values = {
            "cdp": f"ws://{door.address}{_DEBUGGER}",
            "browser_use": str(_BROWSER_USE),
            "prompt": prompt(self._plan, seconds, self._run.redact, how, history),
            "bridge": bridge,
            "token": door.token,
            "mcp": str(_mcp_file(own, door)),
            "python": sys.executable,
        }
        passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        given = {"HOME": str(own), "TMPDIR": str(own), "TASKSPEC_BRIDGE": bridge, _TOKEN: door.token}
        if self._driven is not None:
            self._task.warn(self._plan, control_observed(self._name))
        if self._table.models:
            base = f"http://{door.address}{MODELS}"
            given |= {"OPENAI_BASE_URL": f"{base}/v1", "ANTHROPIC_BASE_URL": base}
            given |= dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), door.token)  # it takes the token for a key
        environment = {**passed, **given, **_declared(self._name, self._table, os.environ)}
        cwd = own if self._table.cwd is None else self._run.settings.root / self._table.cwd
        command = [expand(word, values) for word in self._table.command or ()]
        return Program(command, environment, cwd, alone=True, adopts=True)

    async def watch(self, child: Child, seconds: float) -> int | None:
        """Wait for the end of the process, at most so long; then end its whole group, and return its exit code."""
        began, now = self._run.clock.now(), self._run.clock.now
        while not child.has_ended():
            left = seconds - (now() - began) + self.hub.suspended(self._plan)
            if left <= 0:
                self._killed = True
                with contextlib.suppress(OSError), child.log.open("a", encoding="utf-8") as log:
                    log.write("--- ended: the time of the task was over\n")
                break
            await poll_until(self._run.clock, child.has_ended, _LOOK, min(1.0, max(_LOOK, left)))
            with contextlib.suppress(OSError):  # one that writes too much goes on at the beginning of the file
                if child.log.stat().st_size > _LONGEST_LOG:
                    os.truncate(child.log, 0)
        try:
            return await child.stop(_AFTER_SIGTERM)
        finally:
            self.over.set()

    async def propose(
        self, plan: Plan, history: History, observe: Sight, policy: AgentPolicy
    ) -> Mapping[str, Any] | None:
        """The step of the process; None once it has ended well, or its time is over. Raises Failed."""
        assert self._ended is not None
        self._index = chosen_index(history)
        if self._driven is not None:
            await self._has_driven(observe, await asyncio.shield(self._ended))
            await self._driven[1].turn_to(self._page, _AFTER_TASK)
            return None
        asked = asyncio.create_task(self._agent.propose(plan, history, observe, policy))
        try:
            await asyncio.wait({asked, self._ended}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                await asyncio.wait({asked}, timeout=_REST)
            if _is_lost(asked):  # a program that ends closes its session first: how it ended is the outcome
                await asyncio.wait({self._ended}, timeout=_ENDS)
            if asked.done() and not (_is_lost(asked) and self._ended.done()):
                return self._told(asked)
            self._judge_or_fail(self._ended.result())
            return None
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    async def _has_driven(self, observe: Observe, code: int | None) -> None:
        """A process that drives the browser itself has ended. Raises Failed, also for a browser that was lost."""
        if code and not self._killed and self._lost is None:
            try:
                await observe()
            except Failed as failed:
                self._lost = failed if failed.failure.family is Family.BROWSER else None
        if self._lost is not None:
            raise self._lost
        self._judge_or_fail(code)

    def _told(self, asked: asyncio.Task[Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
        try:
            return asked.result()
        except Failed as failed:
            if failed.failure.code != "AGENT_UNAVAILABLE":
                raise
            message = f"Agent `{self._name}`: its command runs, and did not take its task within the agent's `timeout`"
            raise Failed(self._failure("AGENT_UNAVAILABLE", message)) from failed

    def _judge_or_fail(self, code: int | None) -> None:
        """The process has ended: return if its task is to be judged. Raises Failed for one that failed."""
        if self._killed:
            self._task.warn(self._plan, command_ended(self._name))
        elif code:
            raise Failed(self._failure("AGENT_FAILED", f"Agent `{self._name}`: its command ended with status {code}"))

    def _failure(self, code: str, message: str) -> Failure:
        tail = [] if self._child is None else self._child.tail(_SEARCHED)
        said: str = self._run.redact("\n".join(tail), self._plan)
        last = telling_line(said)
        details = {"agent": self._name, "output": "\n".join(said.splitlines()[-_SHOWN:])}
        advice = f"What the command wrote is in files/agent-{safe_name(self._name)}.log of the task's artifacts."
        return Failure(code, f"{message}: {last}" if last else message, details=details, advice=advice)

    def end(self, verdict: TaskEnding | None) -> None:
        """Tell the process how its task has ended."""
        self._agent.end(verdict)

    async def close(self) -> None:
        """End the process and its bridge. Bounded."""
        if self._child is not None and self._ended is not None:
            await asyncio.wait({self._ended}, timeout=_AFTER_TASK)
            if not self._ended.done():
                self._ended.cancel()
                await asyncio.gather(self._ended, return_exceptions=True)
                await self._child.stop(_AFTER_SIGTERM)
        if self._child is not None and self._door is not None:
            left = await asyncio.to_thread(with_variable, _TOKEN, self._door.token)  # daemons leave the group
            signal_all(left, signal.SIGKILL)
        await self.hub.stop()
        if self._gateway is not None:
            await self._gateway.close()
        if self._door is not None:
            self._run.doors.shut(self._door)


_DEBUGGER: Final = "/cdp"
_TEMPORARY: Final = (Path(tempfile.gettempdir()), Path("/tmp"))  # noqa: S108 - that of a command without TMPDIR
"""Folders in which a program that drives the browser may keep downloads, besides its own."""
_REFUSALS_TOLD: Final = 20
"""The number of refused DevTools commands of one task that are told as warnings."""
_BROWSER_USE: Final = Path(harness.agents.__file__).with_name("browser_use_driver.py")
"""The script that lets browser-use do a task; it runs in an interpreter that has browser-use, and not the harness."""


def _debugger_route(
    place: DebuggedContext,
    files: ClientFiles,
    told: Callable[[str], object],
    refused: Callable[[str], object],
    over: asyncio.Event,
) -> BaseRoute:
    """The route on which a program reaches the context of a task over the DevTools protocol, until `over` is set."""
    from starlette.routing import WebSocketRoute

    async def endpoint(websocket: WebSocket) -> None:
        async def receive() -> str | bytes | None:
            message = await websocket.receive()
            if message["type"] != "websocket.receive":
                return None
            text: str | bytes | None = message.get("text")
            return message["bytes"] if text is None else text

        await websocket.accept()
        with contextlib.suppress(OSError, WebSocketDisconnect):  # the browser or the program is gone
            await serve_debugger(place, receive, websocket.send_text, files, told, over, refused)
        with contextlib.suppress(RuntimeError):
            await websocket.close()

    from starlette.websockets import WebSocketDisconnect

    return WebSocketRoute(_DEBUGGER, endpoint)


def _missing_extra(table: AgentSettings) -> str:
    """The extra that the way of the command to its task needs and that is not installed; empty if all is there."""
    by_mcp = any("mcp" in placeholders_in(word) for word in table.command or ())
    package, extra = ("mcp", "mcp") if by_mcp else ("websockets", "serve")
    return extra if find_spec(package) is None else ""


def _mcp_file(folder: Path, door: TaskDoor) -> Path:
    """The file with which a client of MCP finds the task, in the form that Claude Code and others read."""
    server = {"type": "http", "url": f"http://{door.address}/mcp", "headers": {"Authorization": f"Bearer {door.token}"}}
    path = folder / "mcp.json"
    path.touch(0o600)
    path.write_text(json.dumps({"mcpServers": {"taskspec": server}}, indent=1), "utf-8")
    return path


_STEP_BY_STEP: Final = (
    "Do it in the browser that the test harness controls. You have {seconds:.0f} seconds. Take the task, look at "
    "the page, do one step at a time, and say when you have finished: nobody answers questions."
)
_ITSELF: Final = (
    "Do it in the browser that you are connected to. You have {seconds:.0f} seconds. Say when you have finished: "
    "nobody answers questions."
)


def prompt(plan: Plan, seconds: float, redact: _Redact, how: str = _STEP_BY_STEP, history: History = ()) -> str:
    """The task in words, for an agent that is told nothing else. `history`: what agents before it have done."""
    inputs = redact(plan.spec.inputs, plan)
    lines = [plan.spec.goal or plan.task_id]
    if inputs:
        lines += ["", f"Inputs: {json.dumps(inputs, ensure_ascii=False)}"]
    if before := redact(steps_before(history), plan):
        lines += ["", "Other agents have done this already, in the same browser; do not do it again:"]
        lines += [f"- {each['step']}: {'passed' if each['passed'] else each['code'] or 'failed'}" for each in before]
    return "\n".join([*lines, "", how.format(seconds=seconds)])


def _declared(name: str, table: AgentSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The declared variables of a command. Raises Failed for a variable of the run that is not set."""

    def filled(key: str, text: str) -> str:
        if missing := [each for each in REFERENCE.findall(text) if each not in environ]:
            place = f"`environment.{key}` of [tool.harness.agents.{name}]"
            message = f"Agent `{name}`: the variable {missing[0]} is not set, which {place} names"
            advice = f"Set it in the environment of the run: `export {missing[0]}=...`."
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details={"agent": name}, advice=advice))
        return REFERENCE.sub(lambda found: environ[found[1]], text)

    return {key: filled(key, text) for key, text in table.environment.items()}


def _is_lost(asked: asyncio.Task[Mapping[str, Any] | None]) -> bool:
    """Return whether the session of the program is gone."""
    error = asked.exception() if asked.done() and not asked.cancelled() else None
    return isinstance(error, Failed) and error.failure.code == "AGENT_LOST"
