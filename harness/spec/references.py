"""`${inputs.x}`, `${persona.x}`, `${param.x}`, `${env:NAME}`, `${memory.a.b}`: what they may be and what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.criteria import memory_lookup
from harness.spec.problems import did_you_mean

REFERENCE = re.compile(r"\$\$\{|\$\{([^{}]*)(\}?)")
_PART = re.compile(r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|\$\{[^{}]*\}""", re.DOTALL)
_BACKSLASH = re.compile(r"\\(?:(\$)|.)", re.DOTALL)
_DOLLAR = "${$}"  # stands between two rounds of interpolation for a `$` that begins no reference
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_DOTTED = re.compile(r"(inputs|persona|param|memory)\.(\S(?:.*\S)?)", re.DOTALL)
NAMESPACES = ("inputs.", "persona.", "param.", "memory.", "env:")


NOT_SET = "set it where the command runs; what a conftest.py sets is known to pytest alone"
"""Of a `${env:NAME}`: `harness verify`, `replay` and `chaos` run tasks, too, and read no conftest.py."""


class BadReferenceError(ValueError):
    """A reference that cannot be resolved; `offset` is its place in the text."""

    def __init__(self, reference: str, problem: str, hint: str = "", offset: int = 0) -> None:
        super().__init__(reference, problem, hint, offset)
        self.reference = reference
        self.problem = problem
        self.hint = hint
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.reference}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class MissingMemory(LookupError):  # noqa: N818 - it names what is missing
    """A memory entry that a step needs and nobody wrote."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${...}`."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"${{{self.namespace}{':' if self.namespace == 'env' else '.'}{self.name}}}"


def reference(body: str, offset: int = 0) -> Reference:
    """What stands between the braces. Raises BadReferenceError."""
    if found := _ENV.fullmatch(body):
        return Reference("env", found[1])
    if found := _DOTTED.fullmatch(body):
        return Reference(found[1], found[2])
    shown = f"${{{body[:60]}}}"
    hint = did_you_mean(body.partition(".")[0] + ".", NAMESPACES) or "write `$${` for a literal `${`"
    known = "inputs.x, persona.x, param.x, memory.x or env:NAME"
    raise BadReferenceError(shown, f"not a known reference: {known}", hint, offset)


def references(text: str) -> Iterator[tuple[int, Reference]]:
    """Every reference in a text, with its offset. Raises BadReferenceError at the first that is malformed."""
    for match in REFERENCE.finditer(text):
        if match[1] is None:
            continue
        if not match[2]:
            hint = "write `$${` for a literal `${`"
            raise BadReferenceError(match[0][:60], "the reference has no closing brace", hint, match.start())
        yield match.start(), reference(match[1], match.start())


@dataclass(frozen=True, slots=True)
class Scope:
    """What references stand for. A namespace that is None is left in place: its time is later."""

    inputs: Mapping[str, Any] | None = None
    persona: Mapping[str, Any] | None = None
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    memory: Mapping[str, Any] | None = None
    param: Mapping[str, Any] | None = None

    def knows(self, wanted: Reference) -> bool:
        """Whether this is the time for the reference."""
        return self._entries(wanted.namespace) is not None

    def value(self, wanted: Reference) -> Any:
        """Raises BadReferenceError, and MissingMemory for a memory entry."""
        entries = self._entries(wanted.namespace) or {}
        if wanted.namespace == "env":
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
        match namespace:
            case "inputs":
                return self.inputs
            case "persona":
                return self.persona
            case "param":
                return self.param
            case "env":
                return self.environ
            case _:
                return self.memory


def as_text(value: Any) -> str:
    """A value in the middle of a text: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def escaped(value: Any) -> Any:
    """A value that a later round of interpolation leaves as it is."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [escaped(item) for item in value]
    if isinstance(value, dict):
        return {key: escaped(item) for key, item in value.items()}
    return value


def fill(text: str, scope: Scope, last: bool) -> Any:
    """A text with its references resolved; one that is nothing but a reference becomes the value itself.

    Until the `last` round `$${` stays, and what comes out of a value is escaped: nothing is interpolated twice.
    """
    whole = REFERENCE.fullmatch(text)
    if whole and text != _DOLLAR and whole[1] is not None and whole[2] and scope.knows(wanted := reference(whole[1])):
        value = scope.value(wanted)
        return value if last else escaped(value)
    return _each(text, scope, last, as_text)


def fill_criterion(text: str, scope: Scope, last: bool) -> str:
    """A criterion with its references resolved, as literals: a quote in a value never ends a literal.

    Outside of quotes a memory reference becomes `mem(...)`.
    """

    def part(match: re.Match[str]) -> str:
        piece = match[0]
        if piece[0] != "$":
            piece = _BACKSLASH.sub(lambda found: r"\\$" if found[1] else found[0], piece)  # else it escapes the value
            return _each(piece, scope, last, lambda value: _quoted(as_text(value), piece[0]))
        wanted = reference(piece[2:-1])
        if wanted.namespace == "memory":
            return f"mem({_literal(wanted.name)})"
        if not scope.knows(wanted):
            return piece
        value = scope.value(wanted)
        return _literal(value if last else escaped(value))

    return _PART.sub(part, text)


def _each(text: str, scope: Scope, last: bool, written: Callable[[Any], str]) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1] is None:
            return "${" if last else match[0]
        if match[0] == _DOLLAR:
            return "$" if last else match[0]
        if not match[2] or not scope.knows(wanted := reference(match[1])):
            return match[0]
        value = written(scope.value(wanted))
        return value if last else _kept(value, text[match.end() : match.end() + 1])

    return REFERENCE.sub(one, text)


def _kept(value: str, after: str) -> str:
    """A value that a later round leaves as it is, although a `{` or a reference may stand directly after it."""
    value = escaped(value)
    body = value.rstrip("$") if after in ("{", "$") else value
    return body + _DOLLAR * (len(value) - len(body))


def _literal(value: Any) -> str:
    """A value as the assertion language writes it."""
    if isinstance(value, str):
        return "'" + _quoted(value, "'") + "'"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def _quoted(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)
