"""References such as `${inputs.x}`, `${param.x}`, `${env:NAME}` and `${memory.a.b}`: their syntax and their values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import Struct
from pydantic import BaseModel, ValidationError

from harness.criteria import memory_lookup
from harness.masking import secrets_of
from harness.spec.problems import BadReferenceError, did_you_mean
from harness.spec.readers import MAX_BYTES
from harness.spec.steps import Step
from harness.values import map_texts, texts_of

# Removes the values of `${env:...}` from messages about a task.

Hide = Callable[[str], str]


def hiding(secrets: Iterable[str]) -> Hide:
    """Return a function that hides secrets in every spelling. Shorten only its result."""
    return secrets_of(frozenset(secrets)).mask


# Interpolation of values, criteria and steps; `${memory...}` waits until the step runs.

CRITERIA_OF_STEPS = ("expr", "done_when", "remember", "expect", "when", "guards", "until")
"""Fields of steps that contain criteria or value expressions."""

DATA_OF_STEPS = ("value", "arguments")
"""Fields of steps that take values of any type: a reference alone takes the type of what it refers to."""

ModelT = TypeVar("ModelT", bound=BaseModel)


def interpolate(value: Any, scope: ReferenceScope, *, last: bool = True) -> Any:
    """Resolve the references in the texts of a JSON value. Raises BadReferenceError, MissingMemory."""
    return map_texts(value, lambda text: fill(text, scope, last) if "${" in text else text)


def interpolate_criterion(text: str, scope: ReferenceScope, *, last: bool = True) -> str:
    """Resolve the references in a criterion, as literals. Raises BadReferenceError, MissingMemory."""
    return _fill_criterion(text, scope, last) if "${" in text else text


def interpolate_step(step: ModelT, scope: ReferenceScope, *, last: bool = False) -> ModelT:
    """Resolve the references in a step (or fault). Raises BadReferenceError, MissingMemory.

    Only `value` and `arguments` take the type of the value referred to; the other fields are texts.
    """
    fields = {name: value for name, value in step if holds_reference(value)}
    if not fields:
        return step
    changed = {name: _field(name, value, scope, last) for name, value in fields.items()}
    return _rebuild_step(step, changed)


def resolve(step: Step, memory: Callable[[], Mapping[str, Any]], one_time: Mapping[str, str] | None = None) -> Step:
    """Resolve `${memory...}` in a step with the present memory, which is read only if the step needs it.

    `one_time` has the one-time passwords by the names of their variables; without it they stay references. Raises
    MissingMemory for an absent entry, and Failed for a value that the step cannot use.
    """
    if not holds_reference(step):
        return step
    from harness.recovery.failure import Failed, Failure  # only a run resolves memory: no file needs failures

    entries = memory()
    if FilledLength({"memory": entries}).within(step) > MOST_FILLED:
        message = f"the memory entries in the step have more than {MOST_FILLED:,} characters together"
        raise Failed(Failure("INVALID_INPUT", message))
    try:
        return interpolate_step(step, ReferenceScope(memory=entries, one_time=one_time), last=True)
    except BadReferenceError as error:
        raise Failed(Failure("INVALID_INPUT", str(error))) from None


def holds_reference(value: Any) -> bool:
    """Return whether a JSON value or a model contains a `${...}`."""
    return any("${" in text for text in texts_of(value))


def one_time_names(value: Any) -> Iterator[str]:
    """The variables of the one-time passwords in a JSON value or a model."""
    found = (match for text in texts_of(value) for match in _REFERENCE.finditer(text) if match[1] and match[2])
    yield from (wanted[1] for match in found if (wanted := _TOTP.fullmatch(match[1])))


def _field(name: str, value: Any, scope: ReferenceScope, last: bool) -> Any:
    if isinstance(value, BaseModel):
        changed = {key: interpolate(item, scope, last=last) for key, item in value if holds_reference(item)}
        texts = {key: as_text(new) if isinstance(getattr(value, key), str) else new for key, new in changed.items()}
        return value.model_copy(update=texts)
    if name in DATA_OF_STEPS:
        return interpolate(value, scope, last=last)
    if isinstance(value, dict):
        return {key: _field(name, item, scope, last) for key, item in value.items()}
    if name in CRITERIA_OF_STEPS:
        return interpolate_criterion(value, scope, last=last)
    return as_text(interpolate(value, scope, last=last)) if isinstance(value, str) else value


def _rebuild_step(step: ModelT, changed: dict[str, Any]) -> ModelT:
    fields = {name: getattr(step, name) for name in step.model_fields_set} | changed
    try:
        return type(step).model_validate(fields, strict=True)
    except ValidationError:
        pass
    try:  # a `value` of another type may be used as a text: `type` reads `true` so
        return type(step).model_validate(fields | {name: _texts(value) for name, value in changed.items()}, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "value"
        problem = f"gives a `{name}` that cannot be used: {first['msg']}"
        raise BadReferenceError(str(getattr(step, name, "")), problem) from None


def _texts(value: Any) -> Any:
    if isinstance(value, list):
        return [as_text(item) for item in value]
    return as_text(value) if not isinstance(value, dict) else value


__all__ = [
    "CRITERIA_OF_STEPS", "DATA_OF_STEPS", "BadReferenceError", "MissingMemory", "ReferenceScope",
    "SharedProblemError", "holds_reference", "interpolate", "interpolate_criterion", "interpolate_step",
    "one_time_names", "resolve",
]  # fmt: skip

_REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_PART = re.compile(r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\$\{[^{}]*\}""", re.DOTALL)
_BACKSLASH = re.compile(r"\\(?:(\$)|.)", re.DOTALL)
_DOLLAR = "${$}"  # stands for a `$` that begins no reference, between two rounds of interpolation
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_TOTP = re.compile(r"totp:([A-Za-z_][A-Za-z0-9_]*)")
_NOW = re.compile(r"now(?![\w.:]).*", re.DOTALL)
_FAKE = re.compile(r"fake\.([a-z][a-z0-9_]*)(?:#([1-9][0-9]{0,3}))?")
_DOTTED = re.compile(r"(inputs|persona|param|memory)\.(\S(?:.*\S)?)", re.DOTALL)
_NAMESPACES = ("inputs.", "persona.", "param.", "memory.", "env:", "fake.", "now", "totp:")
_LONGEST = 1000
"""The largest number of characters between the braces of a reference."""
_BETWEEN = {"env": ":", "totp": ":", "now": ""}
"""What stands between a namespace and the name, where it is not a dot."""


