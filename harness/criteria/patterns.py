"""Regular expressions with bounds: on length, size, and seconds of search; no recursion."""

from __future__ import annotations

import math
import re
from functools import lru_cache

import regex
from msgspec import Struct

_LONGEST = 1_000
LARGEST = 10_000
SECONDS = 0.4
_SHORTEST_SECONDS = 0.01

_CHARACTER = re.compile(r"\\.|\[\^?\]?(?:[^\\\[\]]|\\.)*\]", re.DOTALL)  # an escape, or a set without sets inside
_COUNT = re.compile(r"(?P<count>\{(?P<least>\d*)(?:,(?P<most>\d*))?\})")
_PIECE = re.compile(rf"(?P<open>\((?:\?:)?)|(?P<close>\))|{_COUNT.pattern}|.", re.DOTALL)
_REMARK = re.compile(r"(?:[^\\]|\\.)*?(?P<start>\(\?)(?:#|[A-Za-z0-9-]*x[A-Za-z0-9-]*[:)])", re.DOTALL)
_RECURSION = re.compile(r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)")


class PatternError(ValueError):
    """A pattern that is wrong or too costly; `offset` is the position in it."""

    def __init__(self, problem: str, offset: int = 0) -> None:
        super().__init__(problem, offset)
        self.problem = problem
        self.offset = offset

    def __str__(self) -> str:
        return self.problem


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> regex.Pattern[str]:
    """Compile a regular expression. Raises PatternError."""
    _check_cost(pattern)
    try:
        return regex.compile(pattern)
    except regex.error as error:
        problem, place = getattr(error, "msg", str(error)), getattr(error, "pos", None)
        raise PatternError(f"bad regular expression: {problem}", place or 0) from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise PatternError("the regular expression is nested too deeply") from error


def has_match(pattern: str, text: str, seconds: float = SECONDS) -> bool:
    """Return whether the pattern occurs in the text. Raises PatternError; TimeoutError after `seconds` of search."""
    return compiled(pattern).search(text, timeout=seconds) is not None


def first_group(pattern: str, text: str, seconds: float = SECONDS) -> str | None:
    """What the group of the pattern has found; None if it is not in the text. Raises as `has_match` does."""
    found = compiled(pattern).search(text, timeout=seconds)
    group: str | None = found[1] if found else None
    return group


class Patience(Struct):
    """The time limit of one search in seconds, halved by each search that exceeds it, so that many stay bounded."""

    seconds: float = SECONDS

    def shorten(self) -> None:
        self.seconds = max(_SHORTEST_SECONDS, self.seconds / 2)


def _check_cost(pattern: str) -> None:
    """Refuse costly counts: compiling writes them out. Many fill the memory; `(?:a|bc){250000}` overflows the stack."""
    if len(pattern) > _LONGEST:
        raise PatternError(f"a regular expression has at most {_LONGEST} characters")
    if recursion := _RECURSION.search(pattern):
        raise PatternError("recursion is not allowed in a regular expression", recursion.start())
    if remark := _REMARK.match(pattern):  # a bracket or count within it, or spread out by it, would be misread
        raise PatternError("comments and the flag `x` are not allowed in a regular expression", remark.start("start"))
    if _size(_CHARACTER.sub("a", pattern)) > LARGEST:
        raise PatternError(f"the counts in this regular expression make too many repeats: at most {LARGEST} characters")


def _size(pattern: str) -> int:
    """The characters of the pattern with its counts written out; an upper bound if its groups cannot be determined."""
    if "[" in pattern:  # nested sets, in which round brackets may be plain characters
        return len(pattern) * math.prod(_times(count) for count in _COUNT.finditer(pattern))
    sizes, last = [0], 0  # sizes of the open groups; size of what a count would repeat
    for piece in _PIECE.finditer(pattern):
        if piece["open"]:
            sizes.append(0)
        elif piece["close"]:
            last = sizes.pop()
            sizes = sizes or [0]  # compiling refuses a bracket too many
            sizes[-1] += last
        elif piece["count"]:
            sizes[-1] += last * (_times(piece) - 1)
            last *= _times(piece)
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


def _times(count: re.Match[str]) -> int:
    return max(int(count["most"] or count["least"] or 1), 1)
