"""Compiles a TaskSpec to a Plan: checked again, interpolated, scaled, with the rules of this run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from harness.criteria import Criterion, CriterionError, parse
from harness.masking import MARK
from harness.model.plan import Plan, ReadyHandler, ReadyLogin, ReadyRepair
from harness.model.settings import LoginSettings, Settings
from harness.recovery import NoRecovery, Rulebook
from harness.runner.chain import agent_chain, chain_problems, first_agent
from harness.spec.agents import SCRIPTED
from harness.spec.checks import check_spec, check_steps, login_problems, routes_problems, unfit_for_login
from harness.spec.context import ContextOptions, merged
from harness.spec.defaults import Defaults, with_defaults
from harness.spec.expressions import LATE_IN_ROUTES, environment_names, one_time_variables, scope_of, secrets_of
from harness.spec.generated import Generated
from harness.spec.load import load_file, tasks_in_folder
from harness.spec.loaded import Loaded
from harness.spec.marks import SLOW
from harness.spec.names import slug
from harness.spec.one_time import OneTimePasswords, key_of
from harness.spec.page_handlers import Handler
from harness.spec.problems import JsonPath, Problem, SpecError
from harness.spec.references import (
    ONLY_STEPS,
    BadReferenceError,
    Hide,
    Reference,
    ReferenceScope,
    as_text,
    hiding,
    holds_reference,
    interpolate,
    interpolate_criterion,
    interpolate_step,
    one_time_names,
    references,
)
from harness.spec.source import Origin
from harness.spec.steps import Open, Step
from harness.spec.task import Repair, ScoringCheckpoint, TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.spec.fault_plan import LoadedFaultPlan
    from harness.spec.faults import Fault
    from harness.spec.routes import Route

# Fills in the references of a task.

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
        made = self._interpolated(path, step, last=False)
        if made.timeout is None or self.scale == 1:
            return made
        return made.model_copy(update={"timeout": made.timeout * self.scale})

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

    def context(self) -> ContextOptions:
        """What the browser context emulates: the settings, overridden by the task's profile, overridden by the task."""
        profile, options = self.spec.profile, self._declared_context()
        if profile is not None and profile not in self.settings.browser.profiles:
            message = f"[tool.harness.browser.profiles] has no profile `{profile}`"
            self.problems.append(self.origin.problem(("task_id",), message))
        if not holds_reference(options):
            return options
        with self._collecting(("browser",)):
            values = interpolate(options.values_given, self.scope)
            _refuse_one_time(values)
            return ContextOptions.model_validate(values)
        return options

    def _declared_context(self) -> ContextOptions:
        """The options of the context as they are declared, with references."""
        browser = self.settings.browser
        layers = (browser, browser.profiles.get(self.spec.profile or ""), self.spec.browser)
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


# Makes the Plan of a task, and of the tasks that run within it.

_Find = Callable[[str], Loaded | None]
"""Finds a task by its id; None if there is none."""


def compile_plan(
    task: Loaded | TaskSpec,
    *,
    settings: Settings,
    run_id: str,
    folder: Path | None = None,
    source: str | None = None,
    key: str | None = None,
    environ: Mapping[str, str] | None = None,
    find: _Find | None = None,
    agent: str | None = None,
    now: datetime | None = None,
) -> Plan:
    """Compile the plan that the engine runs. A spec may have been changed since it was loaded, so it is checked again.

    `key` is a directory name (see `slug`), for callers that run a task in several variants. `find` looks up the tasks
    that this one names (`fallback_plan`, `repairs`); by default among the files of its folder. `agent` chooses the
    steps; by default the settings' agent for a task without steps. `now` is the moment of `${now}`; by default that of
    the call. Raises SpecError.
    """
    if isinstance(task, Loaded):
        spec, origin, folder = task.spec, task.origin, folder or task.folder
    else:
        spec, origin, folder = task, Origin(source or task.task_id), folder or Path.cwd()
    variables = os.environ if environ is None else environ
    others = find or tasks_in_folder(folder, settings.defaults)
    work = _Compilation(settings, run_id, variables, others, now or datetime.now(UTC))
    return work.plan(spec, origin, folder, key or slug(spec.task_id), source or origin.file, agent)


