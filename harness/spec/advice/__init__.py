"""Warnings about legal but unwise parts of a task, each with its place; `harness validate` shows them.

Most are about parts that can have no effect: checkpoints, URLs, settings, limits, memory, fallbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from harness.recovery.failure import Failure
from harness.recovery.rulebook import NetworkRule
from harness.spec.advice.criteria import (
    criteria_advice,
    declares_failure,
    hooked,
    path_advice,
    precondition_advice,
    scopes,
    shares_memory,
    touches,
    written,
)
from harness.spec.expressions import expressions, interpolated, steps_of
from harness.spec.loaded import Loaded
from harness.spec.names import ANYWHERE, Domains, reaches
from harness.spec.page_steps import Wait
from harness.spec.pictures import is_baseline_of
from harness.spec.problems import JsonPath, Problem, did_you_mean
from harness.spec.references import BadReferenceError, ReferenceScope, as_text, interpolate, references
from harness.spec.source import Origin
from harness.spec.steps import Api, Assert, Dialog, Download, Drag, Open, Step, Tool
from harness.spec.task import TaskSpec


def checkpoint_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings about checkpoints. If an agent chooses the steps, their number is unknown."""
    timeout, crash = spec.error_recovery.on_timeout.strategy, spec.error_recovery.on_browser_crash.strategy
    for number, index in enumerate(spec.checkpoints):
        path: JsonPath = ("checkpoints", number)
        if isinstance(index, str):
            continue  # it is refused
        if spec.only_its_steps and index >= len(spec.steps):
            message = f"never taken: there is no step {index}"
            expected = f"0 to {len(spec.steps) - 1}"
            yield origin.problem(path, message, expected=expected, severity="warning")
        elif index in spec.checkpoints[:number]:
            yield origin.problem(path, f"step {index} appears twice", severity="warning")
    if timeout == "retry_from_checkpoint" and not spec.checkpoints:
        message = "there is no checkpoint to go back to: it works as `capture_state_and_abort`"
        hint = "name in `checkpoints` the steps before which the state is saved"
        yield origin.problem(("error_recovery", "on_timeout"), message, hint=hint, severity="warning")
    if spec.checkpoints and timeout != "retry_from_checkpoint" and crash == "abort":
        message = f"nothing goes back to them: `on_timeout` is `{timeout}`, `on_browser_crash` is `abort`"
        hint = "`on_timeout: retry_from_checkpoint` or `on_browser_crash: restart_from_checkpoint` does"
        yield origin.problem(("checkpoints",), message, hint=hint, key=True, severity="warning")


# URLs that a task opens without permission: each ends it with POLICY_DOMAIN.


def domain_advice(spec: TaskSpec, origin: Origin, virtual_hosts: tuple[str, ...] = ()) -> Iterator[Problem]:
    """Yield a warning for each host that an `open` or `api` reaches outside of `allowed_domains` in every case.

    Only hosts that are known before the run count, and each is reported once.
    """
    if not spec.allowed_domains or declares_failure(spec):
        return
    domains = Domains(spec.allowed_domains, virtual_hosts)
    every, told = scopes(spec), set[str]()
    for path, step in steps_of(spec):
        hosts = [named_host(step, scope, domains) for scope in every]
        if hosts[0] not in told and all(host and not reaches(host, spec.allowed_domains) for host in hosts):
            told.add(hosts[0])
            message = f"{hosts[0]} is outside `allowed_domains`: the step ends the task with POLICY_DOMAIN"
            hint = f"add {hosts[0]} to `allowed_domains`, or open a page of {' or '.join(spec.allowed_domains)}"
            yield origin.problem((*path, "url"), message, hint=hint, severity="warning")


def named_host(step: Step, scope: ReferenceScope, domains: Domains = ANYWHERE) -> str:
    """The host that an `open` or `api` names, in lower case; empty if only the run knows it."""
    if not isinstance(step, Open | Api):
        return ""
    url = as_text(interpolate(step.url, scope, last=False))
    return "" if "${" in "/".join(url.split("/")[:3]) else domains.host(url)


# Settings without effect, given the rest of the task; the loader reports idle `repairs` and strategy settings.

METRICS = ("SR", "LH-F1", "cost_efficiency")
"""The metrics that `rubrics` may weigh (harness/engine/result.py computes them)."""


