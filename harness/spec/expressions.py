"""Checks of the criteria and references in a task: their syntax, and what they refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from pydantic import BaseModel

from harness.criteria import Criterion, CriterionError, ValueExpression, parse, parse_value
from harness.criteria.syntax import Selected
from harness.spec.file_names import HOOKS
from harness.spec.generated import Generated
from harness.spec.one_time import key_of, secret_in
from harness.spec.page_steps import Wait
from harness.spec.parametrize import (
    MOST_CHECKED,
    MOST_PARAMETERS,
    Case,
    case_of,
    cases,
    param,
    parametrize_problems,
    undecided,
)
from harness.spec.problems import JsonPath, Problem, describe_value, did_you_mean, join_or
from harness.spec.references import (
    MADE,
    MOST_FILLED,
    NOT_SET,
    ONLY_STEPS,
    VARIABLES,
    BadReferenceError,
    FilledLength,
    Reference,
    ReferenceScope,
    SharedProblemError,
    interpolate,
    interpolate_criterion,
    length_of,
    one_time_names,
    references,
)
from harness.spec.rounds import Guard
from harness.spec.selector_checks import unreadable
from harness.spec.source import Origin, Place
from harness.spec.step_base import RepeatedStep
from harness.spec.steps import Api, Assert, Step, Tool
from harness.spec.task import TaskSpec
from harness.spec.url_patterns import WEB, RequestPattern, may_log, may_match, whole_url_hint

# What cases and references multiply.


def too_large(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a problem for what cases and references would multiply. No other check is made of such a task."""
    declared = spec.parametrize
    names = {name for row in ([declared] if isinstance(declared, Mapping) else declared) for name in row}
    if len(names) > MOST_PARAMETERS:
        expected, found = f"at most {MOST_PARAMETERS} names", f"{len(names):,}"
        yield origin.problem(("parametrize",), "too many names of parameters", expected=expected, found=found)
        return
    if not spec.parametrize and not origin.mentions("${"):
        return
    length, total = _filled_length(spec), 0
    for path, text, _ in interpolated(spec):
        total += length.within(text)
        if total > MOST_FILLED:
            expected = f"at most {MOST_FILLED:,} characters from all references of the task"
            hint = "refer to large values less often"
            yield origin.problem(path, "references multiply what they refer to", expected=expected, hint=hint)
            return


