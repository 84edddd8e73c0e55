"""The names of the assertion language, and what people write instead of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from types import MappingProxyType

FUNCTIONS = MappingProxyType(
    {
        "exists": ("selector",),
        "text": ("selector",),
        "value": ("selector",),
        "attr": ("selector", "attribute name"),
        "count": ("selector",),
        "visible": ("selector",),
        "url": (),
        "title": (),
        "mem": ("key",),
        "json": ("channel", "path"),
        "time_since": ("key",),
        "time_until": ("key",),
    }
)
SELECTOR_FUNCTIONS = frozenset(name for name, takes in FUNCTIONS.items() if takes[:1] == ("selector",))
PAGE_FUNCTIONS = SELECTOR_FUNCTIONS | {"url", "title"}
MEMORY_FUNCTIONS = frozenset({"mem", "time_since", "time_until"})
PATHS = frozenset({"key", "path"})  # parameters that are paths
QUESTIONS = frozenset({"exists", "visible"})

SYMBOLS = ("==", "!=", "<", "<=", ">", ">=")
WORDS = ("includes", "matches")
OPERATORS = SYMBOLS + WORDS
MIRRORED = MappingProxyType({"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="})

BRACKETS = ("ALL", "ANY", "NOT")
WAITS = MappingProxyType({"WITHIN": True, "EVENTUALLY": False, "STABLE": True})  # whether it takes seconds first
CONSTANTS: MappingProxyType[str, bool | None] = MappingProxyType({"true": True, "false": False, "null": None})
UNITS = MappingProxyType({"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800})

HABITS = MappingProxyType(
    {
        "and": "use `&&` or ALL[...]",
        "or": "use `||` or ANY[...]",
        "not": "use `!` or NOT[...]",
        "contains": "use `includes`",
        "has": "use `includes`",
        "in": "turn it round: the whole `includes` the part",
        "is": "use `==`",
        "eq": "use `==`",
        "like": "use `matches` with a regular expression",
        "len": "use `.length`",
        "size": "use `.length`",
        "memory": "did you mean `mem`?",
        "env": "did you mean `json('env', '...')`?",
        "none": "did you mean `null`?",
        "undefined": "did you mean `null`?",
        "startswith": "use `matches '^...'`",
        "endswith": "use `matches '...$'`",
    }
)


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint for a name that is not known here, or nothing."""
    names = tuple(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    close = get_close_matches(name.casefold(), list(folded), n=1)
    if name.casefold() in folded or (close and name.casefold() not in HABITS):
        return f"did you mean `{folded[name.casefold() if name.casefold() in folded else close[0]]}`?"
    return HABITS.get(name.casefold(), "")
