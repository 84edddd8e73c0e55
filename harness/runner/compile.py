"""From a TaskSpec to a Plan: checked again, interpolated, scaled, with the rules of this run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.criteria import Criterion, CriterionError, parse
from harness.model.plan import Plan, ReadyRepair
from harness.model.settings import Settings
from harness.recovery import NoRecovery, Rulebook
from harness.spec.checks import check_spec, check_steps
from harness.spec.expressions import environment_names
from harness.spec.fault_plan import LoadedFaultPlan, load_fault_plan
from harness.spec.faults import Fault
from harness.spec.load import neighbours
from harness.spec.loaded import Loaded
from harness.spec.names import slug
from harness.spec.parametrize import param
from harness.spec.problems import Problem, SpecError, Way
from harness.spec.references import (
    HIDDEN,
    BadReferenceError,
    Hide,
    ReferenceScope,
    as_text,
    hiding,
    interpolate,
    interpolate_criterion,
    interpolate_step,
    references,
)
from harness.spec.source import Origin
from harness.spec.steps import Step
from harness.spec.task import Repair, ScoringCheckpoint, StateBinding, TaskSpec

# Everything of a task that holds references, filled in.

ModelT = TypeVar("ModelT", bound=BaseModel)


def scope_of(spec: TaskSpec, environ: Mapping[str, str]) -> ReferenceScope:
    """Inputs and persona may refer to variables and to the values of the case, these to variables."""
    values = interpolate(dict(param(spec) or {}), ReferenceScope(environ=environ))
    early = ReferenceScope(environ=environ, param=values)
    return ReferenceScope(interpolate(spec.inputs, early), interpolate(spec.persona, early), environ, param=values)


@dataclass(slots=True)
class Filling:
    """Fills in the references of one task; problems are collected, so that all are told at once."""

    spec: TaskSpec
    settings: Settings
    environ: Mapping[str, str]
    origin: Origin
    problems: list[Problem] = field(default_factory=list)
    scope: ReferenceScope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = scope_of(self.spec, self.environ)

    def steps(self) -> tuple[Step, ...]:
        return tuple(self._step(("steps", number), step) for number, step in enumerate(self.spec.steps))

    def _step(self, path: Way, step: Step) -> Step:
        made = self._interpolated(path, step, last=False)
        if made.timeout is None or self.settings.timeout_scale == 1:
            return made
        return made.model_copy(update={"timeout": made.timeout * self.settings.timeout_scale})

    def faults(self) -> tuple[Fault, ...]:
        """Each knows the line that it is declared in."""
        return tuple(
            self._interpolated(path, fault, last=True).placed(self.origin.place(path))
            for path, fault in ((("faults", number), fault) for number, fault in enumerate(self.spec.faults))
        )

    def _interpolated(self, path: Way, model: ModelT, last: bool) -> ModelT:
        """The model itself, and a problem, when what is referred to is of no use there."""
        try:
            return interpolate_step(model, self.scope, last=last)
        except BadReferenceError as error:
            self.problems.append(self.origin.problem(path, str(error)))
            return model

    def text(self, text: str) -> str:
        return as_text(interpolate(text, self.scope))

    def criteria(self, path: Way, texts: Iterable[str]) -> tuple[Criterion, ...]:
        """The criteria that stand at `path`."""
        found = (self._criterion((*path, number), text) for number, text in enumerate(texts))
        return tuple(criterion for criterion in found if criterion is not None)

    def _criterion(self, path: Way, text: str) -> Criterion | None:
        try:
            return parse(interpolate_criterion(text, self.scope, last=False))
        except BadReferenceError as error:
            self.problems.append(self.origin.problem(path, str(error)))
        except CriterionError:
            self.problems.append(self.origin.problem(path, self._unreadable(text)))
        return None

    def scoring(self) -> tuple[ScoringCheckpoint, ...]:
        return tuple(self._scored(number, part) for number, part in enumerate(self.spec.scoring_checkpoints))

    def _scored(self, number: int, part: ScoringCheckpoint) -> ScoringCheckpoint:
        changed = {}
        for name in ("assertion", "when"):
            text = getattr(part, name)
            if text and text.strip():
                changed[name] = str(self._criterion(("scoring_checkpoints", number, name), text) or text)
        return part.model_copy(update=changed)

    def repairs(self, task: Callable[[Way, str], Plan | None]) -> tuple[ReadyRepair, ...]:
        """`task` finds the task that a repair names."""
        return tuple(self._repair(("repairs", number), repair, task) for number, repair in enumerate(self.spec.repairs))

    def _repair(self, path: Way, repair: Repair, task: Callable[[Way, str], Plan | None]) -> ReadyRepair:
        named = (number for number, text in enumerate(self.spec.preconditions) if text == repair.precondition)
        return ReadyRepair(
            applies=frozenset(range(len(self.spec.preconditions)) if repair.precondition is None else named),
            memory=interpolate(repair.memory, self.scope),
            steps=tuple(self._step((*path, "steps", number), step) for number, step in enumerate(repair.steps)),
            task=task((*path, "task"), repair.task) if repair.task else None,
        )

    def _unreadable(self, text: str) -> str:
        """What is wrong with a criterion, told without the values of variables: an error quotes parts of them."""
        hidden = scope_of(self.spec, dict.fromkeys(environment_names(self.spec), HIDDEN))
        try:
            parse(interpolate_criterion(text, hidden, last=False))
        except CriterionError as error:
            return str(error)
        return "cannot be read once the values of its environment variables are filled in"

    def spec_as_run(self) -> TaskSpec:
        """The spec with everything interpolated that is read from it while the task runs."""
        changed: dict[str, Any] = {"inputs": self.scope.inputs, "persona": self.scope.persona}
        changed["goal"] = self.text(self.spec.goal)
        for name in ("memory", "expected_memory", "page_values"):
            changed[name] = interpolate(getattr(self.spec, name), self.scope)
        changed["state_bindings"] = {self.text(key): self._bound(at) for key, at in self.spec.state_bindings.items()}
        if self.spec.budget.max_seconds is not None:
            seconds = self.spec.budget.max_seconds * self.settings.timeout_scale
            changed["budget"] = self.spec.budget.model_copy(update={"max_seconds": seconds})
        return self.spec.model_copy(update=changed)

    def _bound(self, binding: StateBinding) -> StateBinding:
        return binding.model_copy(update={"path": self.text(binding.path)})


# Makes the Plan of a task, and of the tasks that it runs inside of itself.

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
    work = _Compilation(
        settings, run_id, os.environ if environ is None else environ, find or neighbours(folder, settings.defaults)
    )
    return work.plan(spec, origin, folder, key or slug(spec.task_id), source or origin.file, agent)


def _taken_apart(task: Loaded | TaskSpec, source: str | None) -> tuple[TaskSpec, Origin, Path]:
    """The spec, where its problems are pointed at, and its folder."""
    if isinstance(task, Loaded):
        return task.spec, task.origin, task.folder
    return task, Origin(source or task.task_id), Path.cwd()


@dataclass(frozen=True, slots=True)
class _Compilation:
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


def _alternative(spec: TaskSpec, filling: Filling, inner: _Compilation) -> Plan | None:
    name = spec.fallback_plan.alternative_task_id if spec.fallback_plan.enabled else None
    return inner.other(filling, ("fallback_plan", "alternative_task_id"), name) if name else None


def _world(run_id: str, spec: TaskSpec, key: str) -> str:
    """One for each episode, else for each task (docs/design/isolation-and-state.md)."""
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


# The faults of `--task-faults` that strike a task, made ready like its own.


@dataclass(frozen=True, slots=True)
class Planned:
    """What is added to a task, and the variables of the environment that it refers to."""

    faults: tuple[Fault, ...] = ()
    seed: int | None = None
    """What chances are drawn from; None: from the task's own seed."""
    variables: tuple[str, ...] = ()


