"""Fills in the references of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from harness.criteria import Criterion, CriterionError, parse
from harness.masking import MARK
from harness.model.plan import Plan, ReadyHandler, ReadyRepair
from harness.model.settings import Settings
from harness.spec.context import ContextOptions, merged
from harness.spec.expressions import LATE_IN_ROUTES, environment_names, one_time_variables, scope_of
from harness.spec.generated import Generated
from harness.spec.marks import SLOW
from harness.spec.one_time import OneTimePasswords, key_of
from harness.spec.page_handlers import Handler
from harness.spec.problems import JsonPath, Problem
from harness.spec.references import (
    ONLY_STEPS,
    BadReferenceError,
    Reference,
    ReferenceScope,
    as_text,
    holds_reference,
    interpolate,
    interpolate_criterion,
    interpolate_step,
    one_time_names,
)
from harness.spec.source import Origin
from harness.spec.steps import Step
from harness.spec.task import Repair, ScoringCheckpoint, TaskSpec

if TYPE_CHECKING:
    from harness.spec.faults import Fault
    from harness.spec.routes import Route

ModelT = TypeVar("ModelT", bound=BaseModel)


@dataclass(slots=True)
class Filling:
    """Fills in the references of one task and collects all problems, so that they are reported together."""

    spec: TaskSpec
    settings: Settings
    environ: Mapping[str, str]
    origin: Origin
    now: datetime
    problems: list[Problem] = field(default_factory=list)
    generated: Generated = field(init=False)
    scope: ReferenceScope = field(init=False)

    def __post_init__(self) -> None:
        declared = self._declared_context()
        timezone, locale = (  # of generated values: they cannot be generated themselves
            as_text(interpolate(text, scope_of(self.spec, self.environ))) if text and "${" in text else text
            for text in (declared.timezone, declared.locale)
        )
        self.generated = Generated(self.spec, self.now, timezone, locale)
        self.scope = scope_of(self.spec, self.environ, self.generated)

    @property
    def scale(self) -> float:
        """The factor for all time limits of the task."""
        return self.settings.timeout_scale * (SLOW if self.spec.slow else 1)

    def one_time(self) -> OneTimePasswords | None:
        """The keys of the one-time passwords; None if the task uses none."""
        names = one_time_variables(self.spec)
        return OneTimePasswords({name: key_of(self.environ[name]) for name in names}) if names else None

    def steps(self) -> tuple[Step, ...]:
        return tuple(self._step(("steps", number), step) for number, step in enumerate(self.spec.steps))

    def _step(self, path: JsonPath, step: Step) -> Step:
        made = self._acted_by(path, self._interpolated(path, step, last=False))
        if made.timeout is None or self.scale == 1:
            return made
        return made.model_copy(update={"timeout": made.timeout * self.scale})

    def _acted_by(self, path: JsonPath, step: Step) -> Step:
        """The step by the first user, if it names none; those of a handler act as whoever is at it."""
        if not self.spec.users or step.user is not None or path[0] == "handlers":
            return step
        return step.model_copy(update={"as": next(iter(self.spec.users))})

    def faults(self) -> tuple[Fault, ...]:
        """The faults, each with the line of its declaration."""
        return tuple(
            self._interpolated(path, fault, last=True).with_source(self.origin.place(path))
            for path, fault in ((("faults", number), fault) for number, fault in enumerate(self.spec.faults))
        )

    def routes(self) -> tuple[Route, ...]:
        """The routes, each with the line of its declaration. References to memory stay."""
        return tuple(self._route(("routes", number), route) for number, route in enumerate(self.spec.routes))

    def _route(self, path: JsonPath, route: Route) -> Route:
        changed = route
        if holds_reference(route):
            given = route.values_given.items()
            with self._collecting(path):
                filled = {key: interpolate(each, self.scope, last=key not in LATE_IN_ROUTES) for key, each in given}
                changed = type(route).model_validate(filled)
        return changed.with_source(self.origin.place(path))

    @contextmanager
    def _collecting(self, path: JsonPath) -> Iterator[None]:
        """Note the problems of what is done within, which goes on after it: what it makes is of no use."""
        try:
            yield
        except BadReferenceError as error:
            self.problems.append(self.origin.problem(path, str(error)))
        except ValidationError as error:
            for each in error.errors():
                message = f"{each['msg'].removeprefix('Value error, ')}, once its references are filled in"
                self.problems.append(self.origin.problem((*path, *each["loc"]), message))

    def _interpolated(self, path: JsonPath, model: ModelT, last: bool) -> ModelT:
        """The model with references filled in; if a value is of no use there, the model itself and a problem."""
        with self._collecting(path):
            return interpolate_step(model, self.scope, last=last)
        return model

    def context(self, user: str = "") -> ContextOptions:
        """What a browser context emulates: the settings, overridden by the task's profile, the task, and its user."""
        profile, options = self.spec.profile, self._declared_context(user)
        if profile is not None and profile not in self.settings.browser.profiles:
            message = f"[tool.harness.browser.profiles] has no profile `{profile}`"
            problem = self.origin.problem(("task_id",), message)
            self.problems += [problem] if problem not in self.problems else []
        if not holds_reference(options):
            return options
        with self._collecting(("users", user, "browser") if user else ("browser",)):
            values = interpolate(options.values_given, self.scope)
            refuse_one_time(values)
            return ContextOptions.model_validate(values)
        return options

    def _declared_context(self, user: str = "") -> ContextOptions:
        """The options of a context as they are declared, with references."""
        browser, own = self.settings.browser, self.spec.users[user].browser if user else None
        layers = (browser, browser.profiles.get(self.spec.profile or ""), self.spec.browser, own)
        return merged(each for each in layers if each is not None)

    def text(self, text: str) -> str:
        return as_text(interpolate(text, self.scope))

    def criteria(self, path: JsonPath, texts: Iterable[str]) -> tuple[Criterion, ...]:
        """The criteria at `path`."""
        found = (self._criterion((*path, number), text) for number, text in enumerate(texts))
        return tuple(criterion for criterion in found if criterion is not None)

    def _criterion(self, path: JsonPath, text: str) -> Criterion | None:
        try:
            return parse(interpolate_criterion(text, self.scope, last=False))
        except BadReferenceError as error:
            self.problems.append(self.origin.problem(path, str(error)))
        except CriterionError:
            self.problems.append(self.origin.problem(path, self._unreadable(text)))
        return None

    def scoring(self) -> tuple[ScoringCheckpoint, ...]:
        return tuple(self._fill_scoring(number, part) for number, part in enumerate(self.spec.scoring_checkpoints))

    def _fill_scoring(self, number: int, part: ScoringCheckpoint) -> ScoringCheckpoint:
        changed = {}
        for name in ("assertion", "when"):
            text = getattr(part, name)
            if text and text.strip():
                changed[name] = str(self._criterion(("scoring_checkpoints", number, name), text) or text)
        return part.model_copy(update=changed)

    def repairs(self, task: Callable[[JsonPath, str], Plan | None]) -> tuple[ReadyRepair, ...]:
        """The repairs, ready to run; `task` finds the task that a repair names."""
        return tuple(self._repair(("repairs", number), repair, task) for number, repair in enumerate(self.spec.repairs))

    def _repair(self, path: JsonPath, repair: Repair, task: Callable[[JsonPath, str], Plan | None]) -> ReadyRepair:
        named = (number for number, text in enumerate(self.spec.preconditions) if text == repair.precondition)
        return ReadyRepair(
            applies=frozenset(range(len(self.spec.preconditions)) if repair.precondition is None else named),
            memory=interpolate(repair.memory, self.scope),
            steps=tuple(self._step((*path, "steps", number), step) for number, step in enumerate(repair.steps)),
            task=task((*path, "task"), repair.task) if repair.task else None,
        )

    def handlers(self) -> tuple[ReadyHandler, ...]:
        """The handlers of the task, then those of the project."""
        own = ((("handlers", number), each) for number, each in enumerate(self.spec.handlers))
        shared = ((("handlers",), each) for each in self.settings.handlers)
        return tuple(self._handler(path, each) for path, each in (*own, *shared))

    def hook(self, key: Literal["before_each", "after_each"]) -> tuple[Step, ...]:
        """The steps around the task, whose notes say so; a task that runs inside another one has none."""
        steps = (self._step((key, number), step) for number, step in enumerate(getattr(self.spec, key)))
        notes = ((step, step.note or "") for step in steps)
        return tuple(
            step if note.startswith(key) else step.model_copy(update={"note": f"{key}: {note}" if note else key})
            for step, note in notes
        )

    def _handler(self, path: JsonPath, handler: Handler) -> ReadyHandler:
        return ReadyHandler(
            when=str(self._criterion((*path, "when"), handler.when) or handler.when),
            steps=tuple(self._step((*path, "steps", number), step) for number, step in enumerate(handler.steps)),
            times=handler.times,
        )

    def _unreadable(self, text: str) -> str:
        """The problem of a criterion without the values of variables, parts of which an error would quote."""
        hidden = scope_of(self.spec, dict.fromkeys(environment_names(self.spec), MARK), self.generated)
        try:
            parse(interpolate_criterion(text, hidden, last=False))
        except CriterionError as error:
            return str(error)
        return "cannot be read after the values of its environment variables are filled in"

    def spec_as_run(self) -> TaskSpec:
        """The spec with everything interpolated that is read from it while the task runs."""
        changed: dict[str, Any] = {"inputs": self.scope.inputs, "persona": self.scope.persona}
        changed["goal"] = self.text(self.spec.goal)
        for name in ("memory", "expected_memory", "page_values"):
            changed[name] = interpolate(getattr(self.spec, name), self.scope)
        changed["state_bindings"] = {
            self.text(key): at.model_copy(update={"path": self.text(at.path)})
            for key, at in self.spec.state_bindings.items()
        }
        if self.spec.budget.max_seconds is not None:
            seconds = self.spec.budget.max_seconds * self.scale
            changed["budget"] = self.spec.budget.model_copy(update={"max_seconds": seconds})
        return self.spec.model_copy(update=changed)


def refuse_one_time(value: Any) -> None:
    """Raise BadReferenceError for a one-time password in a value that is needed before the first step."""
    if name := next(one_time_names(value), None):
        raise BadReferenceError(str(Reference("totp", name)), ONLY_STEPS)