class _Compilation(Struct, frozen=True):
    """The data that a task shares with the tasks inside it."""

    settings: Settings
    run_id: str
    environ: Mapping[str, str]
    find: _Find
    now: datetime
    """The moment of `${now}` in all of them, for those without a `time`."""
    around: tuple[str, ...] = ()
    """The ids of the tasks that this one runs inside of."""

    def plan(self, spec: TaskSpec, origin: Origin, folder: Path, key: str, source: str, agent: str | None) -> Plan:
        """Compile a plan. Raises SpecError."""
        settings, environ = self.settings, self.environ
        hide = hiding(_secrets(spec, settings, environ))
        first = first_agent(spec, settings, agent)
        channels, agents = frozenset(settings.channels) or None, tuple(settings.agents)
        played = first is None  # the steps of the file are executed, so there must be some
        _refuse(check_spec(spec, origin, folder, channels, environ, needs_steps=played, agents=agents), hide)
        filling = Filling(spec, settings, environ, origin, self.now)
        following = agent_chain(spec, settings, agent) if recovers(settings, environ) else None
        _refuse(chain_problems(first, following, settings, origin), hide)
        plan = replace(self._filled(filling, folder, key, source), agent=first, chain=following)
        _refuse([*filling.problems, *check_steps(plan.steps, origin, folder, hide)], hide)
        _refuse([*routes_problems(plan.routes, origin, folder, hide)], hide)
        return plan

    def _filled(self, filling: Filling, folder: Path, key: str, source: str) -> Plan:
        """The plan with all references filled in; the filling has the problems."""
        spec, settings, environ = filling.spec, self.settings, self.environ
        inner = replace(self, around=(*self.around, spec.task_id))
        limits, context = spec.limits(settings.timeout_profile), filling.context()
        more = planned_faults(spec, filling.scope, plans_of(settings))
        back = spec.fallback_plan if spec.fallback_plan.enabled and recovers(settings, environ) else None
        relaxed, instead = (back.relaxed_success_criteria, back.alternative_task_id) if back else ((), None)
        return Plan(
            spec=filling.spec_as_run(),
            task_id=spec.task_id,
            key=key,
            world=f"{slug(self.run_id)}.{slug(spec.episode_id) if spec.episode_id else key}",
            steps=filling.steps(),
            preconditions=filling.criteria(("preconditions",), spec.preconditions),
            success_criteria=filling.criteria(("success_criteria",), spec.success_criteria),
            expected_criteria=filling.criteria(("expect", "criteria"), spec.expect.criteria if spec.expect else ()),
            rulebook=rulebook(spec.error_recovery, settings, environ, filling.text, filling.scale),
            timeout=limits.timeout * filling.scale,
            step_timeout=limits.step_timeout * filling.scale,
            faults=(*filling.faults(), *more.faults),
            routes=filling.routes(),
            fault_seed=spec.seed if more.seed is None else more.seed,
            folder=folder,
            source=source,
            origin=filling.origin,
            start=datetime.fromisoformat(spec.time) if spec.time else None,
            scoring=filling.scoring(),
            relaxed=filling.criteria(("fallback_plan", "relaxed_success_criteria"), relaxed),
            alternative=inner.other(filling, ("fallback_plan", "alternative_task_id"), instead) if instead else None,
            repairs=filling.repairs(lambda path, name: inner.other(filling, path, name)),
            handlers=filling.handlers(),
            login=inner.login(filling) if spec.login else None,
            base_url=settings.base_url,
            context=context,
            known_secrets=_known_secrets(spec, settings, environ, more, context),
            one_time=filling.one_time(),
            generated=filling.generated,
            heal=settings.heal,
            update_baselines=settings.update_baselines,
            strict=settings.strict,
            timeout_scale=filling.scale,
        )

    def other(self, filling: Filling, path: JsonPath, name: str) -> Plan | None:
        """The plan of a task that this one runs inside itself; None, and a problem, if that is impossible."""
        if name in self.around:
            circle = " -> ".join([*self.around, name])
            filling.problems.append(filling.origin.problem(path, f"tasks run inside each other: {circle}"))
            return None
        found = self.find(name)
        if found is None:
            filling.problems.append(filling.origin.problem(path, f"no task is called `{name}`"))
            return None
        if found.spec.browser is not None and found.spec.browser != filling.spec.browser:
            message = f"`{name}` declares a `browser` of its own, but runs in the context of this task"
            hint = "declare the same `browser` in both, or none in the other"
            filling.problems.append(filling.origin.problem(path, message, hint=hint))
            return None
        return self.plan(found.spec, found.origin, found.folder, slug(name), found.source, None)

    def login(self, filling: Filling) -> ReadyLogin | None:
        """The login that the task names, ready to run; None, and a problem, if there is none of that name."""
        settings = self.settings
        try:
            name = filling.text(filling.spec.login or "")
        except BadReferenceError:
            return None  # it is told with all other references
        declared = settings.logins.get(name)
        if declared is None:
            filling.problems += login_problems(name, filling.origin, settings.logins)
            return None
        made, origin, folder = self._login_task(name, declared)
        if unfit := list(unfit_for_login(made, origin.file, filling.origin)):
            filling.problems += unfit
            return None
        place = Origin(f"[tool.harness.logins.{name}]")
        plans = [
            self.plan(made, origin, folder, slug(f"{made.task_id}-as-{name}"), origin.file, SCRIPTED),
            *(
                self.plan(check, place, settings.root, slug(check.task_id), place.file, SCRIPTED)
                for check in login_checks(name, declared, made, settings.timeout_scale)
            ),
        ]
        logs_in, check, proof = (replace(each, faults=(), fresh=False) for each in plans)
        told = f"{name} {declared.model_dump_json()} {made.model_dump_json()} {settings.base_url} {logs_in.secrets}"
        digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        return ReadyLogin(name, logs_in, check, proof, declared.holds, declared.keep, digest)

    def _login_task(self, name: str, declared: LoginSettings) -> tuple[TaskSpec, Origin, Path]:
        """The task that logs in: that of a file, or of the steps in the settings. Raises SpecError."""
        if declared.task is None:
            limits = limits_of(self.settings.defaults)
            spec = TaskSpec(task_id=f"login-{name}", goal=f"Log in as {name}", steps=declared.steps, **limits)
            return spec, Origin(f"[tool.harness.logins.{name}]"), self.settings.root
        loaded = load_file(self.settings.root / declared.task, defaults=self.settings.defaults)
        return loaded.spec, loaded.origin, loaded.folder


