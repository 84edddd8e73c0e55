"""Compiles a TaskSpec to a Plan: checked again, interpolated, scaled, with the rules of this run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import BaseModel

from harness.model.plan import Plan, ReadyLogin, ReadyUser
from harness.model.settings import LoginSettings, Settings
from harness.recovery import NoRecovery, Rulebook
from harness.runner.chain import agent_chain, chain_problems, first_agent
from harness.runner.filling import Filling, refuse_one_time
from harness.spec.agents import SCRIPTED
from harness.spec.checks import (
    agent_of_users,
    check_spec,
    check_steps,
    login_problems,
    routes_problems,
    unfit_for_login,
)
from harness.spec.defaults import Defaults, with_defaults
from harness.spec.expressions import environment_names, secrets_of
from harness.spec.load import load_file, tasks_in_folder
from harness.spec.loaded import Loaded
from harness.spec.names import slug
from harness.spec.problems import JsonPath, Problem, SpecError
from harness.spec.references import (
    BadReferenceError,
    Hide,
    ReferenceScope,
    hiding,
    interpolate_step,
    references,
)
from harness.spec.source import Origin
from harness.spec.steps import Open, Step
from harness.spec.task import TaskSpec
from harness.values import replace

if TYPE_CHECKING:
    from harness.spec.fault_plan import LoadedFaultPlan
    from harness.spec.faults import Fault

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
        _refuse(
            [
                *chain_problems(first, following, settings, origin),
                *agent_of_users(spec, first is not None or following is not None, origin),
            ],
            hide,
        )
        plan = replace(self._filled(filling, folder, key, source), agent=first, chain=following)
        unknown = _unknown_users(plan, origin)
        _refuse([*filling.problems, *check_steps(plan.steps, origin, folder, hide), *unknown], hide)
        _refuse([*routes_problems(plan.routes, origin, folder, hide)], hide)
        return plan

    def _filled(self, filling: Filling, folder: Path, key: str, source: str) -> Plan:
        """The plan with all references filled in; the filling has the problems."""
        spec, settings, environ = filling.spec, self.settings, self.environ
        inner = replace(self, around=(*self.around, spec.task_id))
        limits = spec.limits(settings.timeout_profile)
        first, *others = inner.users(filling)
        more = _planned_faults(spec, filling.scope, plans_of(settings))
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
            before_each=() if self.around else filling.hook("before_each"),
            after_each=() if self.around else filling.hook("after_each"),
            login=first.login,
            user=first.name,
            others=tuple(others),
            base_url=settings.base_url,
            context=first.context,
            known_secrets=_known_secrets(spec, settings, environ, more, (first, *others)),
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

    def users(self, filling: Filling) -> Iterator[ReadyUser]:
        """The users of the task, ready to act; one without a name if it declares none."""
        if not filling.spec.users:
            yield ReadyUser("", filling.context(), self.login(filling, ("login",), filling.spec.login))
        for name, user in filling.spec.users.items():
            login = self.login(filling, ("users", name, "login"), user.login)
            yield ReadyUser(name, filling.context(name), login)

    def login(self, filling: Filling, path: JsonPath, named: str | None) -> ReadyLogin | None:
        """The login of that name, ready to run; None if none is named, or, with a problem, if there is none of it."""
        if not named:
            return None
        settings = self.settings
        try:
            name = filling.text(named)
        except BadReferenceError:
            return None  # it is told with all other references
        declared = settings.logins.get(name)
        if declared is None:
            filling.problems += login_problems(path, name, filling.origin, settings.logins)
            return None
        made, origin, folder = self._login_task(name, declared)
        if unfit := list(unfit_for_login(made, origin.file, path, filling.origin)):
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


def _unknown_users(plan: Plan, origin: Origin) -> Iterator[Problem]:
    """Yield a problem for each step by somebody who is no user of the task, once its references are filled in."""
    of_handlers = (each for handler in plan.handlers for each in handler.steps)
    by_whom: list[tuple[JsonPath, Step]] = [(("handlers",), each) for each in of_handlers if each.user is not None]
    by_whom += [(("steps", number), each) for number, each in enumerate(plan.steps) if each.user is not None]
    if by_whom:
        from harness.spec.users import unknown_users  # few tasks have users

        yield from unknown_users(by_whom, [each.name for each in plan.users if each.name], origin)


def _secrets(spec: TaskSpec, settings: Settings, environ: Mapping[str, str]) -> tuple[str, ...]:
    browser = settings.browser
    shared = (browser, browser.profiles[spec.profile]) if spec.profile in browser.profiles else (browser,)
    named = chain.from_iterable(variables_of(each) for each in shared)
    return secrets_of((*environment_names(spec), *named), environ)


def _known_secrets(
    spec: TaskSpec, settings: Settings, environ: Mapping[str, str], more: Planned, users: Iterable[ReadyUser]
) -> tuple[str, ...]:
    """The values of variables, and the passwords of the contexts, which may stand in the file as they are."""
    passwords = (each.context.http_credentials.password for each in users if each.context.http_credentials)
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


def _planned_faults(spec: TaskSpec, scope: ReferenceScope, plans: Iterable[LoadedFaultPlan]) -> Planned:
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
        refuse_one_time(fault)
    except BadReferenceError as error:
        message = f"in {spec.task_id}, which it strikes: {error}"
        raise SpecError([loaded.origin.problem(("faults", number), message)]) from None
    named = fault.model_copy(update={"id": f"{loaded.name}/{loaded.name_of(number)}"})
    return named.with_source(loaded.origin.place(("faults", number)))


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
