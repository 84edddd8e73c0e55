"""Strikes ordinary Playwright tests with the faults of `--task-faults`: each test counts as one step, step 0.

Their browser belongs to them. So what strikes is what needs neither steps nor the inside of a page: the hosts of the
services, whose requests pass gates for the whole run, the services themselves, and the process of the browser.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import urlsplit

from harness.faults.injector import FaultInjector, Where
from harness.faults.network import Network, Struck, prepare
from harness.faults.state import SiteTarget
from harness.model.ports import Injection, Undo
from harness.model.record import MetFault
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.runner.compile import planned_faults
from harness.spec.expressions import scope_of
from harness.spec.fault_plan import LoadedFaultPlan
from harness.spec.faults import BrowserKill, Fault, HostFault, InServices, SocketFault
from harness.spec.page_calls import PageCall
from harness.spec.problems import Problem, SpecError
from harness.spec.task import TaskSpec

_TEST = PageCall(act="test")
"""What stands for the whole test: the one step that faults may name."""
_LOOK_SECONDS = 0.05
_KINDS = "faults of hosts and URLs of the services, of the services themselves, and `browser_kill`"


def page_test_faults(spec: TaskSpec, plans: Sequence[LoadedFaultPlan]) -> tuple[Fault, ...]:
    """The faults of the plans that strike a test. Raises SpecError for one that cannot strike an ordinary test."""
    found = planned_faults(spec, scope_of(spec, os.environ), plans).faults
    if problems := list(_misplaced(spec, plans)):
        raise SpecError(problems)
    return found


def _misplaced(spec: TaskSpec, plans: Sequence[LoadedFaultPlan]) -> Iterable[Problem]:
    for loaded in plans:
        for number, fault in loaded.plan.of(spec):
            why = _refusal(fault)
            if why:
                yield loaded.origin.problem(("faults", number), f"{spec.task_id} is an ordinary test: {why}")


def _refusal(fault: Fault) -> str:
    """Why a fault cannot strike an ordinary test; empty if it can."""
    if fault.step > 0 or getattr(fault, "act", None):
        return f"it has no steps, and {fault.kind} needs step {fault.step}; leave out `step` and `act`"
    if isinstance(fault, HostFault | SocketFault | BrowserKill | InServices):
        return ""
    return f"{fault.kind} needs the steps or the pages of a task; what strikes tests: {_KINDS}"


class _Lent:
    """The network of all tests, as one test uses it: its end disarms the gates, and leaves them open."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.matches, self.strike, self.request_failed = network.matches, network.strike, network.request_failed

    def arm(self, struck: Struck) -> None:
        self._network.arm(struck)

    async def close(self) -> None:
        self._network.arm(lambda _: None)


class _NoState:
    """There is no state of a task in an ordinary test; `_refusal` keeps faults of it away."""

    async def has(self, _fault: object) -> bool:
        return False

    async def strike(self, strike: Injection) -> Undo | None:
        raise Failed(Failure("INTERNAL_ERROR", f"{strike.fault.kind} cannot strike an ordinary test"))


class _Processes:
    """The browsers of a test (ports.FaultTarget), of which only the processes can be reached."""

    def __init__(self, kill: Callable[[], bool], clock: Clock) -> None:
        self._kill, self._clock = kill, clock
        self._waiting: asyncio.Task[None]

    async def strike(self, strike: Injection) -> Undo | None:
        """Kill the browser, as soon as a page of the test works."""
        self._waiting = asyncio.create_task(self._kill_later(strike))

        async def heal() -> None:
            self._waiting.cancel()

        return heal

    async def _kill_later(self, strike: Injection) -> None:
        while not self._kill():
            await self._clock.sleep(_LOOK_SECONDS)
        strike.met()


class PageFaults:
    """The faults of one run for its ordinary tests. All of it runs on the loop of the harness."""

    def __init__(self, network: Network, sites: SiteTarget, clock: Clock, seed: int | None) -> None:
        self._network, self._sites, self._clock, self._seed = network, sites, clock, seed
        self._injector: FaultInjector | None = None

    @classmethod
    async def of(
        cls, faults: Sequence[Fault], hosts: Mapping[str, int], sites: SiteTarget, clock: Clock, seed: int | None
    ) -> PageFaults:
        """Open the gates of all hosts that may be struck. Raises Failed for an unknown host."""
        return cls(await prepare(faults, hosts=hosts, clock=clock), sites, clock, seed)

    @property
    def hosts(self) -> Mapping[str, int]:
        """Host -> port for the browsers of tests: the gate's, if there is one."""
        return self._network.hosts

    async def begin(self, faults: Sequence[Fault], test: str, kill: Callable[[], bool]) -> None:
        """A test begins that these faults strike. `kill` ends its browsers; it returns whether one was there."""
        where = Where(_Lent(self._network), _NoState(), self._sites)  # type: ignore[arg-type]
        self._injector = FaultInjector(faults, where, self._clock, seed=self._seed, task=test)
        self._injector.attach(_Processes(kill, self._clock))
        self._injector.begin(self._clock.now())
        await self._injector.before_step(0, _TEST)  # type: ignore[arg-type]

    async def end(self) -> tuple[MetFault, ...]:
        """The test is over: undo its faults, and return what became of each."""
        injector, self._injector = self._injector, None
        if injector is None:
            return ()
        await injector.close()
        return injector.results()

    async def request_failed(self, url: str, error: str) -> None:
        """A request of the test failed in its browser. A test may name a host by the port of its gate."""
        parts = urlsplit(url)
        host = next((name for name, port in self.hosts.items() if parts.port == port), parts.hostname)
        self._network.request_failed(f"{parts.scheme}://{host}{parts.path}", error)

    async def close(self) -> None:
        """End the gates."""
        await self._network.close()