def _metrics(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    for name in spec.rubrics:
        if name not in METRICS:
            message, expected = f"there is no metric `{name}`: it is left out of the score", ", ".join(METRICS)
            yield origin.problem(("rubrics", name), message, expected=expected, key=True, severity="warning")


def _precondition_rule(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    if spec.error_recovery.on_precondition_fail.strategy != "attempt_repair" or spec.repairs:
        return
    message, hint = "the task has no `repairs`, so nothing is attempted", "declare in `repairs` how to set it up"
    path = ("error_recovery", "on_precondition_fail")
    yield origin.problem(path, message, hint=hint, severity="warning")


def _bindings(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning for each binding whose entry never gets into memory: only an entry in memory is compared."""
    rules = spec.error_recovery
    if "on_state_inconsistency" in rules.model_fields_set and not spec.state_bindings:
        message, path = (
            "the task has no `state_bindings`, so nothing is compared",
            ("error_recovery", "on_state_inconsistency"),
        )
        yield origin.problem(path, message, hint="it has no effect", key=True, severity="warning")
    if shares_memory(spec) or not spec.only_its_steps:
        return
    known = written(spec) | set(spec.memory)
    for key in spec.state_bindings:
        if not touches(key, known):
            message = "never compared: `memory` does not have it and no step remembers it"
            yield origin.problem(("state_bindings", key), message, key=True, severity="warning")


def _fallback_plan(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    plan = spec.fallback_plan
    filled = plan.alternative_task_id is not None or plan.relaxed_success_criteria
    if filled and not plan.enabled:
        message, hint = "not enabled: it has no effect", "add `enabled: true`"
    elif plan.enabled and not filled:
        message = "the plan is enabled, but it names nothing to fall back to"
        hint = "name an `alternative_task_id` or `relaxed_success_criteria`"
    else:
        return
    yield origin.problem(("fallback_plan",), message, hint=hint, key=True, severity="warning")


# Limits that are never reached because another one comes first.


def limit_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for step limits above the task's, waits above their step's, a budget above the task's time."""
    whole = spec.limits().timeout
    if "step_timeout" in spec.model_fields_set and spec.limits().step_timeout > whole:
        yield _exceeds_limit(("step_timeout",), spec.limits().step_timeout, "the task's `timeout`", whole, origin)
    for path, step in steps_of(spec):
        if step.timeout is not None and step.timeout > whole:
            yield _exceeds_limit((*path, "timeout"), step.timeout, "the task's `timeout`", whole, origin)
        if isinstance(step, Wait) and not declares_failure(spec):
            yield from _long_wait(path, step, spec.limits().step_timeout, origin)
    most = spec.budget.max_seconds
    if most is not None and most > whole:
        yield _exceeds_limit(("budget", "max_seconds"), most, "the task's `timeout`", whole, origin)
    steps = spec.budget.max_steps
    if spec.does_its_steps and steps is not None and steps < len(spec.steps) and not declares_failure(spec):
        message = f"the task has {len(spec.steps)} steps and may begin {steps}: it always ends with BUDGET_EXCEEDED"
        yield origin.problem(("budget", "max_steps"), message, severity="warning")


def _exceeds_limit(path: JsonPath, seconds: float, name: str, limit: float, origin: Origin) -> Problem:
    message = f"{seconds:g} s is longer than {name} ({limit:g} s), which comes first"
    return origin.problem(path, message, severity="warning")


def _long_wait(path: JsonPath, step: Wait, step_timeout: float, origin: Origin) -> Iterator[Problem]:
    """Yield a warning for a wait of fixed length above the limit; a wait for an element has no length of its own."""
    limit, name = (step_timeout, "`step_timeout`") if step.timeout is None else (step.timeout, "the step's `timeout`")
    if step.selector is None and isinstance(step.value, int | float) and step.value >= limit:
        message = f"a wait of {step.value:g} s never ends within {name} ({limit:g} s)"
        hint = "give the step a longer `timeout`, or wait for an element instead"
        yield origin.problem((*path, "value"), message, hint=hint, severity="warning")


# Memory entries that steps need and nothing writes: such a step always fails with MEMORY_MISSING.


def memory_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning for each `${memory.x}` in steps that nothing writes.

    Criteria are left out, since a missing entry is null there, and so are tasks that share memory with others.
    """
    if not spec.only_its_steps or shares_memory(spec) or hooked(spec) or declares_failure(spec):
        return
    known = written(spec).union(spec.memory, spec.state_bindings, spec.expected_memory)
    criteria = {path for path, _, _ in expressions(spec)}
    for path, text, _ in interpolated(spec):
        if path[0] not in ("steps", "repairs", "handlers") or path in criteria or "${" not in text:
            continue
        with suppress(BadReferenceError):
            for offset, wanted in references(text):
                if wanted.namespace == "memory" and not touches(wanted.name, known):
                    message = f"`memory` has no `{wanted.name}` and no step remembers it: always MEMORY_MISSING"
                    hint = did_you_mean(wanted.name, known) or f"`remember: {{{wanted.name}: ...}}` in a step before"
                    within = (text, offset)
                    yield origin.problem(path, message, hint=hint, within=within, severity="warning")


# Baselines that are not there yet.


def baseline_advice(spec: TaskSpec, origin: Origin, folder: Path) -> Iterator[Problem]:
    """Yield a warning for each baseline that is missing on every platform: until it is written, its step fails."""
    for path, step in steps_of(spec):
        if isinstance(step, Assert) and step.baseline is not None and "${" not in step.baseline:
            key, file = "aria" if step.aria else "screenshot", folder / step.baseline
            names = (each.name for each in file.parent.iterdir()) if file.parent.is_dir() else iter(())
            if not (file.is_file() if step.aria else any(is_baseline_of(file.name, name) for name in names)):
                hint = "`--task-update-baselines` writes it; look at it before you keep it"
                yield origin.problem((*path, key), "there is no baseline yet", hint=hint, severity="warning")


# Results that a task declares and no step produces: `memory_keys`, `artifacts`.


def promise_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for memory keys and artifacts that no step makes. Of an agent's steps nothing can be said."""
    if not spec.only_its_steps:
        return
    known = written(spec).union(spec.memory, spec.state_bindings)
    for number, key in enumerate(spec.memory_keys):
        if not shares_memory(spec) and "${" not in key and not touches(key, known):
            message, hint = (
                "no step remembers it: it will be missing at the end",
                f"`remember: {{{key}: ...}}` in a step",
            )
            yield origin.problem(("memory_keys", number), message, hint=hint, severity="warning")
    yield from _artifacts(spec, origin)


def _artifacts(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for artifacts that no step keeps. A file is known by its name with or without its extension."""
    kept = set(_kept_names(spec))
    if None in kept:
        return
    for number, name in enumerate(spec.artifacts):
        if name not in kept and "${" not in name:
            message = "no step keeps a file of this name: it will be missing at the end"
            hint = "a step keeps one with `screenshot_id`, a `download` with its `value`"
            yield origin.problem(("artifacts", number), message, hint=hint, severity="warning")


def _kept_names(spec: TaskSpec) -> Iterator[str | None]:
    """The names of what the steps keep; None for a name that only the run knows."""
    for _, step in steps_of(spec):
        if step.screenshot_id is not None:
            yield from (None,) if "${" in step.screenshot_id else (step.screenshot_id, f"{step.screenshot_id}.png")
        if isinstance(step, Download):
            known = step.value is not None and "${" not in step.value
            yield from (step.value, PurePosixPath(str(step.value)).stem) if known else (None,)


# Fallback selectors that are never used.

_PATH: JsonPath = ("error_recovery", "on_element_not_found", "fallback_selectors")


def selector_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for a selector that is its own fallback, repeated fallbacks, and those of unused selectors."""
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    every = scopes(spec)
    used = {selector for scope in every for selector in _used_selectors(spec, scope)}
    for key, others in fallbacks.items():
        names = {as_text(interpolate(key, scope, last=False)) for scope in every}
        if spec.only_its_steps and not any("${" in selector for selector in used | names) and not names & used:
            hint = did_you_mean(key, used) or "write the key exactly as the step writes its `selector`"
            message = "no step uses this selector: its fallbacks are never tried"
            yield origin.problem((*_PATH, key), message, hint=hint, key=True, severity="warning")
        yield from _repeated(key, others, origin)


def _used_selectors(spec: TaskSpec, scope: ReferenceScope) -> Iterator[str]:
    """The selectors that the steps use, with references filled in."""
    for _, step in steps_of(spec):
        dropped_on = step.value if isinstance(step, Drag) else None
        for selector in (step.target, getattr(step, "frame", None), dropped_on):
            if selector is not None:
                yield as_text(interpolate(selector, scope, last=False))


def _repeated(key: str, others: tuple[str, ...], origin: Origin) -> Iterator[Problem]:
    for number, selector in enumerate(others):
        if selector == key:
            message, hint = "the selector is its own fallback", "it has just been tried: name another selector"
        elif selector in others[:number]:
            message, hint = "this fallback appears twice", "leave one of them out"
        else:
            continue
        yield origin.problem((*_PATH, key, number), message, hint=hint, severity="warning")


# Recovery and faults that take longer than the time limits allow; only what the file itself declares is examined.


def _elements(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning if `wait_seconds` exceeds the limit of the attempt that it is a part of."""
    rule: Any = spec.error_recovery.on_element_not_found
    longest = max([spec.limits().step_timeout, *(step.timeout or 0 for _, step in steps_of(spec))])
    for name in ("wait_seconds", "fallback_wait_seconds"):
        if name in rule.model_fields_set and getattr(rule, name) > longest:
            path: JsonPath = ("error_recovery", "on_element_not_found", name)
            message = f"{getattr(rule, name):g} s is longer than any step may take ({longest:g} s)"
            yield origin.problem(path, message, hint="`step_timeout` comes first", severity="warning")


def _retries(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for retry delays above the task's limit: such a wait is not started and its retry never made."""
    network, assertion = spec.error_recovery.on_network_error, spec.error_recovery.on_assertion_fail
    if isinstance(network, NetworkRule) and network.model_fields_set - {"strategy"}:
        waits = sum(network.backoff(Failure("NET_CONNECTION_REFUSED", "")).delays())
        yield from _too_long(("error_recovery", "on_network_error"), waits, spec, origin)
    if "wait_before_retry_seconds" in assertion.model_fields_set:
        seconds = getattr(assertion, "wait_before_retry_seconds", 0)
        path: JsonPath = ("error_recovery", "on_assertion_fail", "wait_before_retry_seconds")
        yield from _too_long(path, seconds, spec, origin)


def _too_long(path: JsonPath, seconds: float, spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    if seconds >= spec.limits().timeout:
        message = (
            f"the waits before its retries add up to {seconds:g} s, and the task may take {spec.limits().timeout} s"
        )
        yield origin.problem(path, message, hint="the last of them is never made", severity="warning")


def _faults(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning for a fault that outlasts a task which does not declare how it fails."""
    if declares_failure(spec):
        return
    for number, fault in enumerate(spec.faults):
        seconds = getattr(fault, "seconds", None)
        if "seconds" in fault.model_fields_set and seconds is not None and seconds >= spec.limits().timeout:
            message = f"the fault lasts {seconds:g} s, the task at most {spec.limits().timeout} s: it is never over"
            hint = "shorten it, or declare in `expect` how the task fails"
            yield origin.problem(("faults", number, "seconds"), message, hint=hint, severity="warning")


# Steps that change something for good, and how they are declared (docs/design/never-twice.md).


def write_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield warnings for writes without `done_when`, and answers to unopened dialogs."""
    if spec.expect is None or spec.expect.code != "OUTCOME_UNKNOWN":
        yield from _of(spec.steps, ("steps",), origin)
        for number, repair in enumerate(spec.repairs):
            yield from _of(repair.steps, ("repairs", number, "steps"), origin)
    if spec.steps and isinstance(spec.steps[-1], Dialog):
        message = "this is the last step, so no dialog follows it"
        hint = "put it before the step that opens the dialog"
        yield origin.problem(("steps", len(spec.steps) - 1), message, hint=hint, severity="warning")


def _of(steps: Sequence[Step], path: JsonPath, origin: Origin) -> Iterator[Problem]:
    for number, step in enumerate(steps):
        if isinstance(step, Tool) and step.effect is None:
            continue  # the settings or the server say what it does
        if step.effect_class == "write" and step.done_when is None:
            message = "a `write` without `done_when`: when it fails halfway, the task ends with OUTCOME_UNKNOWN"
            hint = (
                "say in `done_when` how to tell that it took effect, or use `effect: idempotent` if twice does no harm"
            )
            yield origin.problem((*path, number), message, hint=hint, severity="warning")


# All of them.

_Rule = Callable[[TaskSpec, Origin], Iterator[Problem]]
_RULES: tuple[_Rule, ...] = (
    write_advice, criteria_advice, path_advice, selector_advice, limit_advice, _elements, _retries, _faults,
    checkpoint_advice, _precondition_rule, _bindings, _fallback_plan, _metrics, promise_advice,
)  # fmt: skip
_OF_MEMORY: tuple[_Rule, ...] = (memory_advice, precondition_advice)
"""Rules that apply only to a task that begins with the memory of its own file."""


def advice(loaded: Loaded, *, inner: bool = False, virtual_hosts: tuple[str, ...] = ()) -> Iterator[Problem]:
    """The warnings about a task, in the order of its file. They never keep a task from running.

    `inner`: the task does not begin with the memory of its own file alone, because another task runs it inside itself,
    or the system under test keeps the memory. `virtual_hosts` are those of the settings.
    """
    rules = _RULES if inner else (*_RULES, *_OF_MEMORY)
    found = [problem for rule in rules for problem in rule(loaded.spec, loaded.origin)]
    found += domain_advice(loaded.spec, loaded.origin, virtual_hosts)
    found += baseline_advice(loaded.spec, loaded.origin, loaded.folder)
    yield from sorted(found, key=lambda each: (each.file != loaded.source, each.file, each.line or 0, each.column or 0))
