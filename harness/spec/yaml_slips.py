"""Two slips in YAML that its parser tells of somewhere else, or in other words."""

from __future__ import annotations

import re

_LOOKED_AT = 50
"""Lines above the error."""
_TOKEN = re.compile(
    r"""(?<![^\s\[{,:])(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*")  # a quoted text
        |(?P<hash>(?:(?<=\s)|^)\#[^\n]*)|(?P<open>[\[{])|(?P<close>[]}])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_KEY = re.compile(r"(?P<indent> *(?:- +)*)(?P<key>[^\s:#'\"\[{&*!|>][^:#]*):(?=\s|$)(?P<value>[^\n]*)")


def comment_in_brackets(text: str, offset: int) -> int | None:
    """Where a `#` hides the end of a `{` or `[` that is still open at the error; None where none does."""
    start = text.rfind("\n", 0, offset) + 1
    for _ in range(_LOOKED_AT):
        if (found := _hidden(text, start, offset)) is not None or start == 0:
            return found
        start = text.rfind("\n", 0, start - 1) + 1
    return None


def _hidden(text: str, start: int, end: int) -> int | None:
    depth, found = 0, None
    for token in _TOKEN.finditer(text, start, end):
        if token["hash"] and depth and found is None:
            found = token.start("hash")
        depth = max(depth + bool(token["open"]) - bool(token["close"]), 0)
        if not depth:
            found = None
    return found


def too_deep(text: str, offset: int) -> str:
    """How to mend a key, whose colon is at the offset, that stands deeper than the key above; empty: it does not."""
    lines = text[:offset].split("\n")
    above = next((line for line in reversed(lines[:-1]) if line.strip() and not line.lstrip().startswith("#")), "")
    key, neighbour = _KEY.match(lines[-1] + ":"), _KEY.match(above)
    if key is None or neighbour is None or not neighbour["value"].strip():
        return ""
    column = len(neighbour["indent"])
    if len(key["indent"]) <= column:
        return ""
    one, other = key["key"].rstrip(), neighbour["key"].rstrip()
    return f"`{one}` is indented deeper than `{other}` above it: begin both in column {column + 1}"
