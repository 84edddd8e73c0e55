"""Playwright's locators as selectors of a task: those forms that people read, with the same meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from msgspec import Struct

from harness.recovery.locators import quoted, role_text, test_id_body, text_body
from harness.spec.selectors import readable_selector

_FRAME = " >> internal:control=enter-frame >> "
"""Separates a frame from the elements in it, in Playwright's own selectors."""
_INSIDE = " >>> "
"""Separates nested frames, in the `frame` of a task."""

Kind = Literal[
    "css", "role", "text", "label", "placeholder", "alt", "title", "test-id", "has-text", "has-not-text", "nth",
    "visible", "frame", "has", "has-not", "and", "or",
]  # fmt: skip


class UnwritableError(ValueError):
    """A locator, or something else, that a task cannot say; the message says why."""


class LocatorPart(Struct, frozen=True):
    """One part of a locator: how it finds elements inside those of the part before it."""

    kind: Kind
    body: str = ""
    """The text, the CSS, the role, the position; for a pattern, `/pattern/flags`."""
    exact: bool = False
    """Whether a text is compared as a whole and by case."""
    pattern: bool = False
    """Whether the text, or the name of a role, is a regular expression."""
    name: str | None = None
    """The accessible name that goes with a role."""
    states: tuple[tuple[str, str], ...] = ()
    """More conditions of a role, such as `level` and `3`."""


class Target(Struct, frozen=True):
    """An element as a task names it."""

    selector: str
    frame: str | None = None

    def inside(self, condition: str) -> str:
        """The selector of the same element if it fulfils a condition, in CSS."""
        return f"{self.selector} >> :scope{condition}"


Locator = tuple[LocatorPart, ...]


def target_of(locator: Sequence[LocatorPart]) -> Target:
    """The element of a locator. Raises UnwritableError."""
    frames, inner = [], list[LocatorPart]()
    for part in locator:
        if part.kind == "frame":
            frames.append(_selector(inner))
            inner = []
        else:
            inner.append(part)
    return Target(_selector(inner), _INSIDE.join(frames) or None)


def raw_target(selector: str) -> Target:
    """The element of one of Playwright's own selectors, in the readable form as far as there is one."""
    *frames, inner = map(readable_selector, selector.split(_FRAME))
    return Target(inner, _INSIDE.join(frames) or None)


def _selector(parts: Sequence[LocatorPart]) -> str:
    if not parts:
        raise UnwritableError("it names a page or a frame, and no element in it")
    written: list[str] = []
    for before, part in zip((None, *parts), parts, strict=False):
        plain = before is not None and before.kind == "css" and _SIMPLE_CSS.fullmatch(before.body)
        if part.kind == "has-text" and not part.pattern and plain:
            written[-1] += f":has-text({quoted(part.body)})"
        else:
            written.append(_FORMS[part.kind](part))
    return " >> ".join(written)


_SIMPLE_CSS = re.compile(r"[\w.#-]+(?:\[[\w='\"-]+\])?")
"""CSS to which a condition can be appended: no list of selectors, and no other engine."""


def _role(part: LocatorPart) -> str:
    return role_text(part.body, part.name, exact=part.exact, pattern=part.pattern) + "".join(
        f"[{state}={value}]" for state, value in part.states
    )


def _test_id(part: LocatorPart) -> str:
    return f"testid={part.body if part.pattern else test_id_body(part.body)}"


def _text(part: LocatorPart) -> str:
    return f"{part.kind}={part.body if part.pattern else text_body(part.body, exact=part.exact)}"


_FORMS: Mapping[str, Callable[[LocatorPart], str]] = {
    **dict.fromkeys(("text", "label", "placeholder", "alt", "title", "has-text", "has-not-text"), _text),
    **dict.fromkeys(("has", "has-not", "and", "or"), lambda part: f"{part.kind}={quoted(part.body)}"),
    "css": lambda part: part.body,
    "role": _role,
    "test-id": _test_id,
    "nth": lambda part: f"nth={part.body}",
    "visible": lambda part: f"visible={part.body or 'true'}",
}


