"""An agent from the project's Python code: its source, its thread, its view of the page, the place of its errors."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import queue
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from msgspec import Struct, field

from harness.model.agent_settings import AgentSettings
from harness.model.inference import ModelAnswer, ModelClient, Prompt
from harness.model.plan import Plan
from harness.model.policy import UNLIMITED, AgentPolicy
from harness.model.ports import Observation, Observe
from harness.model.record import History
from harness.recovery.failure import Failed, Failure
from harness.resilience.threads import ThreadReply, plain_error
from harness.spec.problems import did_you_mean, join_or
from harness.spec.steps import Step

_FOREIGN = ("site-packages", "dist-packages")
_HOUSE = Path(__file__).parents[1]
R = TypeVar("R")


def scene(error: BaseException, source: AgentSource) -> str:
    """`mine_agent.py:25, in propose: return 1/0`, for the innermost frame in the agent's code; empty if there is none.

    The agent's code is what lies in the project's folder, or beside its module.
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
    """The folder of the module's package; None if it was not imported, or is installed beside other packages."""
    file = getattr(sys.modules.get(source.module), "__file__", None)
    if file is None:
        return None
    folder = Path(file).parent
    return None if folder.name in _FOREIGN else folder


REFUSED = "invalid"
"""The act in the record of a proposal that was refused (`harness.engine.agent.Invalid`)."""
ModelsOf = Callable[[Plan, str, int], ModelClient]
"""The task, the name of the agent, the index of the step that it chooses -> the models for this proposal."""


def chosen_index(history: History) -> int:
    """The index of the step that an agent chooses after this history: a refused proposal was no step."""
    return sum(each.step.act != REFUSED for each in history)