def checked_cases(spec: TaskSpec) -> tuple[Case, ...]:
    """The cases whose values are filled in to check the task before it runs. Each case is checked again when it runs.

    They are all cases, unless that would take too long.
    """
    found = cases(spec)
    if len(found) < 2:
        return found
    length = _filled_length(spec)
    lengths = [length.within(text) for _, text, _ in interpolated(spec)]
    most = min(MOST_CHECKED // max(len(lengths), 1), MOST_FILLED // max(sum(lengths), 1))
    return found[: max(most, 1)]


def _filled_length(spec: TaskSpec) -> FilledLength:
    """The lengths of the task's references; of several cases the longest value counts."""
    longest: dict[str, Any] = {}
    for case in cases(spec):
        longest |= {name: max(longest.get(name, ""), value, key=length_of) for name, value in case.values.items()}
    return FilledLength({"param": longest, "inputs": spec.inputs, "persona": spec.persona})


# Parts of a task that name others: repairs name preconditions, parts of the score name each other.


def _part_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield problems for names of missing parts, and warnings for parts that can have no effect."""
    for number, repair in enumerate(spec.repairs):
        if repair.precondition is not None and repair.precondition not in spec.preconditions:
            path, found = ("repairs", number, "precondition"), describe_value(repair.precondition)
            expected = "the text of one of the `preconditions`" + ("" if spec.preconditions else "; there is none")
            hint = did_you_mean(repair.precondition, spec.preconditions)
            yield origin.problem(path, "not a precondition of the task", expected=expected, found=found, hint=hint)
    if spec.repairs and (reason := _idle(spec)):
        yield origin.problem(("repairs",), reason, hint="it has no effect", key=True, severity="warning")
    yield from _scoring(spec, origin)


def _idle(spec: TaskSpec) -> str:
    """The reason why the repairs are never made; empty if they can be."""
    if not spec.preconditions:
        return "the task has no `preconditions` to repair"
    strategy = spec.error_recovery.on_precondition_fail.strategy
    return "" if strategy == "attempt_repair" else f"`on_precondition_fail` is `{strategy}`, not `attempt_repair`"


def _scoring(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield the problems of scoring checkpoints. A part may depend only on earlier ones, so that there is no cycle."""
    before: list[str] = []
    for number, part in enumerate(spec.scoring_checkpoints):
        path: JsonPath = ("scoring_checkpoints", number)
        if part.id in before:
            message = f"the id `{part.id}` is already the id of part {before.index(part.id)}"
            yield origin.problem((*path, "id"), message, hint="every part needs an id of its own")
        for place, name in enumerate(part.depends_on):
            if name not in before:
                message, hint = f"no earlier part has the id `{name}`", did_you_mean(name, before)
                expected = join_or(before) if before else "nothing: it is the first"
                yield origin.problem((*path, "depends_on", place), message, expected=expected, hint=hint)
        before.append(part.id)


# The places of criteria and references in a task.

LATE_IN_ROUTES = ("headers", "json", "body", "patch", "messages")
"""Keys of a route that may refer to memory: they are filled in when a request is answered."""
_Found = tuple[JsonPath, str, bool]
"""The path, the text, and whether it is a value expression (not a criterion)."""

_CALL = re.compile(r"\s*(?:mem|json)\(.*\)\s*", re.DOTALL)


def expressions(spec: TaskSpec) -> Iterator[_Found]:
    """All criteria and value expressions of the task."""
    yield from _listed(("preconditions",), spec.preconditions)
    yield from _listed(("success_criteria",), spec.success_criteria)
    yield from _listed(("expect", "criteria"), spec.expect.criteria if spec.expect else ())
    for number, point in enumerate(spec.scoring_checkpoints):
        yield ("scoring_checkpoints", number, "assertion"), point.assertion, False
        if point.when and point.when.strip():
            yield ("scoring_checkpoints", number, "when"), point.when, False
    yield from _listed(("fallback_plan", "relaxed_success_criteria"), spec.fallback_plan.relaxed_success_criteria)
    for number, write in enumerate(spec.allowed_writes):
        if write.done_when is not None:
            yield ("allowed_writes", number, "done_when"), write.done_when, False
    yield from ((("handlers", number, "when"), each.when, False) for number, each in enumerate(spec.handlers))
    for path, step in steps_of(spec):
        yield from _of_step(path, step)


def _listed(path: JsonPath, texts: Sequence[str]) -> Iterator[_Found]:
    return (((*path, number), text, False) for number, text in enumerate(texts))


def steps_of(spec: TaskSpec) -> Iterator[tuple[JsonPath, Step]]:
    """All steps of the task, of its repairs, of its handlers, and those around it."""
    for key in HOOKS:
        yield from (((key, number), step) for number, step in enumerate(getattr(spec, key)))
    for number, step in enumerate(spec.steps):
        yield ("steps", number), step
    for number, repair in enumerate(spec.repairs):
        for inner, step in enumerate(repair.steps):
            yield ("repairs", number, "steps", inner), step
    for number, handler in enumerate(spec.handlers):
        for inner, step in enumerate(handler.steps):
            yield ("handlers", number, "steps", inner), step


def _of_step(path: JsonPath, step: Step) -> Iterator[_Found]:
    yield from ((at, text, False) for at, text in _criteria_of_step(path, step))
    for guard, text in step.guards.items():
        yield (*path, "guards", guard), text, bool(Guard.read(guard).key)
    for key, text in step.remember.items():
        yield (*path, "remember", key), text, True
    if isinstance(step, Api | Tool) and step.expect is not None:
        yield (*path, "expect"), step.expect, False
    if isinstance(step, Wait) and step.expr is not None:
        yield (*path, "expr"), step.expr, False
    if isinstance(step, Assert):
        if step.expr is not None:
            yield (*path, "expr"), step.expr, False
        elif isinstance(step.value, str) and _CALL.fullmatch(step.value):
            yield (*path, "value"), step.value, True


def _criteria_of_step(path: JsonPath, step: Step) -> Iterator[tuple[JsonPath, str]]:
    until = step.until if isinstance(step, RepeatedStep) else None
    for key, criterion in {"when": step.when, "until": until, "done_when": step.done_when}.items():
        if criterion is not None:
            yield (*path, key), criterion


def interpolated(spec: TaskSpec) -> Iterator[tuple[JsonPath, str, bool]]:
    """All texts that may contain references, and whether `${memory...}` is allowed in each."""
    yield from ((path, text, False) for path, text in _texts((), _values(spec)))
    steps = dict(steps_of(spec))
    found = ((path, text) for path, text, _ in expressions(spec) if "${" in text)
    yield from ((path, text, True) for path, text in found if not any(path[:length] in steps for length in (2, 4)))
    for path, step in steps.items():
        yield from ((at, text, True) for at, text in _texts(path, step.__dict__))
    for number, repair in enumerate(spec.repairs):
        yield from ((path, text, False) for path, text in _texts(("repairs", number, "memory"), repair.memory))
    for key, binding in spec.state_bindings.items():
        yield ("state_bindings", key), key, False
        yield ("state_bindings", key, "path"), binding.path, False
    for number, fault in enumerate(spec.faults):
        yield from ((path, text, False) for path, text in _texts(("faults", number), fault.__dict__))
    for number, route in enumerate(spec.routes):
        for path, text in _texts(("routes", number), route.__dict__):
            yield path, text, path[2] in LATE_IN_ROUTES
    yield from ((path, text, False) for path, text in [*_of_fallbacks(spec), *_of_cases(spec)])


def _values(spec: TaskSpec) -> dict[str, Any]:
    """The keys that are values as a whole."""
    names = ("goal", "inputs", "persona", "page_values", "memory", "expected_memory", "login", "users")
    values = {name: getattr(spec, name) for name in names}
    return values | ({"browser": spec.browser.values_given} if spec.browser is not None else {})


def _of_fallbacks(spec: TaskSpec) -> Iterator[tuple[JsonPath, str]]:
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    for key, selectors in fallbacks.items():
        path = ("error_recovery", "on_element_not_found", "fallback_selectors", key)
        yield path, key
        yield from _texts(path, selectors)


def _of_cases(spec: TaskSpec) -> Iterator[tuple[JsonPath, str]]:
    """The values of `parametrize`. The place of a single expanded case in the file is no longer known."""
    place: JsonPath = ("parametrize",)
    for path, text in _texts(place, spec.parametrize):
        yield (path if case_of(spec) is None else place), text


def _texts(path: JsonPath, around: Any) -> Iterator[tuple[JsonPath, str]]:
    """The texts in a mapping or list that contain a reference. It is fast: every task is searched, few match."""
    for key, item in around.items() if isinstance(around, dict) else enumerate(around):
        if isinstance(item, str):
            if "${" in item:
                yield (*path, key), item
        elif isinstance(item, BaseModel):
            yield from _texts((*path, key), item.__dict__)
        elif isinstance(item, dict | list | tuple) and item:
            yield from _texts((*path, key), item)


_FIRST = ("env", *MADE, "totp")
_EARLY = {"parametrize": _FIRST, "inputs": (*_FIRST, "param"), "persona": (*_FIRST, "param")}
"""The parts that are filled in first, and the namespaces that they may refer to."""
_WRITTEN = {"param": "param.x", "env": "env:NAME", "fake": "fake.x", "now": "now", "totp": "totp:NAME"}


def reference_problems(spec: TaskSpec, origin: Origin, environ: Mapping[str, str] | None) -> Iterator[Problem]:
    """Yield problems for malformed references, references to nothing, and the cases that they take values from.

    `environ` is that of a run; without it variables are not looked up, and the case may be undecided.
    """
    yield from parametrize_problems(spec, origin)
    if environ is not None:
        yield from undecided(spec, origin)
    if environ is None and not spec.parametrize and not origin.mentions("${"):
        return
    scopes = _scopes(spec, environ)
    told: set[str] = set()
    for path, text, memory in interpolated(spec):
        if "${" not in text:
            continue
        try:
            for scope in scopes:
                _check_references(path, text, memory, scope)
        except BadReferenceError as error:
            if isinstance(error, SharedProblemError) and error.problem in told:
                continue
            told.add(error.problem)
            within = (text, error.offset)
            message = f"{error.reference}: {error.problem}"
            yield origin.problem(path, message, hint=error.hint, within=within)
    yield from _unused(spec, origin)


def _scopes(spec: TaskSpec, environ: Mapping[str, str] | None) -> list[ReferenceScope]:
    """The values of references in each case, at least one scope. Differing names are reported elsewhere."""
    values = [case.values for case in checked_cases(spec)] or [{}]
    if any(each.keys() != values[0].keys() for each in values):
        values = [dict(chain.from_iterable(each.items() for each in values))]
    return [_scope(spec, environ, each) for each in values]


def _scope(spec: TaskSpec, environ: Mapping[str, str] | None, param: Mapping[str, Any]) -> ReferenceScope:
    made = Generated.for_checks(spec)
    param = _fill_values(param, ReferenceScope(generated=made), last=True)
    early = ReferenceScope(param=param, generated=made)
    inputs, persona = (_fill_values(values, early, last=False) for values in (spec.inputs, spec.persona))
    return ReferenceScope(inputs, persona, environ, param=param, generated=made)


def _fill_values(values: Mapping[str, Any], early: ReferenceScope, last: bool) -> Mapping[str, Any]:
    """The values with references filled in, or unchanged if one is wrong: that one is reported where it stands."""
    try:
        return {key: interpolate(value, early, last=last) for key, value in values.items()}
    except BadReferenceError:
        return values


def _check_references(path: JsonPath, text: str, memory: bool, scope: ReferenceScope) -> None:
    for offset, wanted in references(text):
        if wanted.namespace == "memory" and not memory:
            near = f"`{'`, `'.join(LATE_IN_ROUTES)}` of a route" if path[0] == "routes" else "steps and criteria"
            raise BadReferenceError(str(wanted), f"memory can be used in {near} only", offset=offset)
        if (known := _EARLY.get(str(path[0]))) and wanted.namespace not in known:
            problem = f"`{path[0]}` can refer to {join_or(_WRITTEN[name] for name in known)} only"
            raise BadReferenceError(str(wanted), problem, offset=offset)
        if wanted.namespace == "param" and not scope.param:
            raise BadReferenceError(str(wanted), "the task has no `parametrize`", offset=offset)
        if wanted.namespace == "memory":
            continue
        try:
            _check_value(path, wanted, scope)
        except BadReferenceError as error:
            raise type(error)(error.reference, error.problem, error.hint, offset) from None


def _check_value(path: JsonPath, wanted: Reference, scope: ReferenceScope) -> None:
    """Check that a reference has a value that its place can use. Raises BadReferenceError."""
    is_step = path[0] in ("steps", *HOOKS) or (path[0] in ("repairs", "handlers") and "steps" in path)
    if wanted.namespace == "totp":
        if not is_step and path[0] not in _EARLY:
            raise BadReferenceError(str(wanted), ONLY_STEPS)
        _check_key(wanted, scope.environ)
    elif scope.knows(wanted):
        value = scope.value(wanted)
        free = is_step or path[0] in _EARLY or wanted.namespace not in ("inputs", "persona", "param")
        if not free and next(one_time_names(value), None) is not None:
            raise BadReferenceError(str(wanted), ONLY_STEPS)


def _check_key(wanted: Reference, environ: Mapping[str, str] | None) -> None:
    """Check that a variable has the secret of one-time passwords. Raises BadReferenceError."""
    if environ is None:
        return
    if wanted.name not in environ:
        raise BadReferenceError(str(wanted), "the environment variable is not set", NOT_SET)
    try:
        key_of(environ[wanted.name])
    except ValueError as error:
        hint = "it holds the secret that the site shows beside its QR code"
        raise SharedProblemError(str(wanted), f"`{wanted.name}` has no usable secret: {error}", hint) from None


def _unused(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Yield a warning for each parameter that nothing refers to: its cases do not differ.

    A data file may have columns for other tasks, so one that is used is enough.
    """
    names = next((case.values for case in cases(spec)), {})
    used = {wanted.name for wanted in _references(spec) if wanted.namespace == "param"} if names else set()
    if "parametrize" in origin.parts:
        if names and not used:
            message, hint = f"nothing refers to a column of {origin.file_of('parametrize')}", "its cases do not differ"
            here = Origin(origin.file, origin.main)
            yield here.problem(("parametrize",), message, hint=hint, key=True, severity="warning")
        return
    for name in names:
        if not any(word == name or word.startswith((f"{name}.", f"{name}[")) for word in used):
            path: JsonPath = ("parametrize", name) if isinstance(spec.parametrize, dict) else ("parametrize", 0, name)
            message = f"nothing refers to `${{param.{name}}}`"
            yield origin.problem(path, message, hint="it has no effect", key=True, severity="warning")


def _references(spec: TaskSpec) -> Iterator[Reference]:
    """All references of the task. `reference_problems` reports the malformed ones."""
    for _, text, _ in interpolated(spec):
        if "${" in text:
            with suppress(BadReferenceError):
                yield from [wanted for _, wanted in references(text)]


def environment_names(spec: TaskSpec) -> Iterator[str]:
    """The names of the environment variables that the task refers to."""
    return (wanted.name for wanted in _references(spec) if wanted.namespace in VARIABLES)


def one_time_variables(spec: TaskSpec) -> tuple[str, ...]:
    """The names of the variables that have the secrets of one-time passwords."""
    return tuple(dict.fromkeys(wanted.name for wanted in _references(spec) if wanted.namespace == "totp"))


def secrets_of(names: Iterable[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of these variables, each once; of an `otpauth://` URI also the secret within it."""
    values = [environ[name] for name in names if environ.get(name)]
    return tuple(dict.fromkeys(each for value in values for each in (value, secret_in(value)) if each))


def scope_of(
    spec: TaskSpec, environ: Mapping[str, str], generated: Callable[[Reference], Any] | None = None
) -> ReferenceScope:
    """The scope of references. Inputs and persona may use variables and case values, which may use variables.

    All may use `generated` values, which stay references without it. Raises BadReferenceError.
    """
    values = interpolate(dict(param(spec) or {}), ReferenceScope(environ=environ, generated=generated))
    early = ReferenceScope(environ=environ, param=values, generated=generated)
    inputs, persona = interpolate(spec.inputs, early), interpolate(spec.persona, early)
    return ReferenceScope(inputs, persona, environ, param=values, generated=generated)


def expression_problems(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """Yield problems for criteria that cannot be parsed and for unknown channels and other parts of the task.

    Without `channels` every channel name is accepted.
    """
    found = list(expressions(spec))
    refer = any("${" in text for _, text, _ in found)
    scopes = _scopes(spec, dict.fromkeys(environment_names(spec), "x")) if refer else []
    for path, text, is_value in found:
        try:
            parsed = _parsed(text, is_value, scopes)
        except BadReferenceError:
            continue  # reference_problems reports it
        except CriterionError as error:
            yield unreadable_criterion(path, text, error, origin)
            continue
        if any(each.reads_result for each in parsed) and not _has_answer(path, dict(steps_of(spec))):
            yield _no_answer(path, text, origin)
        named = frozenset(chain.from_iterable(each.channels for each in parsed))
        yield from _unreadable_selectors(path, text, chain.from_iterable(each.selectors for each in parsed), origin)
        yield from _unmatched(path, chain.from_iterable(each.patterns for each in parsed), origin)
        yield from _too_early(path, parsed, origin)
        yield from _unknown_readers(path, text, parsed, spec, origin)
        for name in sorted(named - channels) if channels is not None else ():
            yield unknown_channel(path, name, channels or frozenset(), origin)
    for key, binding in spec.state_bindings.items():
        if channels is not None and binding.channel not in channels:
            yield unknown_channel(("state_bindings", key, "channel"), binding.channel, channels, origin)
    yield from _part_problems(spec, origin)


def _too_early(path: JsonPath, parsed: Iterable[Criterion | ValueExpression], origin: Origin) -> Iterator[Problem]:
    """Yield a problem for a precondition that reads what pages have done: it would say nothing."""
    early = next(filter(None, (each.reads_since_steps for each in parsed)), "")
    if early and path[0] == "preconditions":
        message = f"`{early}(...)` reads what pages have done in the steps, and there is none before them"
        yield origin.problem(path, message, hint="say it in `success_criteria` or in `expr` of an `assert`")


def _unknown_readers(
    path: JsonPath, text: str, parsed: Iterable[Criterion | ValueExpression], spec: TaskSpec, origin: Origin
) -> Iterator[Problem]:
    if any(each.users for each in parsed):
        from harness.spec.users import unknown_readers  # few tasks have users

        yield from unknown_readers(path, text, parsed, spec.users, origin)


def heard(spec: TaskSpec) -> Iterator[str]:
    """What must be kept for the criteria of a task from its start: the names of functions that they may call."""
    return (name for name in ("responses", "messages") if any(f"{name}(" in text for _, text, _ in expressions(spec)))


def _has_answer(path: JsonPath, steps: Mapping[JsonPath, Step]) -> bool:
    """Return whether `result(...)` has an answer to read: in `expect` and `remember` of a `tool` or `api` step."""
    return any(
        isinstance(steps.get(path[:length]), Api | Tool) and path[length] in ("expect", "remember") for length in (2, 4)
    )


def _no_answer(path: JsonPath, text: str, origin: Origin) -> Problem:
    """The problem of a criterion that reads the answer of a step where there is none."""
    message = "`result(...)` reads the answer of a step, and there is none here"
    hint = "use it in `expect` or `remember` of a `tool` or `api` step, and read what was remembered with `mem(...)`"
    return origin.problem(path, message, hint=hint, within=(text, max(0, text.find("result"))))


def _unreadable_selectors(path: JsonPath, text: str, found: Iterable[Selected], origin: Origin) -> Iterator[Problem]:
    """Yield a problem for each selector of a criterion that cannot be read: it would match nothing, and be true so."""
    selected = sorted(set(found), key=str)
    for each, is_frame in [*((s, False) for s, _ in selected), *((f, True) for _, f in selected if f is not None)]:
        within = (text, max(0, text.find(each)))
        if problem := unreadable(each, path, origin, within=within, is_frame=is_frame):
            yield problem


def _unmatched(path: JsonPath, patterns: Iterable[tuple[str, str]], origin: Origin) -> Iterator[Problem]:
    """Yield a problem for each pattern that can match nothing: `.length == 0` would always hold."""
    for function, pattern in sorted(set(patterns)):
        call = f"`{function}({pattern!r})`"
        if "${" in pattern:
            continue
        if function == "console":
            if not may_log(pattern):
                message = f"{call} matches no line: the pattern must match the type and the whole text of the line"
                hint = f"write `* {pattern}` or `*{pattern}*` for any type, `error *` for the errors"
                yield origin.problem(path, message, hint=hint)
            continue
        url = RequestPattern.parse(pattern).url.text
        if not may_match(url, _SOCKETS if function == "messages" else WEB):
            before = "`received`" if function == "messages" else "a method such as `POST`"
            hint = f"{whole_url_hint(url)}, after {before} if only one is meant"
            yield origin.problem(path, f"{call} matches no URL: the pattern must match the whole URL", hint=hint)


_SOCKETS = ("ws://", "wss://")


def _parsed(text: str, is_value: bool, scopes: Sequence[ReferenceScope]) -> list[Criterion | ValueExpression]:
    """The expression as parsed for each case; one if it is the same in all. Only references need `scopes`."""
    texts = [text]
    if "${" in text:
        texts = list(dict.fromkeys(interpolate_criterion(text, scope, last=False) for scope in scopes))
    return [parse_value(each) if is_value else parse(each) for each in texts]


def unreadable_criterion(path: JsonPath, text: str, error: CriterionError, origin: Origin | Place) -> Problem:
    """The problem of an expression, at the wrong character unless interpolation has moved it."""
    certain = error.text == text or error.offset <= text.find("${")
    caret = "\n".join(str(error).splitlines()[1:3])
    message = f"{error.problem}, at character {error.offset + 1}\n{caret}"
    within = (text, min(error.offset, len(text))) if certain else None
    expected = " or ".join(error.expected)
    return origin.problem(path, message, expected=expected, hint=error.hint, within=within)


def unknown_channel(path: JsonPath, name: str, channels: frozenset[str], origin: Origin) -> Problem:
    """The problem of a channel that `[tool.harness.channels]` does not have."""
    expected = join_or(sorted(channels)) if channels else "a channel of [tool.harness.channels]; there is none"
    hint = did_you_mean(name, channels)
    return origin.problem(path, f"unknown channel `{name}`", expected=expected, hint=hint)
