"""Texts as a person reads them: white space, invisible characters, and texts that look alike."""

from __future__ import annotations

import unicodedata
from difflib import SequenceMatcher

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
