"""The tables of the assertion language are those of its grammar, and they parse as lark does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from harness.criteria.lalr import ParseNode, Tables, UnexpectedError
from tools.grammar import TABLES, document, grammar

WORDS = ["text", "ALL", "a", "'x'", '"y"', "5", "-2.5", "7d", "true", "text('#a') == 'b'"]
SIGNS = ["==", "!=", "<=", "<", "&&", "||", "!", "&", "="]
MARKS = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    ".",
    " ",
    "\n",
    "'",
    "-",
    "$",
    "\u201c",
    "text('#a') == 'b'",
    "mem('k')",
]
texts = st.lists(st.sampled_from(WORDS + SIGNS + MARKS), min_size=1, max_size=14).map("".join).filter(str.strip)


@pytest.fixture(scope="module")
def lark() -> Lark:
    return grammar()


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables(TABLES.read_text("utf-8"))


def test_the_tables_are_those_of_the_grammar() -> None:
    assert TABLES.read_text("utf-8") == document(), "python -m tools.grammar"


def of_lark(part: Any) -> ParseNode:
    if isinstance(part, Token):
        return ParseNode(part.type, part.start_pos or 0, part.end_pos or 0)
    return ParseNode(part.data, part.meta.start_pos, part.meta.end_pos, tuple(map(of_lark, part.children)))


@example("!='a'")
@example("a == ")
@example("(a) == ((5)) && !(b.length > 2) ")
@example("ALL[a == 1, b.includes('c'),]")
@example("{a: 1, 'b': [2, 3h]} == x")
@given(texts)
def test_they_parse_as_lark_does(lark: Lark, tables: Tables, text: str) -> None:
    try:
        wanted = of_lark(lark.parse(text))
    except UnexpectedToken as error:
        at_end = error.token.type == "$END"
        wanted_error = (len(text.rstrip()) if at_end else error.token.start_pos, frozenset(error.accepts))
    except UnexpectedCharacters as error:
        wanted_error = (error.pos_in_stream, None)
    else:
        assert tables.parse(text) == wanted
        return
    with pytest.raises(UnexpectedError) as raised:
        tables.parse(text)
    assert (raised.value.offset, raised.value.accepted) == wanted_error
