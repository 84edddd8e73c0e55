"""Everything of a task that holds references, filled in (DESIGN 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.criteria import Criterion, CriterionError, parse
from harness.model.plan import Plan, ReadyRepair
from harness.model.settings import Settings
from harness.spec.expressions import environment_names
from harness.spec.faults import Fault
from harness.spec.parametrize import param
from harness.spec.problems import Problem, Way
from harness.spec.references import (
    HIDDEN,
    BadReferenceError,
    Scope,
    as_text,
    interpolate,
    interpolate_criterion,
    interpolate_step,
)
from harness.spec.source import Origin
from harness.spec.steps import Step
from harness.spec.task import Repair, ScoringCheckpoint, StateBinding, TaskSpec

ModelT = TypeVar("ModelT", bound=BaseModel)


def scope_of(spec: TaskSpec, environ: Mapping[str, str]) -> Scope:
    """Inputs and persona may refer to variables and to the values of the case, these to variables."""
    values = interpolate(dict(param(spec) or {}), Scope(environ=environ))
    early = Scope(environ=environ, param=values)
    return Scope(interpolate(spec.inputs, early), interpolate(spec.persona, early), environ, param=values)


@dataclass(slots=True)
class Filling:
    """Fills in the references of one task; problems are collected, so that all are told at once."""

    spec: TaskSpec
    settings: Settings
    environ: Mapping[str, str]
    origin: Origin
    problems: list[Problem] = field(default_factory=list)
    scope: Scope = field(init=False)

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
