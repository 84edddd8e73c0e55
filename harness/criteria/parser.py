"""From text to a criterion; the entrance of the language."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from harness.criteria.branch import Branch
from harness.criteria.complaints import bad_character, bad_token
from harness.criteria.conditions import condition
from harness.criteria.criterion import Criterion, ValueExpression
from harness.criteria.errors import CriterionError
from harness.criteria.expressions import value

LONGEST = 10_000


@lru_cache(maxsize=16_384)
def parse(text: str) -> Criterion:
    """A criterion: a comparison, a yes-or-no function, or a combination of those. Raises CriterionError."""
    return Criterion(text, condition(_branch(text, "a criterion such as text('#id') == 'done'")))


@lru_cache(maxsize=4096)
def parse_value(text: str) -> ValueExpression:
    """A value: a function, a constant, `.length`, or a comparison (true or false). Raises CriterionError."""
    return ValueExpression(text, value(_branch(text, "a value such as text('#id')")))


@cache
def _grammar() -> Lark:
    """Loaded at the first criterion: a run without criteria does not pay for it."""
    text = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", start="expr", propagate_positions=True, maybe_placeholders=False)


def _branch(text: str, wanted: str) -> Branch:
    if len(text) > LONGEST:
        raise CriterionError(text, LONGEST, f"a criterion has at most {LONGEST} characters, this has {len(text)}")
    if not text.strip():
        raise CriterionError(text, 0, "the text is empty", (wanted,))
    try:
        return Branch(_grammar().parse(text), text)
    except UnexpectedCharacters as error:
        raise bad_character(text, error.pos_in_stream or 0) from None
    except UnexpectedToken as error:
        offset = len(text.rstrip()) if error.token.type == "$END" else error.token.start_pos or 0
        raise bad_token(text, offset, frozenset(error.accepts or error.expected)) from None
