"""Whether a criterion holds, and if not, why."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.criteria.syntax import Json

SHOWN = 200


@dataclass(frozen=True, slots=True)
class Explanation:
    """The smallest failing part: its text, what was expected, what was there, and one sentence about it."""

    expression: str
    expected: Json
    actual: Json
    diff: str
    message: str
    plain: bool = False
    """Whether `expected` and `actual` say all that the sentence says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`explanation` is there when the criterion does not hold."""

    holds: bool
    explanation: Explanation | None = None
    waited: bool = False
    """Whether it took more than one look."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of one part. `message` says what is wrong, or, when the part holds, what is the case."""

    holds: bool
    expression: str
    expected: Json
    actual: Json
    message: str
    differs: bool = False
    plain: bool = False
    """Whether `expected` and `actual` say all that the message says."""


def written(value: Json, indent: int | None = None) -> str:
    """A value as JSON, for reading; described when it is nested, or a number is long, beyond what Python writes."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    except (RecursionError, ValueError):
        return "a value too deep or too long to be shown"


def shown(value: Json) -> str:
    """A value inside a sentence: a text of several lines is folded into one, and what is long is cut."""
    folded = " ".join(value.split()) if isinstance(value, str) and "\n" in value else value
    text = repr(folded) if isinstance(value, str) else written(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