NOT_SET = "set it where the command runs; only pytest reads what a conftest.py sets"
"""The hint for a `${env:NAME}` that is not set: `harness verify`, `replay` and `chaos` read no conftest.py."""


class SharedProblemError(BadReferenceError):
    """A problem of the machine and not of one place in the file: it is reported once."""


ONLY_STEPS = (
    "a one-time password is made when a step runs: only `steps` can use it, also by way of `inputs` and `param`"
)


class Deferred(str):
    """A text with one-time passwords, which a later round makes: they stay references when it is inserted."""

    __slots__ = ()


class MissingMemory(LookupError):  # noqa: N818 - it names what is missing
    """A memory entry that a step needs and that does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Reference(Struct, frozen=True):
    """One parsed `${...}`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"${{{self.namespace}{_BETWEEN.get(self.namespace, '.')}{self.name}}}"


def reference(body: str, offset: int = 0) -> Reference:
    """Parse the text between the braces. Raises BadReferenceError."""
    if len(body) > _LONGEST:
        raise BadReferenceError(f"${{{body[:60]}...", f"a reference has at most {_LONGEST:,} characters", offset=offset)
    if found := _ENV.fullmatch(body):
        return Reference("env", found[1])
    if found := _DOTTED.fullmatch(body):
        return Reference(found[1], found[2])
    if found := _TOTP.fullmatch(body):
        return Reference("totp", found[1])
    if found := _FAKE.fullmatch(body):
        return Reference("fake", found[1] if found[2] in (None, "1") else f"{found[1]}#{found[2]}")
    if _NOW.fullmatch(body):
        return _now(body, offset)
    raise _unknown_reference(body, offset)


def _now(body: str, offset: int) -> Reference:
    """A reference to a moment. Raises BadReferenceError."""
    from harness.spec.moments import NAME, moment  # few tasks have moments

    moment(body, offset)
    return Reference(NAME, body.removeprefix(NAME))


