"""From a TaskSpec to a Plan: checked again, interpolated, scaled, with the rules of this run (DESIGN 3)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.criteria import Criterion, CriterionError, parse
from harness.plan import Plan
from harness.recovery import NoRecovery, Rulebook
from harness.settings import Settings
from harness.spec.checks import check_spec, check_steps
from harness.spec.expressions import environment_names
from harness.spec.faults import Fault
from harness.spec.hiding import HIDDEN, Hide, hiding
from harness.spec.interpolate import (
    BadReferenceError,
    Scope,
    interpolate,
    interpolate_criterion,
    interpolate_step,
)
from harness.spec.keys import slug
from harness.spec.loaded import Loaded
from harness.spec.origin import Origin
from harness.spec.problems import Problem, SpecError, Way
from harness.spec.references import as_text
from harness.spec.steps import Step
from harness.spec.task import TaskSpec

ModelT = TypeVar("ModelT", bound=BaseModel)
OFF = ("false", "0", "no", "off")


def compile_plan(
    task: Loaded | TaskSpec,
    *,
    settings: Settings,
    run_id: str,
    folder: Path | None = None,
    source: str | None = None,
    key: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Plan:
    """What the engine runs. A spec may have been assigned to since it was loaded, so it is checked again.

    `key` is a directory name (see `unique_keys`), for callers that run a task in several variants. Raises SpecError.
    """
    environ = os.environ if environ is None else environ
    spec, origin, here = _taken_apart(task, source)
    hide = hiding(secrets := _secrets(spec, environ))
    _refuse(check_spec(spec, origin, folder := folder or here, frozenset(settings.channels) or None, environ), hide)
    key, work = key or slug(spec.task_id), _Work(spec, settings, environ, origin)
    plan = Plan(
        spec=work.spec_as_run(),
        task_id=spec.task_id,
        key=key,
        world=_world(run_id, spec, key),
        steps=work.steps(),
        preconditions=work.criteria("preconditions"),
        success_criteria=work.criteria("success_criteria"),
        rulebook=work.rulebook(),
        timeout=spec.timeout * settings.timeout_scale,
        step_timeout=spec.step_timeout * settings.timeout_scale,
        faults=work.faults(),
        folder=folder,
        source=source or origin.file,
        start=datetime.fromisoformat(spec.time) if spec.time else None,
        secrets=secrets,
        heal=settings.heal,
        strict=settings.strict,
    )
    _refuse([*work.problems, *check_steps(plan.steps, origin, folder, hide)], hide)
    return plan


def _world(run_id: str, spec: TaskSpec, key: str) -> str:
    """One for each episode, else for each task (DESIGN 4.9)."""
    return f"{slug(run_id)}.{slug(spec.episode_id) if spec.episode_id else key}"


def _taken_apart(task: Loaded | TaskSpec, source: str | None) -> tuple[TaskSpec, Origin, Path]:
    """The spec, where its problems are pointed at, and its folder."""
    if isinstance(task, Loaded):
        return task.spec, task.origin, task.folder
    return task, Origin(source or task.task_id), Path.cwd()


def _secrets(spec: TaskSpec, environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(environ[name] for name in environment_names(spec) if environ.get(name)))


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


def _scope(spec: TaskSpec, environ: Mapping[str, str]) -> Scope:
    """Inputs and persona may refer to variables themselves."""
    early = Scope(environ=environ)
    return Scope(interpolate(spec.inputs, early), interpolate(spec.persona, early), environ)


@dataclass(slots=True)
class _Work:
    """Interpolation of one task; problems are collected, so that all are told at once."""

    spec: TaskSpec
    settings: Settings
    environ: Mapping[str, str]
    origin: Origin
    problems: list[Problem] = field(default_factory=list)
    scope: Scope = field(init=False)

    def __post_init__(self) -> None:
        self.scope = _scope(self.spec, self.environ)

    def steps(self) -> tuple[Step, ...]:
        return tuple(self._step(number, step) for number, step in enumerate(self.spec.steps))

    def _step(self, number: int, step: Step) -> Step:
        made = self._interpolated(("steps", number), step, last=False)
        if made.timeout is None or self.settings.timeout_scale == 1:
            return made
        return made.model_copy(update={"timeout": made.timeout * self.settings.timeout_scale})

    def faults(self) -> tuple[Fault, ...]:
        return tuple(
            self._interpolated(("faults", number), fault, last=True) for number, fault in enumerate(self.spec.faults)
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

    def criteria(self, name: str) -> tuple[Criterion, ...]:
        made = []
        for number, text in enumerate(getattr(self.spec, name)):
            try:
                made.append(parse(interpolate_criterion(text, self.scope, last=False)))
            except BadReferenceError as error:
                self.problems.append(self.origin.problem((name, number), str(error)))
            except CriterionError:
                self.problems.append(self.origin.problem((name, number), self._unreadable(text)))
        return tuple(made)

    def _unreadable(self, text: str) -> str:
        """What is wrong with a criterion, told without the values of variables: an error quotes parts of them."""
        hidden = _scope(self.spec, dict.fromkeys(environment_names(self.spec), HIDDEN))
        try:
            parse(interpolate_criterion(text, hidden, last=False))
        except CriterionError as error:
            return str(error)
        return "cannot be read once the values of its environment variables are filled in"

    def spec_as_run(self) -> TaskSpec:
        """The spec with everything interpolated that is read from it while the task runs."""
        changed: dict[str, Any] = {"inputs": self.scope.inputs, "persona": self.scope.persona}
        changed["goal"] = self.text(self.spec.goal)
        for name in ("memory", "expected_memory"):
            changed[name] = interpolate(getattr(self.spec, name), self.scope)
        return self.spec.model_copy(update=changed)

    def rulebook(self) -> Rulebook:
        """The task's rules as this run has them: `--no-recovery`, `--no-heal`, `--timeout-scale`."""
        rules = self.spec.error_recovery
        rule: Any = rules.on_element_not_found
        if hasattr(rule, "fallback_selectors"):
            changed = self._element_rule(rule)
            rules = rules.model_copy(update={"on_element_not_found": rule.model_copy(update=changed)})
        if self.settings.recovery and self.environ.get("RESILIENCE_ENABLED", "true").lower() not in OFF:
            return rules
        return NoRecovery.model_construct(rules.model_fields_set, **dict(rules))

    def _element_rule(self, rule: Any) -> dict[str, Any]:
        scale = self.settings.timeout_scale
        selectors = rule.fallback_selectors if self.settings.heal else {}
        return {
            "wait_seconds": rule.wait_seconds * scale,
            "fallback_wait_seconds": rule.fallback_wait_seconds * scale,
            "fallback_selectors": {
                self.text(key): tuple(self.text(each) for each in others) for key, others in selectors.items()
            },
        }
