"""The models of a run: what its tasks share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx2

from harness.model.events import Event
from harness.model.model_settings import ModelSettings
from harness.model.plan import Plan
from harness.models.exchange import AsksModel
from harness.models.provider import ModelLane, Surroundings
from harness.models.task import Sender, TaskModels
from harness.models.transport import Hosts, TaskTransport, Ways, connections, straight
from harness.models.verdicts import ModelError
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock
from harness.resilience.breaker import Breaker, BreakerSettings
from harness.resilience.circuits import CircuitName, CircuitScope
from harness.resilience.events import Emit, discard
from harness.resilience.pace import FloorStore, ProviderPace

_NEEDED = "pip install 'pytest-taskspec[agents]'"


class RunModels:
    """The circuits, the pace and the connections of all models, for all tasks of the process."""

    def __init__(
        self,
        models: Mapping[str, ModelSettings],
        *,
        clock: Clock,
        environ: Mapping[str, str],
        breaker: Callable[[str], Breaker | None],
        thresholds: Callable[[ModelSettings], BreakerSettings],
        tell: Emit = discard,
        enabled: bool = True,
        floors: Path | None = None,
        recorded: bool = False,
    ) -> None:
        """`breaker` returns the circuit of a model, by its name. `tell` receives the events of other circuits.

        `floors`: the file through which the processes of a run share how long a provider has asked to wait; None: the
        run has only one process. `recorded`: recordings may answer, so a model may lack its key.
        """
        self._recorded = recorded
        self._models = models
        self._clock = clock
        self._environ = environ
        self._breaker = breaker
        self._thresholds = thresholds
        self._tell = tell
        self._enabled = enabled
        self._floors = None if floors is None else FloorStore(floors)
        self._lanes: dict[str, ModelLane] = {}
        self._lock = threading.Lock()
        self._connections: httpx2.AsyncBaseTransport | None = None

    def of(
        self,
        plan: Plan,
        hosts: Hosts,
        emit: Callable[[Event], None],
        random: Callable[[], float],
        ways: Ways = straight,
    ) -> TaskModels:
        """The models for one task. `hosts` and `ways` are read at each request."""
        lanes = self._lanes if not plan.faults else {}
        return TaskModels(
            plan,
            self._models,
            lambda model: self._lane(lanes, model, own=bool(plan.faults)),
            # It imports clients, which takes seconds.
            lambda model: asyncio.to_thread(self._wire, model, hosts, ways),
            Surroundings(self._clock, random, discard, self._enabled),
            emit,
            lambda model: Sender(TaskTransport(self._shared_connections(), hosts, ways), self._key(model)),
        )

    def _lane(self, lanes: dict[str, ModelLane], model: str, *, own: bool) -> ModelLane:
        """What the calls of a model share. Failures that a task has ordered hold up no other task."""
        if model not in lanes:
            name, settings = str(CircuitName(CircuitScope.PROVIDER, model)), self._models[model]
            pace = ProviderPace(name, settings.pace.concurrent, self._clock, None if own else self._floors)
            if own and self._breaker(model) is not None:
                breaker = Breaker(name, self._thresholds(settings), now=self._clock.now, emit=self._tell)
                lanes[model] = ModelLane(lambda: breaker, pace)
            else:
                lanes[model] = ModelLane(lambda: self._breaker(model), pace)
        return lanes[model]

    def _wire(self, model: str, hosts: Hosts, ways: Ways) -> AsksModel:
        """The wire of a model for one task. Raises Failed without the extra, ModelError without its key."""
        settings, key = self._models[model], self._key(model)
        try:
            from harness.models.wire import Wire
        except ImportError as error:
            message = f"Model `{model}` cannot be asked, since a package is missing ({error}): {_NEEDED}"
            details, advice = {"model": model}, f"Install it: {_NEEDED}."
            raise Failed(Failure("AGENT_UNAVAILABLE", message, details=details, advice=advice)) from error
        return Wire(model, settings, TaskTransport(self._shared_connections(), hosts, ways), key)

    def _key(self, model: str) -> str:
        """The key of a model; empty if it needs none. Raises ModelError if its variable is not set."""
        variable = self._models[model].variable
        key = self._environ.get(variable, "") if variable else ""
        if variable and not key and not self._recorded:
            lack = "is set, but empty" if variable in self._environ else "is not set"
            message = f"Model `{model}` was not asked: the variable {variable} of its key {lack}"
            raise ModelError("MODEL_AUTH", message)
        return key

    def _shared_connections(self) -> httpx2.AsyncBaseTransport:
        """The connections of all tasks, made by the first of the threads that need them."""
        with self._lock:
            self._connections = self._connections or connections()
            return self._connections

    async def close(self) -> None:
        """Close the connections; it never raises."""
        if self._connections is not None:
            await self._connections.aclose()
        if self._floors is not None:
            self._floors.close()
