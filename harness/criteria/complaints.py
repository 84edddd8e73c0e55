"""What to say of a text that the grammar does not accept."""

from __future__ import annotations

import re

from harness.criteria.errors import CriterionError
from harness.criteria.vocabulary import OPERATORS, suggestion

_ANYTHING = ("a value such as text('#id'), 'done' or 5",)
_CLOSING = {"RPAR": "`)`", "RSQB": "`]`", "RBRACE": "`}`"}
_MARKS = {"COMMA": "`,`", **_CLOSING, "LPAR": "`(`", "COLON": "`:`", "$END": "the end"}
_LOOKS = (  # what stands at the place, and the hint for it
    (re.compile(r"[\u2018\u2019\u201c\u201d]"), "use straight quotes"),
    (re.compile(r"=>|=<"), "write `>=` or `<=`"),
    (re.compile(r"=~|~"), "use `matches`"),
    (re.compile(r"="), "use `==`"),
    (re.compile(r"&"), "use `&&` or ALL[...]"),
    (re.compile(r"\|"), "use `||` or ANY[...]"),
    (re.compile(r"[-+*/%]"), "there is no arithmetic here"),
    (re.compile(r"[$#`]"), "text goes in quotes"),
)
_QUOTE = re.compile(r"['\"]")
_WORD = re.compile(r"[^\W\d]\w*")


def bad_character(text: str, offset: int) -> CriterionError:
    """For a character that begins nothing of the language."""
    if _QUOTE.match(text, offset):
        return CriterionError(text, offset, "the quoted text that starts here never ends", ("a closing quote",))
    if text[offset - 2 : offset + 1] in ("===", "!=="):
        return CriterionError(text, offset, "unexpected `=`", hint=f"use `{text[offset - 2 : offset]}`")
    return CriterionError(text, offset, f"unexpected `{text[offset]}`", hint=_look(text, offset))


def _look(text: str, offset: int) -> str:
    return next((hint for shape, hint in _LOOKS if shape.match(text, offset)), "")


def bad_token(text: str, offset: int, accepted: frozenset[str]) -> CriterionError:
    """For a word or mark in a place where another must stand."""
    word = _WORD.match(text, offset)
    found = word.group() if word else text[offset : offset + 1].strip()
    problem = f"unexpected `{found}`" if found else "the text ends too early"
    return CriterionError(text, offset, problem, _expected(accepted), _hint(text, offset, found, accepted))


def _expected(accepted: frozenset[str]) -> tuple[str, ...]:
    if "STRING" in accepted and "COLON" not in accepted:
        return _ANYTHING + tuple(mark for name, mark in _CLOSING.items() if name in accepted)
    operators = (f"an operator ({' '.join(OPERATORS)})",) if "OPERATOR" in accepted else ()
    joints = ("`&&` or `||`",) if "_AND" in accepted else ()
    return operators + joints + tuple(mark for name, mark in _MARKS.items() if name in accepted)


def _hint(text: str, offset: int, found: str, accepted: frozenset[str]) -> str:
    before = text[:offset].split()[-1:]
    if before and (hint := suggestion(before[0], ()) if before[0].isalpha() else ""):
        return hint
    if re.match(r"[=!<>]=?", text[offset:]) and "OPERATOR" not in accepted and "_AND" in accepted:
        return "one comparison at a time: join two with ALL[...]"
    if found == "[" and "OPERATOR" in accepted:
        return "an index goes into the path: mem('orders[0].id')"
    return suggestion(found, ()) or (_look(text, offset) if found else "")
