"""The harness for threads that wait: with synchronous methods, and together with the stream of its events."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from harness.browser import Browsers
from harness.model.events import Event
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.model.settings import Settings
from harness.recovery.failure import Failed, Failure
from harness.reporting.archive import DirectoryArchive
from harness.reporting.telemetry.record import RunBegun
from harness.reporting.telemetry.sinks import begun_stream
from harness.resilience.events import Emit, discard
from harness.runner.ground import Interaction
from harness.runner.harness import Harness
from harness.runner.loop import Caller, LoopFuture, LoopThread
from harness.spec.names import new_run_id
from harness.spec.task import TaskSpec

if TYPE_CHECKING:
    from harness.runner.bridging import BridgeAddress
    from harness.runner.page_faults import PageFaults
    from harness.spec.faults import Fault

T = TypeVar("T")
AskHere = Callable[[str, tuple[str, ...]], str | None]
RepairHere = Callable[[Plan, str, Mapping[str, Any]], Mapping[str, Any] | bool]
"""`Ask` and `RepairHook` of the ports, called on the waiting thread."""


class SyncHarness:
    """A Harness with synchronous methods; for pytest, the CLI and `execute_task`."""

    def __init__(self, settings: Settings, run_id: str | None = None, tell: Emit = discard) -> None:
        self.settings = settings
        self._tell = tell
        self.run_id = run_id or new_run_id(datetime.now(UTC), os.getpid())
        self._loop = LoopThread()

        async def made() -> Harness:
            return Harness(settings, self.run_id, tell)

        try:
            self._harness = self._loop.call(made())
        except BaseException:
            self._loop.close()
            raise

    def record_writes(self, before_write: Callable[[Plan], Awaitable[None]]) -> None:
        """From now on, tasks wait for this before each write (`Ports.before_write`); it is awaited on the loop."""
        self._harness.before_write = before_write

    def only_reads_with_tools(self) -> None:
        """From now on, the steps of tasks call no tool that writes."""
        self._harness.tools.only_reads = True

    def forget_python(self) -> None:
        """Load channels and agents anew with the next task: the project's Python has changed."""
        self._loop.call(self._harness.forget_python())

    def start(self) -> None:
        """Find or start the services, for tests that may need any of them. Raises Failed."""
        self._loop.call(self._harness.start_all())

    def prepare(self, spec: TaskSpec) -> None:
        """Begin to start what the first task needs, beside what this thread does meanwhile."""
        self._loop.call(self._harness.prepare(spec))

    def serve_bridge(self, port: int, wait: float) -> BridgeAddress:
        """Serve agents that run elsewhere: a task waits `wait` seconds for one. Raises ValueError and OSError."""
        return self._loop.call(self._harness.serve_bridge(port, wait))

    @contextmanager
    def slot(self, name: str) -> Iterator[Mapping[str, int]]:
        """The hosts of a slot that the ordinary test of that name has to itself, reset. Raises Failed."""
        world = f"{self.run_id}-{uuid4().hex}"
        slot, hosts = self._loop.call(self._harness.occupy(world, name))
        try:
            yield dict(hosts)
        finally:
            if slot is not None:
                self._loop.call(self._harness.release_slot(slot, world))

    def run(
        self,
        plan: Plan,
        sink: Callable[[Event], None],
        ask: AskHere | None = None,
        repair: RepairHere | None = None,
        idle: Callable[[], None] | None = None,
    ) -> TaskResult:
        """Run one task; events reach `sink` on this thread, and `ask`, `repair` and (often) `idle` are called on it."""
        return self.begin(lambda caller: self.play(plan, caller, ask, repair)).finish(sink, idle)

    def begin(self, main: Callable[[Caller], Coroutine[Any, Any, T]]) -> LoopFuture[T]:
        """Start a coroutine such as `play` on the loop, from any thread; the one that finishes it gets its events."""
        return self._loop.begin(main)

    async def play(
        self, plan: Plan, caller: Caller, ask: AskHere | None = None, repair: RepairHere | None = None
    ) -> TaskResult:
        """Run one task on the loop; several may run at once. The caller gets the events, and asks and repairs."""
        interaction = Interaction(ask and partial(caller.call, ask), repair and partial(caller.call, repair))
        return await self._harness.run(plan, caller, interaction)

    @property
    def slots(self) -> int | None:
        """The number of tasks that may run at once because they share a state; None: no state is shared."""
        return self._harness.services.instances if self.settings.shared_state else None

    def check_agents(self, name: str | None) -> None:
        """Raises ValueError if there is no agent of that name, or none of a name in the settings of agents."""
        try:
            self._harness.agents.check(name)
        except Failed as failed:
            raise ValueError(failed.failure.message) from failed

    def explain(self, failure: Failure) -> Failure:
        """The failure of a service that is down for good, in place of the network error that it causes."""
        return self._harness.services.explain(failure)

    def strike_tests(self, faults: Sequence[Fault], seed: int | None) -> PageFaults:
        """Open the gates for the faults of all ordinary tests, before the services. Raises Failed."""
        return self._loop.call(self._harness.strike_tests(faults, seed))

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and return or raise its result."""
        return self._loop.call(coroutine)

    @property
    def archive(self) -> DirectoryArchive:
        return self._harness.archive

    @property
    def hosts(self) -> Mapping[str, int]:
        """Host name, in lower case -> port on 127.0.0.1; final after `start`."""
        return dict(self._harness.services.hosts)

    @property
    def kept_services(self) -> tuple[str, ...]:
        """A line for each service that was used but not started, because the project keeps it."""
        return self._harness.services.kept_lines()

    @property
    def browsers(self) -> Browsers:
        """The browsers of the run. They belong to the loop: they are for coroutines that `begin` starts."""
        return self._harness.browsers

    @property
    def browser(self) -> str:
        """Name, version and path of the browser, once one was started."""
        return self.browsers.described

    def close(self) -> None:
        """Close everything, in bounded time; the process can end afterwards."""
        try:
            self._loop.call(self._harness.close())
        finally:
            self._loop.close()


class BegunRun(AbstractContextManager["BegunRun"]):
    """A run outside pytest: its stream of events and its harness, which end together, by `with` or `close`."""

    def __init__(
        self,
        settings: Settings,
        run_id: str = "",
        *,
        say: Callable[[str], None] = lambda _line: None,
        leads: bool = True,
        tasks: int | None = None,
    ) -> None:
        """`say` receives a line for each output that failed. `leads`: as in `begun_stream`. `tasks`: for `RunBegun`.

        Raises ValueError for an error in the settings or a file that they name, and OSError.
        """
        self.run_id = run_id or new_run_id(datetime.now(UTC), os.getpid())
        self._say = say
        self.stream = begun_stream(settings, self.run_id, leads=leads)
        if tasks is not None:
            self.stream.emit(RunBegun(tasks))
        try:
            self.harness = SyncHarness(settings, self.run_id, self.stream.emit)
        except BaseException:
            self.stream.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the harness, and then the stream, which tells of its end."""
        try:
            self.harness.close()
        finally:
            for problem in self.stream.close():
                self._say(problem)
