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


@dataclass(frozen=True, slots=True)
class Verdict:
    """`explanation` is there when the criterion does not hold."""

    holds: bool
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The judgement of one part. `message` says what is wrong, or, when the part holds, what is the case."""

    holds: bool
    expression: str
    expected: Json
    actual: Json
    message: str
    differs: bool = False


def written(value: Json, indent: int | None = None) -> str:
    """A value as JSON, for reading; described when it is nested, or a number is long, beyond what Python writes."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    except (RecursionError, ValueError):
        return "a value too deep or too long to be shown"


def shown(value: Json) -> str:
    """A value inside a sentence, cut when long."""
    text = repr(value) if isinstance(value, str) else written(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"