class ProposalBridge:
    """The looks at the page and the calls of models during one proposal. Their time does not count as the agent's."""

    def __init__(self, observe: Observe, models: Callable[[], ModelClient] | None = None) -> None:
        """It must be made on the loop that `observe` and `models` belong to."""
        self._observe = observe
        self._models = models
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._seconds = 0.0
        self._since = 0.0
        self._open = True

    def observe_blocking(self, *, screenshot: bool = False) -> Observation:
        """Observe for an agent that is not async: blocks its thread. Raises Failed if the page cannot be read."""
        return self._start(self._observe(screenshot=screenshot)).result()

    async def observe_async(self, *, screenshot: bool = False) -> Observation:
        """Observe for an agent that is async. Raises Failed if the page cannot be read."""
        return await asyncio.wrap_future(self._start(self._observe(screenshot=screenshot)))

    async def ask_model(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask a model, on any event loop (`inference.ModelClient.ask`)."""
        return await asyncio.wrap_future(self._start(self._ask(model, prompt)))

    async def _ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        if self._models is None:
            raise Failed(Failure("MODEL_NOT_FOUND", "There are no models where this agent runs"))
        return await self._models().ask(model, prompt)

    @property
    def seconds(self) -> float:
        """Seconds spent on observations and models so far."""
        return self._seconds + (self._loop.time() - self._since if self._tasks else 0.0)

    def close(self) -> None:
        """End all looks and calls: the proposal is over."""
        self._open = False
        for task in self._tasks:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        if not self._open:
            work.close()
            raise RuntimeError("observe() and models can be used only while propose() runs")
        return asyncio.run_coroutine_threadsafe(self._measured(work), self._loop)

    async def _measured(self, work: Coroutine[Any, Any, R]) -> R:
        task = asyncio.current_task()
        assert task is not None
        if not self._tasks:
            self._since = self._loop.time()
        self._tasks.add(task)
        try:
            if not self._open:
                raise asyncio.CancelledError
            return await work
        finally:
            work.close()
            self._tasks.discard(task)
            if not self._tasks:
                self._seconds += self._loop.time() - self._since


class AgentClient:
    """The models as an agent keeps them for its whole life (`inference.ModelClient`); each proposal opens them anew."""

    def __init__(self) -> None:
        self.bridge: ProposalBridge | None = None

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask a model, on any event loop. Raises Failed; RuntimeError outside of a proposal."""
        if self.bridge is None:
            raise RuntimeError("models can be used only while propose() runs")
        return await self.bridge.ask_model(model, prompt)


CLOSE_SECONDS = 5.0
_SHORTEST_WAIT = 0.05
"""The precision of an agent's time limit, in seconds."""

_log = logging.getLogger(__name__)


class PythonAgent:
    """Foreign code behind the port: it runs on its own thread, is made at its first proposal, and has time limits."""

    def __init__(self, source: AgentSource, models: ModelsOf | None = None) -> None:
        self._source = source
        self._models = models
        self._client = AgentClient()
        self._thread = AgentThread(source.name)
        self._agent: Any = None

    async def propose(self, plan: Plan, history: History, observe: Observe) -> Step | None:
        """The agent's unchecked answer. Raises Failed if it was not made, raised an error, or was too late."""
        models = self._models and partial(self._models, plan, self._source.name, chosen_index(history))
        bridge = self._client.bridge = ProposalBridge(observe, models)
        try:
            if self._agent is None:
                make = partial(self._source.make, self._client)
                self._agent = await self._run_bounded(make, bridge, "was not created")
            propose = self._agent.propose
            look = bridge.observe_async if _is_async(propose) else bridge.observe_blocking
            proposed: Step | None = await self._run_bounded(
                partial(propose, plan, history, look), bridge, "did not propose a step"
            )
        except Failed:
            raise
        except Exception as error:
            name, place = self._source.name, scene(error, self._source)
            message = f"Agent `{name}` failed: {type(error).__name__}: {error}" + (f" ({place})" if place else "")
            raise Failed(Failure("AGENT_FAILED", message, cause=error)) from error
        finally:
            bridge.close()
        return proposed

    async def _run_bounded(self, function: Callable[[], Any], bridge: ProposalBridge, what: str) -> Any:
        loop, limit = asyncio.get_running_loop(), self._source.timeout
        task = asyncio.ensure_future(self._thread.run(function))
        began = loop.time() - bridge.seconds
        try:
            while not task.done():
                left = limit - (loop.time() - began - bridge.seconds)
                if left <= 0:
                    message = f"Agent `{self._source.name}` {what} within {limit:g}s"
                    raise Failed(Failure("AGENT_TIMEOUT", message))
                await asyncio.wait({task}, timeout=max(left, _SHORTEST_WAIT))
            return task.result()
        finally:
            task.cancel()

    async def close(self) -> None:
        """Close the agent, if it has a `close`. Bounded; it never raises."""
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


# Finds and makes an agent. Every error there is described in plain words.

_PROTOCOL = "propose(plan, history, observe)"


class AgentSource(Struct, frozen=True):
    """A class, or a function that makes the agent, by its place in Python."""

    name: str
    """The agent's name in `[tool.harness.agents]` or among the entry points."""
    module: str
    attribute: str
    root: Path
    """The project's folder, where modules are searched too."""
    timeout: float
    """Seconds for the choice of one step."""
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: AgentPolicy = UNLIMITED
    retry: int = 0
    """How often it is made anew and asked again, after it has raised an error."""
    command: AgentSettings | None = None
    """The table of an agent that is a process of its own, which has nothing in Python."""

    @property
    def python(self) -> str:
        """The source in the form of the settings."""
        return f"{self.module}:{self.attribute}"

    def make(self, models: ModelClient | None = None) -> Any:
        """Make a new agent; if its class or function has a parameter `models` or `policy`, it gets that.

        Foreign code runs here, and may take its time. Raises Failed.
        """
        make = self._attribute(self._imported())
        if not callable(make):
            raise self._unavailable(f"is {_kind(make)}, not a class or function that makes an agent")
        options = self._checked_options(make, models)
        try:
            agent = make(**options)
        except Exception as error:
            raise self._unavailable(f"failed while it was created: {type(error).__name__}: {error}", error) from error
        return self._check_agent(agent)

    def _imported(self) -> ModuleType:
        if str(self.root) not in sys.path:  # not removed: the agent may import more of the project later
            sys.path.append(str(self.root))
        importlib.invalidate_caches()
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{self.module}.".startswith(f"{error.name}."):
                why = f"there is no module `{error.name}`, neither in {self.root} nor installed"
            else:
                why = f"its module cannot be imported: {type(error).__name__}: {error}"
            raise self._unavailable(why, error) from error

    def _attribute(self, module: ModuleType) -> Any:
        found: Any = module
        for part in self.attribute.split("."):
            if not hasattr(found, part):
                near = did_you_mean(part, [name for name in dir(found) if not name.startswith("_")])
                raise self._unavailable(f"`{self.module}` has no `{self.attribute}`" + (f"; {near}" if near else ""))
            found = getattr(found, part)
        return found

    def _checked_options(self, make: Any, models: ModelClient | None) -> Mapping[str, Any]:
        """The options, with the models and the policy if the agent has parameters for them. Raises Failed."""
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):  # some builtins have no signature
            return self.options
        if {"plan", "history", "observe"} <= signature.parameters.keys():
            raise self._unavailable(
                f"chooses a step itself: name a class with `{_PROTOCOL}`, or a function that returns its object"
            )
        known_here = {"models": models, "policy": self.policy}
        given = {name: each for name, each in known_here.items() if each is not None and name in signature.parameters}
        if taken := sorted(given.keys() & self.options.keys()):
            raise self._unavailable(f"gets `{taken[0]}` from the harness: leave it out of the options")
        try:
            signature.bind(**given, **self.options)
        except TypeError as error:
            takes = [name for name in signature.parameters if name not in ("args", "kwargs", *given)]
            known = f"it takes {join_or(takes)}" if takes else "it takes none"
            raise self._unavailable(f"does not take the options that are set: {error}; {known}", error) from error
        return {**given, **self.options}

    def _check_agent(self, agent: Any) -> Any:
        propose = getattr(agent, "propose", None)
        if not callable(propose):
            raise self._unavailable(f"made {_kind(agent)}, which has no method `{_PROTOCOL}`")
        try:
            inspect.signature(propose).bind(None, None, None)
        except TypeError as error:
            raise self._unavailable(
                f"has a `propose` that cannot be called as `{_PROTOCOL}`: {error}", error
            ) from error
        except ValueError:
            return agent
        return agent

    def _unavailable(self, problem: str, cause: BaseException | None = None) -> Failed:
        details = {"agent": self.name, "python": self.python}
        message = f"Agent `{self.name}` ({self.python}): {problem}"
        return Failed(Failure("AGENT_UNAVAILABLE", message, details=details, cause=cause))


