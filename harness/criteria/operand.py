"""What one side of a comparison came to, and how two of them are judged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from harness.criteria.patterns import SECONDS
from harness.criteria.syntax import Json
from harness.criteria.values import order_problem, satisfied


@dataclass(frozen=True, slots=True)
class Operand:
    """Every match of a value: usually one, none when it is missing (`note` says what is), many with `*`."""

    matches: tuple[Json, ...]
    note: str = ""
    many: bool = False

    @property
    def json(self) -> Json:
        """For reports and for memory: null when missing, a list when there may be many."""
        if self.many:
            return list(self.matches)
        return self.matches[0] if self.matches else None


def judge(operator: str, left: Operand, right: Operand) -> tuple[bool, str]:
    """Whether any pair of matches satisfies the operator; if none does, what kept them, when there is more to say.

    A missing side equals a null that is there or written, and satisfies nothing else: two missing sides are not equal,
    so that two mistyped keys never make a green test.
    """
    if not left.matches or not right.matches:
        nulls = any(match is None for match in left.matches + right.matches)
        return operator == "==" and nulls, left.note or right.note
    try:
        if any(satisfied(operator, a, b) for a, b in product(left.matches, right.matches)):
            return True, ""
    except TimeoutError:
        return False, f"the regular expression took more than {SECONDS:g} s"
    ordering = operator in ("<", "<=", ">", ">=")
    return False, order_problem(left.matches[0], right.matches[0]) if ordering else ""
