"""Constants as they are written: quoted texts, numbers, durations."""

from __future__ import annotations

import math
import re

from harness.criteria.vocabulary import UNITS

LONGEST_NUMBER = 100
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_DURATION = re.compile(r"(?P<amount>-?[0-9.]+)(?P<unit>[a-z]+)")


def string(quoted: str) -> str:
    r"""What stands between the quotes. Escapes: `\n \t \r \\ \' \" \uXXXX`.

    A backslash before anything else stays, so that `'\d+\.'` and `'#a\:b'` say what they seem to. Raises ValueError.
    """
    text = _ESCAPE.sub(_unescaped, quoted[1:-1])
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ValueError("half of a surrogate pair is no character") from error


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _SIMPLE.get(code, match[0])


def number(text: str) -> int | float:
    """Whole numbers stay whole; durations (`7d`, `1.5h`, `200ms`) are seconds. Raises ValueError."""
    if len(text) > LONGEST_NUMBER:
        raise ValueError(f"a number has at most {LONGEST_NUMBER} characters")
    if duration := _DURATION.fullmatch(text):
        return number(duration["amount"]) * UNITS[duration["unit"]]
    value = int(text) if text.lstrip("-").isdigit() else float(text)
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    return value
