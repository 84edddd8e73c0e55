"""Untrusted text on a page: escaping is the template's, this is for what escaping leaves."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
"""Control characters, those that turn the direction of what is read, and what no file may hold."""


def visible(text: str) -> str:
    """Each character that would not be seen, or would mislead, as U+FFFD."""
    return _INVISIBLE.sub("\ufffd", text)


def shown(value: Any) -> Any:
    """Of whatever a template prints: None is nothing, markup is left alone."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def with_code(text: str) -> Markup:
    """What stands between backticks, as code; the rest escaped as it is."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # one too many: it is none
        return escape(visible(text))
    marks = [Markup("<code>{}</code>"), Markup("{}")]
    return Markup("").join(marks[place % 2 - 1].format(part) for place, part in enumerate(parts))


def duration(seconds: float) -> str:
    """`0.4 s`, `38 s`, `12 min 5 s`, `1 h 2 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def amount(number: int, one: str, several: str = "") -> str:
    """`1 task`, `12 tasks`."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"
