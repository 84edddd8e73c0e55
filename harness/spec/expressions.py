"""The criteria and references in a task: whether they can be read, and what they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from harness.criteria import Criterion, CriterionError, ValueExpression, parse, parse_value
from harness.spec.case_checks import parametrize_problems, undecided
from harness.spec.interpolate import interpolate, interpolate_criterion
from harness.spec.origin import Origin
from harness.spec.parametrize import cases
from harness.spec.part_checks import part_problems
from harness.spec.passages import expressions, interpolated
from harness.spec.problems import Problem, Way, did_you_mean, listed
from harness.spec.references import BadReferenceError, Reference, Scope, references
from harness.spec.task import TaskSpec

_EARLY = {"parametrize": ("env",), "inputs": ("env", "param"), "persona": ("env", "param")}
"""What is filled in first, and what it may refer to."""
_WRITTEN = {"param": "param.x", "env": "env:NAME"}


def reference_problems(spec: TaskSpec, origin: Origin, environ: Mapping[str, str] | None) -> Iterator[Problem]:
    """References that are malformed, or to nothing, and what is wrong with the cases they take values from.

    `environ` is that of a run; without it variables are not looked up, and it may be open which case is meant.
    """
    yield from parametrize_problems(spec, origin)
    if environ is not None:
        yield from undecided(spec, origin)
    if environ is None and not spec.parametrize and not origin.mentions("${"):
        return
    scopes = _scopes(spec, environ)
    for path, text, memory in interpolated(spec):
        if "${" not in text:
            continue
        try:
            for scope in scopes:
                _check_references(path, text, memory, scope)
        except BadReferenceError as error:
            within = (text, error.offset)
            message = f"{error.reference}: {error.problem}"
            yield origin.problem(path, message, hint=error.hint, within=within)
    yield from _unused(spec, origin)


def _scopes(spec: TaskSpec, environ: Mapping[str, str] | None) -> list[Scope]:
    """What references stand for in each case; at least one. Cases that are not alike are told of elsewhere."""
    values = [case.values for case in cases(spec)] or [{}]
    if any(each.keys() != values[0].keys() for each in values):
        values = [dict(chain.from_iterable(each.items() for each in values))]
    return [_scope(spec, environ, each) for each in values]


def _scope(spec: TaskSpec, environ: Mapping[str, str] | None, param: Mapping[str, Any]) -> Scope:
    early = Scope(param=param)
    return Scope(_filled(spec.inputs, early), _filled(spec.persona, early), environ, param=param)


def _filled(values: dict[str, Any], early: Scope) -> dict[str, Any]:
    """The values themselves when a reference in them is wrong: of that one is told where it stands."""
    try:
        return {key: interpolate(value, early, last=False) for key, value in values.items()}
    except BadReferenceError:
        return values


def _check_references(path: Way, text: str, memory: bool, scope: Scope) -> None:
    for offset, wanted in references(text):
        if wanted.namespace == "memory" and not memory:
            raise BadReferenceError(str(wanted), "memory can be used in steps and criteria only", offset=offset)
        if (known := _EARLY.get(str(path[0]))) and wanted.namespace not in known:
            problem = f"`{path[0]}` can refer to {listed(_WRITTEN[name] for name in known)} only"
            raise BadReferenceError(str(wanted), problem, offset=offset)
        if wanted.namespace == "param" and not scope.param:
            raise BadReferenceError(str(wanted), "the task has no `parametrize`", offset=offset)
        if wanted.namespace != "memory" and scope.knows(wanted):
            try:
                scope.value(wanted)
            except BadReferenceError as error:
                raise BadReferenceError(error.reference, error.problem, error.hint, offset) from None


def _unused(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Parameters that nothing refers to: their cases do not differ."""
    names = next((case.values for case in cases(spec)), {})
    used = {wanted.name for wanted in _references(spec) if wanted.namespace == "param"} if names else set()
    for name in names:
        if not any(word == name or word.startswith((f"{name}.", f"{name}[")) for word in used):
            path: Way = ("parametrize", name) if isinstance(spec.parametrize, dict) else ("parametrize", 0, name)
            message = f"nothing refers to `${{param.{name}}}`"
            yield origin.problem(path, message, hint="it has no effect", key=True, severity="warning")


def _references(spec: TaskSpec) -> Iterator[Reference]:
    """Every reference of the task. Of malformed ones `reference_problems` tells."""
    for _, text, _ in interpolated(spec):
        if "${" in text:
            with suppress(BadReferenceError):
                yield from [wanted for _, wanted in references(text)]


def environment_names(spec: TaskSpec) -> Iterator[str]:
    """The variables the task refers to."""
    return (wanted.name for wanted in _references(spec) if wanted.namespace == "env")


def expression_problems(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    """Criteria that cannot be read, channels and other parts of the task that there are not.

    Without `channels` any name of a channel is taken.
    """
    found = list(expressions(spec))
    refer = any("${" in text for _, text, _ in found)
    scopes = _scopes(spec, dict.fromkeys(environment_names(spec), "x")) if refer else []
    for path, text, is_value in found:
        try:
            named = [expression.channels for expression in _parsed(text, is_value, scopes)]
        except BadReferenceError:
            continue  # reference_problems tells of it
        except CriterionError as error:
            yield _unreadable(path, text, error, origin)
            continue
        for name in sorted(frozenset().union(*named) - channels) if channels is not None else ():
            yield unknown_channel(path, name, channels or frozenset(), origin)
    yield from _of_bindings(spec, origin, channels)
    yield from part_problems(spec, origin)


def _parsed(text: str, is_value: bool, scopes: Sequence[Scope]) -> list[Criterion | ValueExpression]:
    """The expression as each case has it; one when no case changes it. Only references need `scopes`."""
    texts = [text]
    if "${" in text:
        texts = list(dict.fromkeys(interpolate_criterion(text, scope, last=False) for scope in scopes))
    return [parse_value(each) if is_value else parse(each) for each in texts]


def _of_bindings(spec: TaskSpec, origin: Origin, channels: frozenset[str] | None) -> Iterator[Problem]:
    for key, binding in spec.state_bindings.items():
        if channels is not None and binding.channel not in channels:
            yield unknown_channel(("state_bindings", key, "channel"), binding.channel, channels, origin)


def _unreadable(path: Way, text: str, error: CriterionError, origin: Origin) -> Problem:
    """Points at the very character, unless interpolation has moved it."""
    certain = error.text == text or error.offset <= text.find("${")
    caret = "\n".join(str(error).splitlines()[1:3])
    message = f"{error.problem}, at character {error.offset + 1}\n{caret}"
    within = (text, min(error.offset, len(text))) if certain else None
    expected = " or ".join(error.expected)
    return origin.problem(path, message, expected=expected, hint=error.hint, within=within)


def unknown_channel(path: Way, name: str, channels: frozenset[str], origin: Origin) -> Problem:
    """An environment channel that `[tool.harness.channels]` does not have."""
    expected = listed(sorted(channels)) if channels else "a channel of [tool.harness.channels]; there is none"
    hint = did_you_mean(name, channels)
    return origin.problem(path, f"unknown channel `{name}`", expected=expected, hint=hint)
