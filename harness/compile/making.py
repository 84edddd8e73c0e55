"""Makes the Plan of a task, and of the tasks that it runs inside of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from harness.compile.filling import Filling
from harness.compile.planned import planned, plans_of, secrets_of
from harness.compile.rules import recovers, rulebook
from harness.criteria import Criterion
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.spec.checks import check_spec, check_steps
from harness.spec.expressions import environment_names
from harness.spec.load import neighbours
from harness.spec.loaded import Loaded
from harness.spec.names import slug
from harness.spec.problems import Problem, SpecError, Way
from harness.spec.references import Hide, hiding
from harness.spec.source import Origin
from harness.spec.task import TaskSpec

SCRIPTED = "scripted"
"""The agent that plays back the steps of the file: as if there were none."""
Find = Callable[[str], Loaded | None]
"""A task by its id; None when there is none."""


def compile_plan(
    task: Loaded | TaskSpec,
    *,
    settings: Settings,
    run_id: str,
    folder: Path | None = None,
    source: str | None = None,
    key: str | None = None,
    environ: Mapping[str, str] | None = None,
    find: Find | None = None,
    agent: str | None = None,
) -> Plan:
    """What the engine runs. A spec may have been assigned to since it was loaded, so it is checked again.

    `key` is a directory name (see `slug`), for callers that run a task in several variants. `find` looks up the
    tasks that this one names (`fallback_plan`, `repairs`); by default among the files of its folder. `agent` is who
    chooses the steps; by default the settings' agent for a task without steps. Raises SpecError.
    """
    spec, origin, here = _taken_apart(task, source)
    folder = folder or here
    work = _Work(
        settings, run_id, os.environ if environ is None else environ, find or neighbours(folder, settings.defaults)
    )
    return work.plan(spec, origin, folder, key or slug(spec.task_id), source or origin.file, agent)


def _taken_apart(task: Loaded | TaskSpec, source: str | None) -> tuple[TaskSpec, Origin, Path]:
    """The spec, where its problems are pointed at, and its folder."""
    if isinstance(task, Loaded):
        return task.spec, task.origin, task.folder
    return task, Origin(source or task.task_id), Path.cwd()


@dataclass(frozen=True, slots=True)
class _Work:
    """What is the same for a task and those inside of it."""

    settings: Settings
    run_id: str
    environ: Mapping[str, str]
    find: Find
    around: tuple[str, ...] = ()
    """Ids of the tasks that this one runs inside of."""

    def plan(self, spec: TaskSpec, origin: Origin, folder: Path, key: str, source: str, agent: str | None) -> Plan:
        """Raises SpecError."""
        settings, environ = self.settings, self.environ
        hide = hiding(secrets := _secrets(spec, environ))
        agent = agent or (None if spec.steps else settings.chosen_agent)
        played = agent is None or agent == SCRIPTED
        _refuse(self._problems(spec, origin, folder, played), hide)
        filling = Filling(spec, settings, environ, origin)
        inner = replace(self, around=(*self.around, spec.task_id))
        limits = spec.limits(settings.timeout_profile)
        more = planned(spec, filling.scope, plans_of(settings))
        plan = Plan(
            spec=filling.spec_as_run(),
            task_id=spec.task_id,
            key=key,
            world=_world(self.run_id, spec, key),
            steps=filling.steps(),
            preconditions=filling.criteria(("preconditions",), spec.preconditions),
            success_criteria=filling.criteria(("success_criteria",), spec.success_criteria),
            rulebook=rulebook(spec.error_recovery, settings, environ, filling.text),
            timeout=limits.timeout * settings.timeout_scale,
            step_timeout=limits.step_timeout * settings.timeout_scale,
            faults=(*filling.faults(), *more.faults),
            fault_seed=spec.seed if more.seed is None else more.seed,
            folder=folder,
            source=source,
            start=datetime.fromisoformat(spec.time) if spec.time else None,
            scoring=filling.scoring(),
            relaxed=_relaxed(spec, filling) if recovers(settings, environ) else (),
            alternative=_alternative(spec, filling, inner) if recovers(settings, environ) else None,
            repairs=filling.repairs(lambda path, name: inner.other(filling, path, name)),
            base_url=settings.base_url,
            agent=None if played else agent,
            secrets=tuple(dict.fromkeys((*secrets, *secrets_of(more.variables, environ)))),
            heal=settings.heal,
            strict=settings.strict,
            timeout_scale=settings.timeout_scale,
        )
        _refuse([*filling.problems, *check_steps(plan.steps, origin, folder, hide)], hide)
        return replace(plan, origin=origin)

    def _problems(self, spec: TaskSpec, origin: Origin, folder: Path, played: bool) -> list[Problem]:
        """`played`: the steps of the file are played back, so that there have to be some."""
        channels, agents = frozenset(self.settings.channels) or None, tuple(self.settings.agents)
        return check_spec(spec, origin, folder, channels, self.environ, needs_steps=played, agents=agents)

    def other(self, filling: Filling, path: Way, name: str) -> Plan | None:
        """The plan of a task that this one runs inside of itself; None, and a problem, when that cannot be."""
        if name in self.around:
            circle = " -> ".join([*self.around, name])
            filling.problems.append(filling.origin.problem(path, f"tasks run inside each other: {circle}"))
            return None
        found = self.find(name)
        if found is None:
            filling.problems.append(filling.origin.problem(path, f"no task is called `{name}`"))
            return None
        return self.plan(found.spec, found.origin, found.folder, slug(name), found.source, None)


def _relaxed(spec: TaskSpec, filling: Filling) -> tuple[Criterion, ...]:
    plan, path = spec.fallback_plan, ("fallback_plan", "relaxed_success_criteria")
    return filling.criteria(path, plan.relaxed_success_criteria) if plan.enabled else ()


def _alternative(spec: TaskSpec, filling: Filling, inner: _Work) -> Plan | None:
    name = spec.fallback_plan.alternative_task_id if spec.fallback_plan.enabled else None
    return inner.other(filling, ("fallback_plan", "alternative_task_id"), name) if name else None


def _world(run_id: str, spec: TaskSpec, key: str) -> str:
    """One for each episode, else for each task (DESIGN 4.9)."""
    return f"{slug(run_id)}.{slug(spec.episode_id) if spec.episode_id else key}"


def _secrets(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    return secrets_of(environment_names(spec), environ)


def _refuse(problems: list[Problem], hide: Hide) -> None:
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise SpecError(_hidden(problem, hide) for problem in errors)


def _hidden(problem: Problem, hide: Hide) -> Problem:
    """Without secrets; its place is never made of values."""
    return replace(
        problem,
        message=hide(problem.message),
        expected=hide(problem.expected),
        found=hide(problem.found),
        hint=hide(problem.hint),
    )
