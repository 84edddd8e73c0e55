"""One part of what the grammar saw, with its place; the only module besides parser.py that knows lark's trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, TypedDict

from lark import Token, Tree

from harness.criteria.errors import CriterionError

DEEPEST = 50
_LISTS = ("items", "entries")


class Place(TypedDict):
    """Where a node stands; the keyword arguments of every node of the syntax tree."""

    source: str
    offset: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A rule's tree or a single token. Going to its parts raises CriterionError below a fixed depth."""

    part: Tree[Token] | Token
    text: str
    depth: int = 0

    @property
    def kind(self) -> str:
        return self.part.type if isinstance(self.part, Token) else str(self.part.data)

    @property
    def place(self) -> Place:
        if isinstance(self.part, Token):
            start, end = self.part.start_pos or 0, self.part.end_pos or 0
        else:
            start, end = self.part.meta.start_pos, self.part.meta.end_pos
        return Place(source=self.text[start:end], offset=start)

    @property
    def source(self) -> str:
        return self.place["source"]

    @property
    def parts(self) -> list[Branch]:
        """The direct parts, tokens too; absent ones left out."""
        children = [] if isinstance(self.part, Token) else self.part.children
        if children and self.depth >= DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")
        return [Branch(child, self.text, self.depth + 1) for child in children if child is not None]

    @property
    def name(self) -> str:
        """The first token: the name of a call, the text of a constant."""
        return self.parts[0].source

    @property
    def items(self) -> list[Branch]:
        """What stands between the brackets."""
        return [item for part in self.parts if part.kind in _LISTS for item in part.flat]

    @property
    def flat(self) -> list[Branch]:
        """The parts, counted as no deeper than this one: a list is no nesting of its own."""
        children = [] if isinstance(self.part, Token) else self.part.children
        return [Branch(child, self.text, self.depth) for child in children]

    def fail(self, problem: str, expected: tuple[str, ...] = (), hint: str = "") -> NoReturn:
        raise CriterionError(self.text, self.place["offset"], problem, expected, hint)

    def fail_inside(self, value: str, problem: str, offset: int) -> NoReturn:
        """For a quoted text: points into it, where its characters stand for themselves."""
        inside = 1 + offset if self.source[1:-1] == value else 0
        raise CriterionError(self.text, self.place["offset"] + inside, problem)