# The locators that Playwright's recorder describes as JSON.

_TEXTS = frozenset({
    "text", "label", "placeholder", "alt", "title", "test-id", "has-text", "has-not-text",
})  # fmt: skip
"""The recorder's kinds that are about a text, with the same names here."""


def recorded_locator(described: Mapping[str, Any], aria: str = "", ref: str = "") -> Locator:
    """The locator that the recorder describes (`{kind, body, options, next}`).

    `aria` is the page's ARIA snapshot and `ref` the element's mark in it: they tell whether a name is the whole name of
    the element. Raises UnwritableError.
    """
    parts = tuple(_described(described))
    last, whole = parts[-1], _in_snapshot(aria, ref)
    if whole is None:
        return parts
    if last.kind == "role" and last.name == whole.name:
        return (*parts[:-1], LocatorPart("role", last.body, exact=True, name=last.name, states=last.states))
    if last.kind == "label" and whole.alone and all(part.kind == "frame" for part in parts[-2:-1]):
        return (*parts[:-1], LocatorPart("role", whole.role, exact=True, name=whole.name))
    return parts


def _described(each: Mapping[str, Any] | None) -> Iterator[LocatorPart]:
    while each is not None:
        yield from _one(each["kind"], each.get("body", ""), each.get("options") or {})
        each = each.get("next")


def _one(kind: str, body: Any, options: Mapping[str, Any]) -> Iterator[LocatorPart]:
    if not isinstance(body, str) or not isinstance(options.get("name", ""), str):
        raise UnwritableError("a regular expression of the recorder")
    exact = bool(options.get("exact"))
    if kind in _TEXTS:
        yield LocatorPart(cast("Kind", kind), body, exact=exact)
    elif kind == "role":
        states = tuple(
            ("include-hidden" if each["name"] == "includeHidden" else each["name"], _written(each["value"]))
            for each in options.get("attrs", ())
        )
        yield LocatorPart("role", body, exact=exact, name=options.get("name"), states=states)
    elif kind in _PLACES:
        yield from _PLACES[kind](body)
    else:
        raise UnwritableError(f"the recorder's locator `{kind}`")
    conditions: tuple[tuple[str, Kind], ...] = (("hasText", "has-text"), ("hasNotText", "has-not-text"))
    yield from (LocatorPart(each, options[option]) for option, each in conditions if option in options)


_PLACES: Mapping[str, Callable[[str], tuple[LocatorPart, ...]]] = {
    "default": lambda body: (LocatorPart("css", body),),
    "first": lambda _: (LocatorPart("nth", "0"),),
    "last": lambda _: (LocatorPart("nth", "-1"),),
    "nth": lambda body: (LocatorPart("nth", body),),
    "visible": lambda _: (LocatorPart("visible", "true"),),
    "filter-visible": lambda body: (LocatorPart("visible", body),),
    "frame": lambda _: (LocatorPart("frame"),),
    "frame-locator": lambda body: (LocatorPart("css", body), LocatorPart("frame")),
}


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_NAMED = re.compile(r'-\s+\'?([a-z]+) ("(?:[^"\\]|\\.)*")')


class _Named(Struct, frozen=True):
    """An element of an ARIA snapshot."""

    role: str
    name: str
    alone: bool
    """Whether no other element of the snapshot has this role and name."""


def _in_snapshot(aria: str, ref: str) -> _Named | None:
    """The element with this mark; None if it has no name, or is not there."""
    lines = [line.strip() for line in aria.splitlines()]
    line = next((line for line in lines if ref and f"[ref={ref}]" in line), "")
    found = _NAMED.match(line)
    if found is None:
        return None
    quotes = found[2].replace("''", "'") if line.startswith("- '") else found[2]
    same = sum(1 for each in lines if (other := _NAMED.match(each)) and other.groups() == found.groups())
    try:
        return _Named(found[1], str(json.loads(quotes)), same == 1)
    except ValueError:
        return None