def _kind(value: Any) -> str:
    return f"a {value.__name__}" if inspect.ismodule(value) else f"a value of type {type(value).__name__}"


class AgentThread:
    """Runs one agent's code, always on the same thread: it can block neither the loop nor the end of the process.

    Async code runs there too, on a loop that lives as long as the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_AgentJob | None] = queue.SimpleQueue()
        self._running: _AgentJob | None = None
        threading.Thread(target=self._run_jobs, name=f"agent {name}", daemon=True).start()

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run the function, and await its result if possible; returns or raises what it does.

        If this is cancelled, async code is cancelled too, and synchronous code is left alone.
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
        """Whether abandoned code still runs."""
        return self._running is not None and not self._running.over

    def close(self) -> None:
        """Let the thread end as soon as nothing runs on it; this does not wait."""
        self._jobs.put(None)

    def _run_jobs(self) -> None:
        with asyncio.Runner() as runner:
            while (job := self._jobs.get()) is not None:
                job.do(runner)


class _AgentJob(Struct):
    function: Callable[[], Any]
    reply: ThreadReply[Any]
    task: asyncio.Task[Any] | None = None
    """The async part of it, on the thread's loop."""
    context: Context = field(default_factory=copy_context)
    """The context of the waiting caller: what the code prints belongs to that task."""
    abandoned: bool = False
    over: bool = False

    def do(self, runner: asyncio.Runner) -> None:
        """Run the code; called on the agent's thread."""
        try:
            result = self.context.run(self.function)
            if inspect.isawaitable(result):
                result = runner.run(self._await_cancellable(result), context=self.context)
        except BaseException as error:  # noqa: BLE001 - whatever foreign code raises belongs to who asked
            self.over = True
            # An agent's `sys.exit` does not end the run, nor does its cancellation end the task.
            self.reply.fail(error if isinstance(error, Exception) else plain_error(error))
        else:
            self.over = True
            self.reply.set_result(result)

    async def _await_cancellable(self, awaitable: Awaitable[Any]) -> Any:
        self.task = asyncio.current_task()
        if self.abandoned and self.task:
            self.task.cancel()
        return await awaitable

    def abandon(self) -> None:
        """Give the job up; called on the waiting caller's thread."""
        self.abandoned = True
        if self.task:
            with suppress(RuntimeError):  # its loop is closed
                self.task.get_loop().call_soon_threadsafe(self.task.cancel)
