"""Parses by the tables of grammar.json, which tools/grammar.py makes out of grammar.lark.

A run needs only the tables. The generator that makes them out of the grammar costs more than the rest of a small run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

_END = "$END"


class ParseNode(NamedTuple):
    """A rule with its parts, or a token without any; `start` and `end` are offsets in the text."""

    kind: str
    start: int
    end: int
    parts: tuple[ParseNode, ...] = ()


class UnexpectedError(Exception):
    """Something cannot stand at this place. `accepted` names what can; it is None for a character of no terminal."""

    def __init__(self, offset: int, accepted: frozenset[str] | None = None) -> None:
        super().__init__(offset, accepted)
        self.offset = offset
        self.accepted = accepted


class Production(NamedTuple):
    """A rule of the grammar: its parts are left out (`-`), kept (`+`), or replaced by their own parts (`*`)."""

    origin: str
    kind: str
    transparent: bool
    """If only one part is left, this part stands for the rule."""
    parts: str

    def node(self, found: list[ParseNode], start: int, end: int) -> ParseNode:
        parts = tuple(self._left(found))
        if self.transparent and len(parts) == 1:
            return parts[0]
        return ParseNode(self.kind, start, end, parts)

    def _left(self, found: list[ParseNode]) -> Iterator[ParseNode]:
        for mark, part in zip(self.parts, found, strict=True):
            if mark == "+":
                yield part
            elif mark == "*":
                yield from part.parts


class Tables:
    """An LALR(1) automaton, which begins in state 0.

    A state maps a symbol to the number of the next state, or to `-1 - n` if the rule `n` is complete.
    """

    def __init__(self, text: str) -> None:
        tables = json.loads(text)
        self.terminals: dict[str, str] = dict(tables["terminals"])  # in the order in which they are tried
        self.ignored = frozenset(tables["ignored"])
        self.rules = [Production(*each) for each in tables["rules"]]
        self.states: list[dict[str, int]] = tables["states"]
        self.end: int = tables["end"]

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in self.terminals.items()))

    def parse(self, text: str) -> ParseNode:
        """Return the tree of the text. Raises UnexpectedError."""
        stack, found, offset = [0], list[Placed](), 0
        while offset < len(text):
            token = self._token(text, offset, stack)
            if token.kind not in self.ignored and not self._feed(stack, found, token):
                raise UnexpectedError(offset, self._accepted(stack))
            offset = token.end
        if not self._feed(stack, found, ParseNode(_END, offset, offset)):
            raise UnexpectedError(len(text.rstrip()), self._accepted(stack))
        return found[0].node

    def _token(self, text: str, offset: int, stack: list[int]) -> ParseNode:
        """The next token: the first terminal that matches among those that the state takes."""
        match, wanted = self._any.match(text, offset), self.states[stack[-1]]
        kind = match.lastgroup or "" if match else ""
        if match and (kind in wanted or kind in self.ignored):
            return ParseNode(kind, offset, match.end())
        for name, pattern in self.terminals.items():
            if name in wanted and (other := re.compile(pattern).match(text, offset)):
                return ParseNode(name, offset, other.end())
        raise UnexpectedError(offset, self._accepted(stack) if match else None)

    def _feed(self, stack: list[int], found: list[Placed], token: ParseNode) -> bool:
        """Complete rules until the token can be taken; return False if it cannot."""
        while (step := self.states[stack[-1]].get(token.kind)) is not None:
            if step >= 0:
                stack.append(step)
                found.append(Placed(token, token.start, token.end))
                return True
            rule = self.rules[-1 - step]
            size = len(rule.parts)
            parts = found[-size:]
            del stack[-size:], found[-size:]
            start, end = parts[0].start, parts[-1].end
            found.append(Placed(rule.node([each.node for each in parts], start, end), start, end))
            stack.append(self.states[stack[-1]][rule.origin])
            if token.kind == _END and stack[-1] == self.end:
                return True
        return False

    def _accepted(self, stack: list[int]) -> frozenset[str]:
        """The terminals that can stand next: a state may take one and a rule that it completes then does not."""
        return frozenset(name for name in self.states[stack[-1]] if name.isupper() and self._takes(list(stack), name))

    def _takes(self, stack: list[int], name: str) -> bool:
        while (step := self.states[stack[-1]].get(name)) is not None:
            if step >= 0:
                return True
            rule = self.rules[-1 - step]
            del stack[-len(rule.parts) :]
            stack.append(self.states[stack[-1]][rule.origin])
            if name == _END and stack[-1] == self.end:
                return True
        return False


class Placed(NamedTuple):
    """A node, and all of the text of its rule: brackets that were left out may stand around the node."""

    node: ParseNode
    start: int
    end: int


@cache
def tables() -> Tables:
    """The tables of the assertion language, read with the first criterion: no run without criteria pays for them."""
    return Tables(Path(__file__).with_name("grammar.json").read_text(encoding="utf-8"))