def _unknown_reference(body: str, offset: int) -> BadReferenceError:
    shown = f"${{{body[:60]}}}"
    if body.startswith("fake."):
        problem = "not a name of Faker's, such as fake.email; fake.email#2 is a second value"
        last = re.sub(r"\W+", "_", body.rpartition(".")[2]).strip("_").lower()
        return BadReferenceError(shown, problem, f"such as `${{fake.{last}}}`" if last else "", offset)
    hint = did_you_mean(body.partition(".")[0] + ".", _NAMESPACES) or "write `$${` for a literal `${`"
    known = "inputs.x, persona.x, param.x, memory.x, fake.x, env:NAME, totp:NAME or now"
    return BadReferenceError(shown, f"not a known reference: {known}", hint, offset)


def references(text: str) -> Iterator[tuple[int, Reference]]:
    """All references in a text, with their offsets. Raises BadReferenceError at the first malformed one."""
    for match in _REFERENCE.finditer(text):
        if match[1] is None:
            continue
        if not match[2]:
            hint = "write `$${` for a literal `${`"
            raise BadReferenceError(match[0][:60], "the reference has no closing brace", hint, match.start())
        yield match.start(), reference(match[1], match.start())


@dataclass(frozen=True, slots=True)
class ReferenceScope:
    """The values of references. A namespace that is None is left in place and resolved later."""

    inputs: Mapping[str, Any] | None = None
    persona: Mapping[str, Any] | None = None
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    memory: Mapping[str, Any] | None = None
    param: Mapping[str, Any] | None = None
    generated: Callable[[Reference], Any] | None = None
    """The values of `${fake.x}` and `${now}`."""
    one_time: Mapping[str, str] | None = field(default=None, repr=False)
    """The one-time passwords of this moment, by the names of their variables."""

    def knows(self, wanted: Reference) -> bool:
        """Return whether the reference is resolved in this round."""
        if wanted.namespace in MADE:
            return self.generated is not None
        return self._entries(wanted.namespace) is not None

    def value(self, wanted: Reference) -> Any:
        """The value of a reference. Raises BadReferenceError, and MissingMemory for a memory entry."""
        if wanted.namespace in MADE and self.generated is not None:
            return self.generated(wanted)
        entries = self._entries(wanted.namespace) or {}
        if wanted.namespace in VARIABLES:
            if wanted.name not in entries:
                raise BadReferenceError(str(wanted), "the environment variable is not set", NOT_SET)
            return entries[wanted.name]
        matches = memory_lookup(entries, wanted.name)
        if matches:
            return matches[0]
        if wanted.namespace == "memory":
            raise MissingMemory(wanted.name)
        hint = did_you_mean(wanted.name, entries)
        raise BadReferenceError(str(wanted), f"`{wanted.namespace}` has no `{wanted.name}`", hint)

    def _entries(self, namespace: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = getattr(self, _FIELDS.get(namespace, namespace))
        return found


_FIELDS = {"env": "environ", "totp": "one_time"}
"""Namespace -> the field with its values, where that has another name."""
MADE = ("fake", "now")
"""Namespaces whose values the task makes itself, before its first step."""
VARIABLES = ("env", "totp")
"""Namespaces whose names are those of environment variables; the values are secrets."""


def as_text(value: Any) -> str:
    """A value inside a text: texts unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def escape_references(value: Any) -> Any:
    """A value escaped so that a later round of interpolation leaves it unchanged."""
    return map_texts(value, lambda text: str(text) if isinstance(text, Deferred) else text.replace("${", "$${"))


def fill(text: str, scope: ReferenceScope, last: bool) -> Any:
    """Resolve the references in a text; a text that is only a reference becomes the value itself.

    Before the `last` round `$${` stays, and inserted values are escaped: nothing is interpolated twice. For a text with
    one-time passwords no round but that of its step is the last.
    """
    if last and _is_deferred(text, scope):
        return Deferred(as_text(fill(text, scope, last=False)))
    whole = _REFERENCE.fullmatch(text)
    if whole and text != _DOLLAR and whole[1] is not None and whole[2] and scope.knows(wanted := reference(whole[1])):
        value = scope.value(wanted)
        return value if last else escape_references(value)
    return _fill_each(text, scope, last, as_text)


def _is_deferred(text: str, scope: ReferenceScope) -> bool:
    """Return whether a text has one-time passwords, itself or in an inserted value, that this round does not make."""
    if scope.one_time is not None or scope.memory is not None:
        return False
    if next(one_time_names(text), None) is not None:
        return True
    bodies = (match[1] for match in _REFERENCE.finditer(text) if match[1] and match[1] != "$" and match[2])
    found = (reference(body) for body in bodies if not body.startswith(("env:", "fake.", "now")))
    return any(isinstance(scope.value(wanted), Deferred) for wanted in found if scope.knows(wanted))


def _fill_criterion(text: str, scope: ReferenceScope, last: bool) -> str:
    """Resolve the references in a criterion, as literals: a quote in a value never ends a literal.

    Outside of quotes a memory reference becomes `mem(...)`, and a one-time password a literal that is filled in later.
    """

    def part(match: re.Match[str]) -> str:
        piece = match[0]
        if piece[0] != "$":
            piece = _BACKSLASH.sub(lambda found: r"\\$" if found[1] else found[0], piece)  # it would escape the value
            return _fill_each(piece, scope, last, lambda value: quoted(as_text(value), piece[0]))
        wanted = reference(piece[2:-1])
        if wanted.namespace == "memory":
            return f"mem({_literal(wanted.name)})"
        if not scope.knows(wanted):
            return f"'{piece}'" if wanted.namespace == "totp" else piece
        value = scope.value(wanted)
        return _literal(value if last else escape_references(value))

    return _PART.sub(part, text)


def _fill_each(text: str, scope: ReferenceScope, last: bool, written: Callable[[Any], str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "${" if last else match[0]
        if match[0] == _DOLLAR:
            return "$" if last else match[0]
        if not match[2] or not scope.knows(wanted := reference(match[1])):
            return match[0]
        found = scope.value(wanted)
        value = Deferred(written(found)) if isinstance(found, Deferred) else written(found)
        return value if last else _escape_for_later(value, text[match.end() : match.end() + 1])

    return _REFERENCE.sub(one, text)


def _escape_for_later(value: str, after: str) -> str:
    """A value escaped for a later round, also if a `{` or a reference follows directly after it."""
    value = escape_references(value)
    body = value.rstrip("$") if after in ("{", "$") else value
    return body + _DOLLAR * (len(value) - len(body))


def _literal(value: Any) -> str:
    """A value as the assertion language writes it."""
    if isinstance(value, str):
        return "'" + quoted(value, "'") + "'"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def quoted(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)


# The length of what is filled in. A short text can refer to a long value many times.

MOST_FILLED = 8 * MAX_BYTES
"""Characters that the references of a task, or of a step that runs, may fill in."""


class FilledLength:
    """How long the values of references are, without filling them in."""

    def __init__(self, values: Mapping[str, Mapping[str, Any]]) -> None:
        """`values`: namespace -> its entries, which may refer to other namespaces."""
        self._values = values
        self._known: dict[Reference, int] = {}

    def within(self, value: Any) -> int:
        """The length of all that is filled in within a JSON value or a model."""
        return sum(self._of_text(text) for text in texts_of(value) if "${" in text)

    def _of_text(self, text: str) -> int:
        try:
            return sum(self._of_reference(wanted) for _, wanted in references(text))
        except BadReferenceError:
            return 0  # it is reported where it stands

    def _of_reference(self, wanted: Reference) -> int:
        if wanted not in self._known:
            self._known[wanted] = 0  # a value that refers to itself is reported where it stands
            found = memory_lookup(self._values.get(wanted.namespace, {}), wanted.name)[:1]
            self._known[wanted] = sum(length_of(value) + self.within(value) for value in found)
        return self._known[wanted]


def length_of(value: Any) -> int:
    """About as many characters as a JSON value has when it is written out."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return 2 + sum(len(key) + length_of(item) for key, item in value.items())
    return 2 + sum(map(length_of, value)) if isinstance(value, list | tuple) else 1


def depth_of(value: Any) -> int:
    """The number of lists and mappings around the innermost value."""
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list | tuple) else 0
