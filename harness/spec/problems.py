"""Problems of a task's file with their places, and values as readable text for a terminal."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

JsonPath = tuple[str | int, ...]
"""Keys and indices from the top of a document."""

Severity = Literal["error", "warning"]

UNKNOWN = "unknown key"
"""The beginning of the message about an unknown key."""
_LONGEST_SHOWN = 60
_BARE_KEY = re.compile(r"[\w$-]+")


class Problem(Struct, frozen=True):
    """One problem. Lines and columns count from 1; they are None if there is no file."""

    file: str
    line: int | None
    column: int | None
    path: str
    message: str
    expected: str = ""
    found: str = ""
    hint: str = ""
    severity: Severity = "error"

    @property
    def place(self) -> str:
        """`file:line:column`, as far as known."""
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part)

    def __str__(self) -> str:
        head = ": ".join(part for part in (self.place, self.path, self.message) if part)
        more = (("expected", self.expected), ("found", self.found), ("hint", self.hint))
        return "\n".join([head, *(f"  {name}: {text}" for name, text in more if text)])


class SpecError(ValueError):
    """A task that cannot be used; all of its problems at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def dotted_path(path: JsonPath) -> str:
    """`('steps', 3, 'selector')` as `steps[3].selector`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _BARE_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{_shortened(repr(part))}]"
    return text


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"), (int, "a whole number"), (float, "a number"), (str, "text"), (list, "a list"),
    (dict, "a mapping"),
)  # fmt: skip


def kind(value: Any) -> str:
    """The type of a JSON value in plain words."""
    return next((words for type_, words in _KINDS if isinstance(value, type_)), "nothing (null)")


def describe_value(value: Any) -> str:
    """A JSON value with its type, shortened: `text 'abc'`, `a list [1, 2]`."""
    if value is None:
        return kind(value)
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{kind(value)} {_shortened(text)}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def nearest(word: str, words: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that was probably meant."""
    return next(iter(difflib.get_close_matches(word, list(words), 1, cutoff)), None)


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """A hint with the nearest known word; empty if none is near."""
    meant = nearest(word, words)
    return f"did you mean `{meant}`?" if meant else ""


def is_misspelt(word: str, words: Iterable[str]) -> bool:
    """Return whether a known word was surely meant: one typing error away, or two if long (`sucess_criteria`)."""
    allowed = 1 if len(word) < 8 else 2
    return any(0 < _edit_distance(word, known) <= allowed for known in words if abs(len(known) - len(word)) <= allowed)


def _edit_distance(one: str, other: str) -> int:
    """The number of letters added, left out, replaced, or swapped with the next one (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]


def join_or(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


class BadReferenceError(ValueError):
    """A reference that cannot be resolved; `offset` is its position in the text."""

    def __init__(self, reference: str, problem: str, hint: str = "", offset: int = 0) -> None:
        super().__init__(reference, problem, hint, offset)
        self.reference = reference
        self.problem = problem
        self.hint = hint
        self.offset = offset

    def __str__(self) -> str:
        return f"{self.reference}: {self.problem}" + (f" ({self.hint})" if self.hint else "")
