"""Recorded assertions as criteria."""

from __future__ import annotations

import re

from harness.spec.recorded.actions import Action
from harness.spec.recorded.locators import Target, UnwritableError

_ESCAPED = re.compile(r"\\(?=[nrtu\\'\"]|$)")
_STATES = {
    "assertChecked": (':is(:checked, [aria-checked="true"])', ':not(:checked, [aria-checked="true"])'),
    "assertEnabled": (':not(:disabled, [aria-disabled="true"])', ':is(:disabled, [aria-disabled="true"])'),
    "assertFocused": (":focus", ":not(:focus)"),
}
"""Assertion -> the condition in CSS for it, and for its opposite."""


def criterion_of(action: Action) -> str:
    """The criterion that says what an assertion says. Raises UnwritableError."""
    said = _said(action)
    return f"WITHIN({action.timeout:g}, {said})" if action.timeout else said


def _said(action: Action) -> str:
    if action.name in ("assertUrl", "assertTitle"):
        read = "url()" if action.name == "assertUrl" else "title()"
        return _compared(read, action, action.text)
    return _of_element(action, action.target)


def _of_element(action: Action, target: Target) -> str:
    match action.name:
        case "assertText":
            return _of_text(action, "text", target)
        case "assertValue":
            return _of_text(action, "value", target)
        case "assertAttribute":
            return _compared(_read("attr", target, action.text), action, action.values[0])
        case "assertVisible" | "assertExists":
            read = _read("visible" if action.name == "assertVisible" else "exists", target)
            return f"NOT[{read}]" if action.negated else read
        case "assertCount":
            return f"{_read('count', target)} {'!=' if action.negated else '=='} {action.text}"
        case "assertChecked" | "assertEnabled" | "assertFocused":
            return _read("exists", Target(target.inside(_STATES[action.name][action.negated]), target.frame))
    raise UnwritableError("no criterion says this")


def _read(function: str, target: Target, *names: str) -> str:
    """A call that reads the element, in its frame."""
    frame = "" if target.frame is None else f", frame={literal(target.frame)}"
    return f"{function}({', '.join(map(literal, (target.selector, *names)))}{frame})"


def _of_text(action: Action, function: str, target: Target) -> str:
    said = _compared(_read(function, target), action, action.text)
    return f"ALL[{_read('exists', target)}, {said}]" if said.startswith("NOT[") else said


def _compared(read: str, action: Action, text: str) -> str:
    """A comparison. A missing value satisfies neither `==` nor `!=`."""
    if action.exact and not action.pattern:
        return f"{read} {'!=' if action.negated else '=='} {literal(text)}"
    said = f"{read} {'matches' if action.pattern else 'includes'} {literal(text)}"
    return f"NOT[{said}]" if action.negated else said


def literal(text: str) -> str:
    """A text as the assertion language writes it."""
    quote = '"' if "'" in text and '"' not in text else "'"
    escaped = _ESCAPED.sub(r"\\\\", text).replace(quote, f"\\{quote}").replace("\n", "\\n")
    return f"{quote}{escaped}{quote}"
