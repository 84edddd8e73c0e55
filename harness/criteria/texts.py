"""Texts as a person reads them: white space, invisible characters, texts that look alike; and values as texts."""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from difflib import SequenceMatcher, unified_diff
from itertools import islice

from harness.criteria.syntax import Json
from harness.task_secrets import hidden

_INVISIBLE = str.maketrans("", "", "\u200b\u00ad")
"""The zero-width space and the soft hyphen, which Playwright ignores too."""
_NO_BREAK = str.maketrans("\u00a0\u202f\u2007\ufeff", "    ")
"""The no-break space, the narrow one, the figure space, and the byte order mark, which is white space in JavaScript."""
_TWINS = str.maketrans(
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0430\u0435\u043e\u0440\u0441\u0443\u0445"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"
    "\u2010\u2011\u2012\u2013\u2014\u2212\u2018\u2019\u201c\u201d",
    "ABEKMHOPCTYXaeopcyxABEZHIKMNOPTYXo------''\"\"",
)
"""Cyrillic and Greek letters that look like Latin ones, dashes and quotes."""
_LONGEST = 2_000
"""Characters of a text in which the differing ones are searched; in a longer one all others than ASCII are written."""


def plain(text: str) -> str:
    """The text with ordinary spaces in place of no-break ones, and without characters that nobody sees."""
    return text.translate(_INVISIBLE).translate(_NO_BREAK)


def fold(text: str) -> str:
    """The plain text with every run of white space as one space, and none at the ends, as Playwright compares it."""
    return " ".join(plain(text).split())


def look_alike(text: str, other: str) -> bool:
    """Return whether two texts that differ look the same."""
    return text != other and _looks(text) == _looks(other)


def with_escapes(expected: str, actual: str) -> tuple[str, str]:
    """Both texts, with escapes for the characters in which they differ."""
    if max(len(expected), len(actual)) > _LONGEST:
        return _escaped(expected), _escaped(actual)
    shown: tuple[list[str], list[str]] = ([], [])
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, expected, actual, autojunk=False).get_opcodes():
        for parts, piece in zip(shown, (expected[i1:i2], actual[j1:j2]), strict=True):
            parts.append(piece if kind == "equal" else _escaped(piece))
    return "".join(shown[0]), "".join(shown[1])


def _looks(text: str) -> str:
    """What a reader sees of the text, roughly: two texts with the same look cannot be told apart."""
    seen = unicodedata.normalize("NFKC", plain(text).translate(_TWINS))
    letters = (each for each in seen if each.isspace() or unicodedata.category(each) not in ("Cf", "Cc", "Cs"))
    return " ".join("".join(letters).split())


def _escaped(text: str) -> str:
    return "".join(each if each.isascii() and each.isprintable() and each != " " else _escape(each) for each in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Values as text for a reader: alone, inside a sentence, and the difference of two.

_SHOWN = 200
_SHORT = 60
_WIDTH = 80
_MOST_LINES = 400
_SHOWN_LINES = 40
_ADDRESS = re.compile(r"://|[?#&][^\s=]{1,80}=")
"""Matches text that looks like an address, and hardly any other text."""


def difference(expected: Json, actual: Json) -> str:
    """Two lines for short scalars, a bounded unified diff for long or multi-line texts, lists and objects.

    It is made of texts without secrets: of a secret in several lines, a difference would show the lines one by one.
    """
    left, right = _lines(expected), _lines(actual)
    if len(left) == len(right) == 1:
        return "" if left == right else f"- {left[0]}\n+ {right[0]}"
    lines = unified_diff(left[:_MOST_LINES], right[:_MOST_LINES], "expected", "actual", lineterm="", n=2)
    shown = list(islice(lines, _SHOWN_LINES + 1))
    return "\n".join([*shown[:_SHOWN_LINES], "..."] if len(shown) > _SHOWN_LINES else shown)


def _lines(value: Json) -> list[str]:
    if isinstance(value, list | dict):
        return _wrap_lines(hidden(written(value, indent=1)))
    if not isinstance(value, str):
        return [hidden(written(value))]
    value = hidden(value)
    return [value] if "\n" not in value and len(value) <= _SHORT else _wrap_lines(value)


def _wrap_lines(text: str) -> list[str]:
    head = text[: _WIDTH * _MOST_LINES]
    return [piece for line in head.splitlines() for piece in _pieces(line) or [""]]


def _pieces(line: str) -> list[str]:
    """Pieces of at most WIDTH letters. An address stays whole: a broken one can be neither copied nor redacted."""
    breaks = not _ADDRESS.search(line)
    return textwrap.wrap(line, _WIDTH, drop_whitespace=False, break_long_words=breaks, break_on_hyphens=breaks)


def written(value: Json, indent: int | None = None) -> str:
    """A value as JSON for reading; a description if its nesting or a number is too long for Python to write."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=indent is not None, default=str)
    except (RecursionError, ValueError):
        return "a value too deep or too long to be shown"


def in_sentence(given: Json) -> str:
    """A value inside a sentence: several lines are folded into one, and a long text is cut."""
    value = hidden(given if isinstance(given, str) else written(given))
    text = repr(" ".join(value.split()) if "\n" in value else value) if isinstance(given, str) else value
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
