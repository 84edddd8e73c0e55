"""Joins agents and models: an agent that wants them gets a client; nothing of the models is imported before."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from harness.model.events import Event
from harness.model.inference import ModelCall, ModelClient
from harness.model.plan import Plan
from harness.model.ports import Injector
from harness.model.record import Warning_
from harness.model.settings import Settings
from harness.resilience import Clock
from harness.resilience.events import Emit
from harness.runner.circuits import RunCircuits, thresholds_of
from harness.runner.compile import recovers
from harness.runner.toolbox import unheard

if TYPE_CHECKING:
    from harness.models.gateway import ModelGateway
    from harness.models.run import RunModels
    from harness.models.task import TaskModels
    from harness.runner.recordings import TaskRecordings

_NO_HOSTS: Mapping[str, int] = {}


class Inference:
    """The models of a run, which are made when the first agent asks one."""

    def __init__(self, settings: Settings, run_id: str, clock: Clock, circuits: RunCircuits, tell: Emit) -> None:
        self._settings, self._clock, self._circuits, self._tell = settings, clock, circuits, tell
        self.mode = settings.cassettes.mode_in(os.environ)
        self._floors = settings.floors_of(run_id) / "floors.sqlite3"
        self._models: RunModels | None = None

    @property
    def models(self) -> RunModels:
        """The models, made when this is first read."""
        if self._models is None:
            from harness.models.run import RunModels

            self._models = RunModels(
                self._settings.models,
                clock=self._clock,
                environ=os.environ,
                breaker=self._circuits.provider,
                thresholds=thresholds_of,
                tell=self._tell,
                enabled=recovers(self._settings, os.environ),
                recorded=self.mode in ("replay", "auto"),
                floors=self._floors if "PYTEST_XDIST_WORKER" in os.environ else None,
            )
        return self._models

    def recordings(self, plan: Plan) -> TaskRecordings:
        """What lies between the agents of a task and the providers."""
        from harness.runner.recordings import TaskRecordings

        return TaskRecordings(plan, self._settings, self._clock, self.mode)

    def of(self, plan: Plan, emit: Callable[[Event], None]) -> TaskInference:
        """The models for one task and the tasks inside it. `emit` receives the events of the task itself."""
        return TaskInference(self, plan, emit)

    async def close(self) -> None:
        """Close the connections."""
        if self._models is not None:
            await self._models.close()


class TaskInference:
    """The models of one task and of the tasks inside it, each with its own budget and ledger."""

    def __init__(self, run: Inference, plan: Plan, emit: Callable[[Event], None]) -> None:
        self._run, self._plan, self._emit = run, plan, emit
        self._tasks: dict[str, TaskModels] = {}
        self._hosts: dict[str, Mapping[str, int]] = {}
        self._injectors: dict[str, Injector] = {}
        self._recordings: dict[str, TaskRecordings] = {}

    def struck_by(self, plan: Plan, injector: Injector) -> None:
        """Let the faults of a task strike what its agents ask."""
        self._injectors[plan.key] = injector

    def found_at(self, plan: Plan, hosts: Mapping[str, int]) -> None:
        """The hosts of the project as a task's requests find them: with faults, through their gates."""
        self._hosts[plan.key] = hosts

    def client(self, plan: Plan, agent: str, step: int) -> ModelClient:
        """The models for an agent that chooses the step with this index; to be used on the harness's loop."""
        return self._models_of(plan).client(agent, step)

    def gateway(self, plan: Plan, agent: str, allowed: Sequence[str], step: Callable[[], int]) -> ModelGateway:
        """The way of an agent's own process to these models. `step` returns the index that it chooses."""
        from harness.models.gateway import ModelGateway  # few agents are processes

        return ModelGateway(self._models_of(plan), agent, allowed, step)

    def _models_of(self, plan: Plan) -> TaskModels:
        if plan.key not in self._tasks:
            emit = self._emit if plan.key == self._plan.key else unheard
            recordings = self._recordings[plan.key] = self._run.recordings(plan)
            if plan.key in self._injectors:
                recordings.struck_by(self._injectors[plan.key])
            random, ways = Random(plan.spec.seed).random, recordings.way

            def hosts() -> Mapping[str, int]:
                return self._hosts.get(plan.key, _NO_HOSTS)

            self._tasks[plan.key] = self._run.models.of(plan, hosts, emit, random, ways)
        return self._tasks[plan.key]

    def calls(self, plan: Plan) -> tuple[ModelCall, ...]:
        """The requests to models that a task has made so far."""
        return self._tasks[plan.key].ledger.calls if plan.key in self._tasks else ()

    def finish(self, *, well: bool) -> tuple[Warning_, ...]:
        """Write what was recorded; returns what a person should know about the recordings.

        `well`: the task ended as it declares.
        """
        found = (each.finish(well=well and key == self._plan.key) for key, each in self._recordings.items())
        return tuple(warning for told in found for warning in told)

    async def close(self) -> None:
        """Close what the tasks have opened; it never raises."""
        for models in self._tasks.values():
            await models.close()
