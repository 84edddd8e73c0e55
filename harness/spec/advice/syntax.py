"""Selectors that are surely no CSS. Only what needs no grammar: brackets, quotes, `##`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.spec.advice.terms import declares_failure, steps_of
from harness.spec.element_acts import Drag
from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way
from harness.spec.task import TaskSpec

_OTHER = re.compile(r"""\s*(?:\(*//|\.\.|["']|[\w:*+-]+\s*=)""")
"""How XPath, quoted text and named engines (`text=...`) begin."""
_UNSURE = ("\\", ">>", "/*", "${")
"""Escapes, chains of engines, comments, references: not looked into."""
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_PAIR = re.compile(r"\[[^][()]*\]|\([^][()]*\)")


def syntax_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Of what steps look for, and of fallbacks."""
    if declares_failure(spec):
        return
    for path, selector in _selectors(spec):
        if wrong := flaw(selector):
            hint = "mend the CSS selector: a step that uses it fails with INVALID_INPUT"
            yield origin.problem(path, f"not a selector: {wrong}", hint=hint, severity="warning")


def _selectors(spec: TaskSpec) -> Iterator[tuple[Way, str]]:
    for path, step in steps_of(spec):
        found = {"selector": step.target, "frame": getattr(step, "frame", None)}
        if isinstance(step, Drag):
            found["value"] = step.value
        yield from (((*path, name), selector) for name, selector in found.items() if selector)
    fallbacks = getattr(spec.error_recovery.on_element_not_found, "fallback_selectors", {})
    for key, others in fallbacks.items():
        place: Way = ("error_recovery", "on_element_not_found", "fallback_selectors", key)
        yield from (((*place, number), selector) for number, selector in enumerate(others))


def flaw(selector: str) -> str:
    """What is wrong with a CSS selector; empty when nothing is, as far as can be told."""
    if _OTHER.match(selector) or any(mark in selector for mark in _UNSURE):
        return ""
    bare = _QUOTED.sub("q", selector)
    if quote := next((mark for mark in bare if mark in "'\""), ""):
        return f"the quote {quote} is never closed"
    if "##" in bare:
        return "`##`"
    while _PAIR.search(bare):
        bare = _PAIR.sub("p", bare)
    bracket = next((mark for mark in bare if mark in "[]()"), "")
    return f"`{bracket}` has no counterpart" if bracket else ""
