"""Locators as programs have them (`page.getByRole("button", { name: "Save" })`), typed where a task has a selector."""

from __future__ import annotations

import ast
import json
import re

from harness.spec.imported.project import place_of
from harness.spec.imported.values import PlaceInTest
from harness.spec.recorded.locators import LocatorPart, UnwritableError, target_of
from harness.spec.selectors import SelectorError, check_selector
from harness.values import replace

_CALL = re.compile(
    r"(?<![\w$])(?:locator|frame_?[lL]ocator|get_?[bB]y_?[A-Z_a-z]+|cy\.get|\$\$?|(?:document\.)?querySelector(?:All)?)\("
)
_OF_BROWSER = re.compile(r"^(?:cy\.get|\$\$?|(?:document\.)?querySelector(?:All)?)(?=\()")
_PROPERTIES = re.compile(r"\.(first|last|content_frame)\(\)")
_TEXT = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`[^`]*`"
_PIECE = re.compile(
    rf"(?P<text>{_TEXT})|(?<=[(:,=])\s*/(?P<pattern>(?:\\.|[^/\\\n])+)/(?P<flags>[a-z]*)"
    r"|(?P<brace>\{\s*|\s*\})|(?P<key>\b[A-Za-z_]+)\s*:|(?P<word>[A-Za-z_]+)"
)
_CONSTANTS = {"true": "True", "false": "False", "null": "None", "undefined": "None"}
_GENERAL = 'a selector is a text, as in `role=button[name="Save"]`, `label=Email`, `text=Save` or CSS'


def written_for(text: str) -> str:
    """A hint with what a task has for a locator of JavaScript or Python; empty for a text that is none."""
    start = _CALL.search(text)
    if start is None:
        return ""
    call = _OF_BROWSER.sub("locator", text[start.start() :].strip().rstrip(";"))
    try:
        target = target_of(tuple(map(_readable, _locator(_as_python(call)))))
        check_selector(target.selector)
    except (SyntaxError, ValueError, UnwritableError, SelectorError):
        return _GENERAL
    frame = f" and `frame: {json.dumps(target.frame, ensure_ascii=False)}`" if target.frame else ""
    return f"write `{target.selector}`{frame}"


def _as_python(call: str) -> str:
    """A call of JavaScript as Python has it; one of Python stays as it is."""
    return _PROPERTIES.sub(r".\1", _PIECE.sub(_piece, call))


def _piece(found: re.Match[str]) -> str:
    if found["text"]:
        return json.dumps(found["text"][1:-1]) if found["text"].startswith("`") else found["text"]
    if found["pattern"]:
        flags = " | ".join(f"re.{flag.upper()}" for flag in found["flags"] if flag in "ims")
        return f"re.compile({json.dumps(found['pattern'])}{f', {flags}' if flags else ''})"
    if found["brace"]:
        return ""
    name = re.sub(r"(?<=[a-z])([A-Z])", lambda capital: f"_{capital[1].lower()}", found["key"] or found["word"])
    return f"{name}=" if found["key"] else _CONSTANTS.get(name, name)


def _locator(python: str) -> tuple[LocatorPart, ...]:
    """The locator of a call, without what is then done with it. Raises SyntaxError, UnwritableError."""
    node: ast.AST = ast.parse(f"page.{python}", mode="eval").body
    while isinstance(node, ast.expr):
        if isinstance(found := place_of(node), PlaceInTest) and found.parts:
            return found.parts
        node = getattr(node, "func", None) or getattr(node, "value", None)  # type: ignore[assignment]
    raise UnwritableError("no locator")


def _readable(part: LocatorPart) -> LocatorPart:
    return replace(part, exact=True) if part.kind == "role" and not part.pattern else part
