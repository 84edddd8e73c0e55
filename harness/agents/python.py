"""An agent that the project brings, as Python code: where it comes from, its thread, what it sees, whom to blame."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import queue
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.model.plan import Plan
from harness.model.ports import Observation, Observe
from harness.model.record import History
from harness.recovery.failure import Failed, Failure
from harness.resilience.threads import ThreadReply, plain
from harness.spec.problems import did_you_mean, listed
from harness.spec.steps import Step

_FOREIGN = ("site-packages", "dist-packages")
_HOUSE = Path(__file__).parents[1]


def scene(error: BaseException, source: AgentSource) -> str:
    """`mine_agent.py:25, in propose: return 1/0`, of the innermost frame in the agent's code; empty without one.

    Its code is what lies in the project's folder, or beside its module.
    """
    beside = _folder_of_module(source)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        foreign = file.is_relative_to(_HOUSE) or any(part in _FOREIGN for part in file.parts)
        ours = file.is_relative_to(source.root) and not foreign
        if ours or (beside is not None and file.is_relative_to(beside)):
            base = source.root if ours else beside or source.root
            line = f": {frame.line}" if frame.line else ""
            return f"{file.relative_to(base)}:{frame.lineno}, in {frame.name}{line}"
    return ""


def _folder_of_module(source: AgentSource) -> Path | None:
    """The folder of the package that the module is in; None when it was not imported, or is installed beside others."""
    file = getattr(sys.modules.get(source.module), "__file__", None)
    if file is None:
        return None
    folder = Path(file).parent
    return None if folder.name in _FOREIGN else folder


# `observe`, as an agent on another thread may call it.


class Looks:
    """The looks at the page during one proposal. The time they take is not the agent's."""

    def __init__(self, observe: Observe) -> None:
        """On the loop that `observe` belongs to."""
        self._observe = observe
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Observation]] = set()
        self._seconds = 0.0
        self._since = 0.0
        self._open = True

    def now(self, *, screenshot: bool = False) -> Observation:
        """For an agent that is not async: blocks its thread. Raises Failed when the page cannot be looked at."""
        return self._begun(screenshot).result()

    async def later(self, *, screenshot: bool = False) -> Observation:
        """For an agent that is async. Raises Failed when the page cannot be looked at."""
        return await asyncio.wrap_future(self._begun(screenshot))

    @property
    def seconds(self) -> float:
        """How long somebody was looking so far."""
        return self._seconds + (self._loop.time() - self._since if self._tasks else 0.0)

    def close(self) -> None:
        """The proposal is over: whoever is still looking stops."""
        self._open = False
        for task in self._tasks:
            task.cancel()

    def _begun(self, screenshot: bool) -> Future[Observation]:
        if not self._open:
            raise RuntimeError("observe() can be called only while propose() runs")
        return asyncio.run_coroutine_threadsafe(self._look(screenshot), self._loop)

    async def _look(self, screenshot: bool) -> Observation:
        task = asyncio.current_task()
        assert task is not None
        if not self._tasks:
            self._since = self._loop.time()
        self._tasks.add(task)
        try:
            if not self._open:
                raise asyncio.CancelledError
            return await self._observe(screenshot=screenshot)
        finally:
            self._tasks.discard(task)
            if not self._tasks:
                self._seconds += self._loop.time() - self._since


# An agent that somebody else wrote.

CLOSE_SECONDS = 5.0
SHORTEST_WAIT = 0.05
"""Seconds; how exact an agent's time is."""

_log = logging.getLogger(__name__)


class PythonAgent:
    """Foreign code behind the port: on a thread of its own, made at its first proposal, every call bounded."""

    def __init__(self, source: AgentSource) -> None:
        self._source = source
        self._thread = AgentThread(source.name)
        self._agent: Any = None

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """What the agent returns, unchecked. Raises Failed: it was not made, raised an error, or was too late."""
        looks = Looks(observe)
        try:
            if self._agent is None:
                self._agent = await self._bounded(self._source.make, looks, "was not made")
            propose = self._agent.propose
            look = looks.later if _is_async(propose) else looks.now
            proposed: Step | None = await self._bounded(
                partial(propose, plan, history, look), looks, "did not propose a step"
            )
        except Failed:
            raise
        except Exception as error:
            raise self._failed(error) from error
        finally:
            looks.close()
        return proposed

    def _failed(self, error: Exception) -> Failed:
        name, place = self._source.name, scene(error, self._source)
        message = f"Agent `{name}` failed: {type(error).__name__}: {error}" + (f" ({place})" if place else "")
        return Failed(Failure("AGENT_FAILED", message, cause=error))

    async def _bounded(self, function: Callable[[], Any], looks: Looks, what: str) -> Any:
        loop, limit = asyncio.get_running_loop(), self._source.timeout
        task = asyncio.ensure_future(self._thread.run(function))
        began = loop.time() - looks.seconds
        try:
            while not task.done():
                left = limit - (loop.time() - began - looks.seconds)
                if left <= 0:
                    message = f"Agent `{self._source.name}` {what} within {limit:g}s"
                    raise Failed(Failure("AGENT_TIMEOUT", message))
                await asyncio.wait({task}, timeout=max(left, SHORTEST_WAIT))
            return task.result()
        finally:
            task.cancel()

    async def close(self) -> None:
        """Tell the agent, when it has a `close`. Bounded; never raises."""
        close = getattr(self._agent, "close", None)
        try:
            if callable(close) and not self._thread.busy:
                await asyncio.wait_for(self._thread.run(close), CLOSE_SECONDS)
        except Exception:  # noqa: BLE001 - the task is over and judged: this must not change it
            _log.warning("Agent `%s`: close() failed", self._source.name, exc_info=True)
        finally:
            self._thread.close()


