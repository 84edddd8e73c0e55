"""What one side of a comparison came to, and how two of them are judged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product

from harness.criteria.patterns import Patience
from harness.criteria.syntax import Json
from harness.criteria.values import order_problem, satisfied

MOST_PAIRS = 100_000


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


def judge(operator: str, left: Operand, right: Operand, patience: Patience) -> tuple[bool, str]:
    """Whether any pair of matches satisfies the operator; if none does, what kept them, when there is more to say.

    A missing side equals a null that is there or written, and satisfies nothing else: two missing sides are not equal,
    so that two mistyped keys never make a green test.
    """
    if not left.matches or not right.matches:
        nulls = any(match is None for match in left.matches + right.matches)
        return operator == "==" and nulls, left.note or right.note
    pairs = product(left.matches, right.matches)
    least = max(MOST_PAIRS, len(left.matches), len(right.matches))
    try:
        if any(satisfied(operator, a, b, patience.seconds) for a, b in islice(pairs, least)):
            return True, ""
    except TimeoutError:
        note = f"the regular expression took more than {patience.seconds:g} s"
        patience.lose()
        return False, note
    if next(pairs, None):
        return False, f"only the first {least} of {len(left.matches)} times {len(right.matches)} pairs were compared"
    ordering = operator in ("<", "<=", ">", ">=")
    return False, order_problem(left.matches[0], right.matches[0]) if ordering else ""