def _secrets(spec: TaskSpec, settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    browser = settings.browser
    shared = (browser, browser.profiles[spec.profile]) if spec.profile in browser.profiles else (browser,)
    named = chain.from_iterable(variables_of(each) for each in shared)
    return secrets_of((*environment_names(spec), *named), environ)


def _known_secrets(
    spec: TaskSpec, settings: Settings, environ: Mapping[str, str], more: Planned, context: ContextOptions
) -> tuple[str, ...]:
    """The values of variables, and the password of the context, which may stand in the file as it is."""
    passwords = (context.http_credentials.password,) if context.http_credentials else ()
    of_plans = secrets_of(more.variables, environ)
    return tuple(dict.fromkeys((*_secrets(spec, settings, environ), *of_plans, *passwords)))


def _refuse(problems: list[Problem], hide: Hide) -> None:
    if errors := [problem for problem in problems if problem.severity == "error"]:
        raise SpecError(_hide_secrets(problem, hide) for problem in errors)


def _hide_secrets(problem: Problem, hide: Hide) -> Problem:
    """The problem without secrets; its place never contains values."""
    return replace(
        problem,
        message=hide(problem.message),
        expected=hide(problem.expected),
        found=hide(problem.found),
        hint=hide(problem.hint),
    )


# The faults of `--task-faults` that strike a task, prepared like its own.


class Planned(Struct, frozen=True):
    """The faults that plans add to a task, and the environment variables that they refer to."""

    faults: tuple[Fault, ...] = ()
    seed: int | None = None
    """The seed for probabilities; None: the task's own seed."""
    variables: tuple[str, ...] = ()


def plans_of(settings: Settings) -> list[LoadedFaultPlan]:
    """Load the fault plans of a run. Raises SpecError for one that cannot be used."""
    channels = frozenset(settings.channels) or None
    return [_read_once(file, channels) for file in settings.faults]


@cache
def _read_once(file: Path, channels: frozenset[str] | None) -> LoadedFaultPlan:
    from harness.spec.fault_plan import load_fault_plan

    return load_fault_plan(file, channels)


def planned_faults(spec: TaskSpec, scope: ReferenceScope, plans: Iterable[LoadedFaultPlan]) -> Planned:
    """The faults of all plans for a task. Raises SpecError for references that the task cannot fill in."""
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
                faults.append(prepare_fault(loaded, number, spec, scope))
            except SpecError as error:
                problems += error.problems
    if problems:
        raise SpecError(problems)
    return Planned(tuple(faults), seeds[0] if seeds else None, tuple(variables))


def prepare_fault(loaded: LoadedFaultPlan, number: int, spec: TaskSpec, scope: ReferenceScope) -> Fault:
    """One fault with its references filled in, and a name that is unique in every task. Raises SpecError."""
    try:
        fault = interpolate_step(loaded.plan.faults[number].fault, scope, last=True)
        _refuse_one_time(fault)
    except BadReferenceError as error:
        message = f"in {spec.task_id}, which it strikes: {error}"
        raise SpecError([loaded.origin.problem(("faults", number), message)]) from None
    named = fault.model_copy(update={"id": f"{loaded.name}/{loaded.name_of(number)}"})
    return named.with_source(loaded.origin.place(("faults", number)))


def _refuse_one_time(value: Any) -> None:
    """Raise BadReferenceError for a one-time password in a value that is needed before the first step."""
    if name := next(one_time_names(value), None):
        raise BadReferenceError(str(Reference("totp", name)), ONLY_STEPS)


def variables_of(declared: BaseModel) -> Iterator[str]:
    """The environment variables that a fault or another declaration refers to."""
    for _, value in declared:
        with suppress(BadReferenceError):
            yield from (each.name for _, each in references(str(value)) if each.namespace == "env")


# The task's rules as this run changes them: `--task-no-recovery`, `--task-no-heal`, `--task-timeout-scale`.

_OFF = ("false", "0", "no", "off")


def rulebook(
    rules: Rulebook, settings: Settings, environ: Mapping[str, str], text: Callable[[str], str], scale: float
) -> Rulebook:
    """The rules for this run; `text` fills in references. `scale`: the factor for time limits."""
    rule: Any = rules.on_element_not_found
    if hasattr(rule, "fallback_selectors"):
        changed = _element_rule(rule, settings, text, scale)
        rules = rules.model_copy(update={"on_element_not_found": rule.model_copy(update=changed)})
    if recovers(settings, environ):
        return rules
    return NoRecovery.model_construct(rules.model_fields_set, **dict(rules))


def recovers(settings: Settings, environ: Mapping[str, str]) -> bool:
    """Return whether recovery is on: neither `--task-no-recovery` nor RESILIENCE_ENABLED=false."""
    return settings.recovery and environ.get("RESILIENCE_ENABLED", "true").lower() not in _OFF


def _element_rule(rule: Any, settings: Settings, text: Callable[[str], str], scale: float) -> dict[str, Any]:
    selectors = rule.fallback_selectors if settings.heal else {}
    return {
        "wait_seconds": rule.wait_seconds * scale,
        "fallback_wait_seconds": rule.fallback_wait_seconds * scale,
        "fallback_selectors": {text(key): tuple(text(each) for each in others) for key, others in selectors.items()},
    }


# The tasks that find out whether a login is valid, made from its settings.

_USUAL_CHECK_SECONDS = 3.0
"""Seconds for `holds`, where neither the login nor the tasks of the project name a time."""
_LIMITS = ("timeout_profile", "timeout", "step_timeout", "expect_timeout")


def limits_of(defaults: Iterable[Defaults]) -> dict[str, Any]:
    """The time limits that a project sets for all its tasks: they are the limits of its logins too."""
    return {name: value for name, value in with_defaults({}, defaults).items() if name in _LIMITS}


def login_checks(name: str, declared: LoginSettings, made: TaskSpec, scale: float) -> tuple[TaskSpec, TaskSpec]:
    """The check before a login is used, and the one after it was made, with the limits of the task that logs in.

    Only the first ends with `lost_when`: right after a login an application may show its form for a moment, and a login
    that holds must not fail because of that.
    """
    seconds = declared.check_timeout
    if seconds is None:
        seconds = max(_USUAL_CHECK_SECONDS, made.expect_timeout)
    limits = {each: getattr(made, each) for each in _LIMITS if each in made.model_fields_set}
    keys = {**limits, "allowed_domains": made.allowed_domains, "browser": made.browser, "expect_timeout": seconds}
    steps, holds = (Open(url=declared.check_url),), (declared.holds,)
    before, after = f"{name}-is-valid", f"{name}-holds"
    quiet = Rulebook(capture="none")
    proof = TaskSpec(task_id=after, steps=steps, success_criteria=holds, **keys)
    if declared.lost_when is None:
        return TaskSpec(task_id=before, steps=steps, success_criteria=holds, error_recovery=quiet, **keys), proof
    decided = f"WITHIN({seconds * scale:g}, ANY[{declared.holds}, {declared.lost_when}])"
    keys["expect_timeout"] = 0
    both = (decided, *holds)
    return TaskSpec(task_id=before, steps=steps, success_criteria=both, error_recovery=quiet, **keys), proof