def _is_async(function: Callable[..., Any]) -> bool:
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004


# Where an agent comes from, and how it is made. Whatever is wrong there is told in plain words.

PROTOCOL = "propose(plan, history, observe)"


@dataclass(frozen=True, slots=True)
class AgentSource:
    """A class, or a function that makes the agent, by its place in Python."""

    name: str
    """The agent's, in `[tool.harness.agents]` or among the entry points."""
    module: str
    attribute: str
    root: Path
    """The project's folder: modules are looked for there too."""
    timeout: float
    """Seconds for the choice of one step."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def python(self) -> str:
        """As the settings write it."""
        return f"{self.module}:{self.attribute}"

    def make(self) -> Any:
        """A new agent. Foreign code runs here, and may take its time. Raises Failed."""
        make = self._attribute(self._imported())
        if not callable(make):
            raise self._refused(f"is {_kind(make)}, not a class or function that makes an agent")
        self._check_options(make)
        try:
            agent = make(**self.options)
        except Exception as error:
            raise self._refused(f"failed while it was made: {type(error).__name__}: {error}", error) from error
        return self._checked(agent)

    def _imported(self) -> ModuleType:
        if str(self.root) not in sys.path:  # stays: the agent may import more of the project later
            sys.path.append(str(self.root))
        importlib.invalidate_caches()
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{self.module}.".startswith(f"{error.name}."):
                why = f"there is no module `{error.name}`, neither in {self.root} nor installed"
            else:
                why = f"its module cannot be imported: {type(error).__name__}: {error}"
            raise self._refused(why, error) from error

    def _attribute(self, module: ModuleType) -> Any:
        found: Any = module
        for part in self.attribute.split("."):
            if not hasattr(found, part):
                near = did_you_mean(part, [name for name in dir(found) if not name.startswith("_")])
                raise self._refused(f"`{self.module}` has no `{self.attribute}`" + (f"; {near}" if near else ""))
            found = getattr(found, part)
        return found

    def _check_options(self, make: Any) -> None:
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):  # some builtins have none
            return
        try:
            signature.bind(**self.options)
        except TypeError as error:
            takes = [name for name in signature.parameters if name not in ("args", "kwargs")]
            known = f"it takes {listed(takes)}" if takes else "it takes none"
            raise self._refused(f"does not take the options that are set: {error}; {known}", error) from error

    def _checked(self, agent: Any) -> Any:
        propose = getattr(agent, "propose", None)
        if not callable(propose):
            raise self._refused(f"made {_kind(agent)}, which has no method `{PROTOCOL}`")
        try:
            inspect.signature(propose).bind(None, None, None)
        except TypeError as error:
            raise self._refused(f"has a `propose` that cannot be called as `{PROTOCOL}`: {error}", error) from error
        except ValueError:
            return agent
        return agent

    def _refused(self, problem: str, cause: BaseException | None = None) -> Failed:
        details = {"agent": self.name, "python": self.python}
        message = f"Agent `{self.name}` ({self.python}): {problem}"
        return Failed(Failure("AGENT_UNAVAILABLE", message, details=details, cause=cause))


def _kind(value: Any) -> str:
    return f"a {value.__name__}" if inspect.ismodule(value) else f"a value of type {type(value).__name__}"


# A thread of its own for foreign code.


class AgentThread:
    """Runs one agent's code, always on the same thread: it can hold up neither the loop nor the end of the process.

    What is async runs there too, on a loop that lives as long as the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_AgentJob | None] = queue.SimpleQueue()
        self._running: _AgentJob | None = None
        threading.Thread(target=self._work, name=f"agent {name}", daemon=True).start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """What the function returns (awaited, when it can be), or raises.

        When this is cancelled, async code is cancelled too, and sync code is left to itself.
        """
        job = self._running = _AgentJob(function, ThreadReply())
        self._jobs.put(job)
        try:
            return await job.reply
        except asyncio.CancelledError:
            job.abandon()
            raise

    @property
    def busy(self) -> bool:
        """Whether something that was given up on still runs."""
        return self._running is not None and not self._running.over

    def close(self) -> None:
        """The thread ends when nothing runs on it any more; nobody waits for that."""
        self._jobs.put(None)

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            while (job := self._jobs.get()) is not None:
                job.do(runner)


@dataclass(slots=True)
class _AgentJob:
    function: Callable[[], Any]
    reply: ThreadReply[Any]
    task: asyncio.Task[Any] | None = None
    """What is async of it, on the thread's loop."""
    context: Context = field(default_factory=copy_context)
    """The context of whoever waits for it: what the code prints belongs to that task."""
    abandoned: bool = False
    over: bool = False

    def do(self, runner: asyncio.Runner) -> None:
        """On the agent's thread."""
        try:
            result = self.context.run(self.function)
            if inspect.isawaitable(result):
                result = runner.run(self._awaited(result), context=self.context)
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises belongs to who asked
            self.over = True
            # An agent's `sys.exit` is not taken for the end of the run, nor its cancellation for the task's.
            self.reply.fail(error if isinstance(error, Exception) else plain(error))
        else:
            self.over = True
            self.reply.give(result)

    async def _awaited(self, awaitable: Awaitable[Any]) -> Any:
        self.task = asyncio.current_task()
        if self.abandoned and self.task:
            self.task.cancel()
        return await awaitable

    def abandon(self) -> None:
        """On the thread of who waited."""
        self.abandoned = True
        if self.task:
            with suppress(RuntimeError):  # its loop is closed: it is over
                self.task.get_loop().call_soon_threadsafe(self.task.cancel)
