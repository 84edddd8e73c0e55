"""Regular expressions that cannot run away: bounded length, bounded repeats, no recursion, one second of search."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import regex

LONGEST = 1_000
MOST_REPEATS = 250_000
SECONDS = 1.0

_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")


class PatternError(ValueError):
    """A pattern that is wrong or too costly; `offset` is the place in it."""

    def __init__(self, problem: str, offset: int = 0) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return self.problem


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Raises PatternError."""
    _check_cost(pattern)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        problem, place = getattr(error, "msg", str(error)), getattr(error, "pos", None)
        raise PatternError(f"bad regular expression: {problem}", place or 0) from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise PatternError("the regular expression is nested too deeply") from error


def found(pattern: str, text: str) -> bool:
    """Whether the pattern occurs in the text. Raises PatternError, and TimeoutError after one second of search."""
    return compiled(pattern).search(text, timeout=SECONDS) is not None


def _check_cost(pattern: str) -> None:
    """Nested counts multiply: `((a{1000}){1000}){1000}` fills the memory while it is compiled."""
    if len(pattern) > LONGEST:
        raise PatternError(f"a regular expression has at most {LONGEST} characters")
    if recursion := _RECURSION.search(pattern):
        raise PatternError("recursion is not allowed in a regular expression", recursion.start())
    counts = [int(most or least or 1) for least, most in _COUNT.findall(pattern)]
    if math.prod(max(count, 1) for count in counts) > MOST_REPEATS:
        raise PatternError("the counts in this regular expression multiply to too many repeats")