def plans_of(settings: Settings) -> list[LoadedFaultPlan]:
    """The fault plans of a run. Raises SpecError for one that cannot be used."""
    channels = frozenset(settings.channels) or None
    return [_read_once(file, channels) for file in settings.faults]


@cache
def _read_once(file: Path, channels: frozenset[str] | None) -> LoadedFaultPlan:
    return load_fault_plan(file, channels)


def planned(spec: TaskSpec, scope: ReferenceScope, plans: Iterable[LoadedFaultPlan]) -> Planned:
    """Raises SpecError for references that the task cannot fill in."""
    faults: list[Fault] = []
    seeds: list[int] = []
    problems: list[Problem] = []
    variables: list[str] = []
    for loaded in plans:
        found = list(loaded.plan.of(spec))
        seeds += [loaded.plan.seed] if found and loaded.plan.seed is not None else []
        for number, fault in found:
            variables += variables_of(fault)
            try:
                faults.append(ready(loaded, number, spec, scope))
            except SpecError as error:
                problems += error.problems
    if problems:
        raise SpecError(problems)
    return Planned(tuple(faults), seeds[0] if seeds else None, tuple(variables))


def ready(loaded: LoadedFaultPlan, number: int, spec: TaskSpec, scope: ReferenceScope) -> Fault:
    """One fault with its references filled in, and a name that is its own in every task. Raises SpecError."""
    try:
        fault = interpolate_step(loaded.plan.faults[number].fault, scope, last=True)
    except BadReferenceError as error:
        message = f"in {spec.task_id}, which it strikes: {error}"
        raise SpecError([loaded.origin.problem(("faults", number), message)]) from None
    named = fault.model_copy(update={"id": f"{loaded.name}/{loaded.name_of(number)}"})
    return named.placed(loaded.origin.place(("faults", number)))


def variables_of(fault: Fault) -> Iterator[str]:
    """The variables of the environment that a fault refers to."""
    for _, value in fault:
        with suppress(BadReferenceError):
            yield from (each.name for _, each in references(str(value)) if each.namespace == "env")


def secrets_of(names: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of these variables, each once."""
    return tuple(dict.fromkeys(environ[name] for name in names if environ.get(name)))


# The task's rules as this run has them: `--task-no-recovery`, `--task-no-heal`, `--task-timeout-scale`.

OFF = ("false", "0", "no", "off")


def rulebook(rules: Rulebook, settings: Settings, environ: Mapping[str, str], text: Callable[[str], str]) -> Rulebook:
    """`text` fills in references."""
    rule: Any = rules.on_element_not_found
    if hasattr(rule, "fallback_selectors"):
        changed = _element_rule(rule, settings, text)
        rules = rules.model_copy(update={"on_element_not_found": rule.model_copy(update=changed)})
    if recovers(settings, environ):
        return rules
    return NoRecovery.model_construct(rules.model_fields_set, **dict(rules))


def recovers(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether anything is tried again: neither `--task-no-recovery` nor RESILIENCE_ENABLED=false."""
    return settings.recovery and environ.get("RESILIENCE_ENABLED", "true").lower() not in OFF


def _element_rule(rule: Any, settings: Settings, text: Callable[[str], str]) -> dict[str, Any]:
    scale = settings.timeout_scale
    selectors = rule.fallback_selectors if settings.heal else {}
    return {
        "wait_seconds": rule.wait_seconds * scale,
        "fallback_wait_seconds": rule.fallback_wait_seconds * scale,
        "fallback_selectors": {text(key): tuple(text(each) for each in others) for key, others in selectors.items()},
    }
