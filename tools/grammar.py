"""Generates harness/criteria/grammar.json, the tables of the assertion language, from grammar.lark.

Run `python -m tools.grammar` after a change of the grammar; `tests/unit/tools/test_grammar.py` compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lark import Lark
from lark.grammar import Rule, Symbol, Terminal
from lark.lexer import BasicLexer, ContextualLexer
from lark.parsers.lalr_analysis import Shift

FOLDER = Path(__file__).parents[1] / "harness/criteria"
GRAMMAR = FOLDER / "grammar.lark"
TABLES = FOLDER / "grammar.json"


def grammar() -> Lark:
    """The grammar, as lark reads it."""
    text = GRAMMAR.read_text("utf-8")
    return Lark(text, parser="lalr", start="expr", propagate_positions=True, maybe_placeholders=False)


def document() -> str:
    """The text of grammar.json: a line for each terminal, rule and state."""
    found = grammar()
    table, lexer = found.parser.parser._parse_table, found.parser.lexer  # noqa: SLF001 - lark shows them nowhere else
    assert isinstance(lexer, ContextualLexer)
    assert isinstance(lexer.root_lexer, BasicLexer)
    numbers = _numbers(table.states, table.start_states["expr"])
    states = [
        {
            str(symbol): numbers[target] if action is Shift else -1 - found.rules.index(target)
            for symbol, (action, target) in sorted(table.states[state].items())
        }
        for state in numbers
    ]
    parts: dict[str, Any] = {
        "terminals": [[each.name, each.pattern.to_regexp()] for each in lexer.root_lexer.terminals],
        "ignored": [*found.ignore_tokens],
        "rules": [_rule(rule) for rule in found.rules],
        "states": states,
        "end": numbers[table.end_states["expr"]],
    }
    return "{\n" + ",\n".join(f'"{name}": {_lines(part)}' for name, part in parts.items()) + "\n}\n"


def _numbers(states: Mapping[int, Mapping[str, tuple[object, Any]]], start: int) -> dict[int, int]:
    """lark's numbers of states -> ours, in the order in which they are reached: lark's differ from run to run."""
    numbers = {start: 0}
    reached = [start]
    for state in reached:
        for _, (action, target) in sorted(states[state].items()):
            if action is Shift and target not in numbers:
                numbers[target] = len(numbers)
                reached.append(target)
    return numbers


def _rule(rule: Rule) -> list[object]:
    origin = str(rule.origin.name)
    transparent = bool(rule.options.expand1 and not rule.alias)
    return [origin, rule.alias or origin, transparent, "".join(map(_mark, rule.expansion))]


def _mark(part: Symbol) -> str:
    if isinstance(part, Terminal):
        return "-" if part.filter_out else "+"
    return "*" if part.name.startswith("_") else "+"


def _lines(part: object) -> str:
    if not isinstance(part, list):
        return json.dumps(part)
    return "[\n" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in part) + "\n]"


if __name__ == "__main__":
    TABLES.write_text(document(), "utf-8")
