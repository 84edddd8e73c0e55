"""What is a list of values, such as a path with `*`: which comparisons are about it, and which about each value."""

from __future__ import annotations

from harness.criteria.paths import list_root
from harness.criteria.syntax import (
    HAPPENINGS,
    Compare,
    Condition,
    CriterionError,
    ListOf,
    Literal,
    Number,
    Part,
    Read,
    Value,
    oriented,
    walk,
)

NOTHING = {
    "requests": "no request matches",
    "responses": "no answer matches",
    "messages": "no message matches",
    "console": "no line of the console matches",
    "dialogs": "no dialog has opened",
    "downloads": "no file was downloaded",
}
"""Why a list of what pages have done has no items."""
CONTENT = ("body", "text", "json", "rows")
"""What an item lacks if it could not be read; it then has `unread`, which says why."""
_LISTS = HAPPENINGS.keys() | {"texts", "class"}
"""Functions whose value is a list, whatever they are asked."""
_WITH_PATHS = frozenset({"json", "mem", "result", "time_since", "time_until"})


def _is_list(value: Value) -> bool:
    """Return whether the value is a list: what a path with `*` finds, the texts of elements, what pages have done."""
    if isinstance(value, Number):
        return _is_list(value.of)
    return _is_plain(value) or (
        isinstance(value, Read) and value.function in _WITH_PATHS and list_root(value.arguments[-1]) is not None
    )


def _is_plain(value: Value) -> bool:
    """Return whether it is a list of texts, of which none is itself a list."""
    return isinstance(value, Read) and value.function in _LISTS


def _may_be_list(value: Value) -> bool:
    return isinstance(value, Part) or (isinstance(value, Read) and value.function in _WITH_PATHS)


def one_by_one(operator: str, left: Value, right: Value) -> tuple[bool, bool]:
    """Which sides are lists whose values are compared one by one.

    Two lists are equal or not, and `includes` asks for an item of the list. Every other comparison is about one value.
    """
    lists = _is_list(left), _is_list(right)
    if operator == "includes":
        return False, lists[1]
    if operator in ("==", "!="):
        if all(_is_list(side) or isinstance(side, ListOf) for side in (left, right)):
            return False, False
        for side, other in ((left, right), (right, left)):  # a remembered list, or nothing, is compared with the whole
            if _is_plain(side) and (_may_be_list(other) or other == Literal(None)):
                return False, False
    return lists


def spread(operator: str, left: Value, right: Value, lists: tuple[bool, bool]) -> tuple[bool, bool]:
    """`one_by_one` when it is known which sides are `lists`: a list of texts never equals what is none."""
    plain = _is_plain(left), _is_plain(right)
    if operator not in ("==", "!=") or not any(plain) or any(lists) is all(lists):
        return one_by_one(operator, left, right)
    return plain[0] and lists[0], plain[1] and lists[1]


def needs_a_word(comparison: Compare) -> bool:
    """Return whether it compares values of a list one by one, so that `ANY` or `ALL` must say how many must do."""
    return any(one_by_one(*oriented(comparison)))


def check_lists(text: str, tree: Value | Condition) -> None:
    """Refuse a comparison of the values of a list that does not say `ANY[...]` or `ALL[...]`. Raises CriterionError."""
    for node in walk(tree):
        if isinstance(node, Compare) and not node.over and needs_a_word(node):
            raise CriterionError(text, node.offset, _problem(node), hint=_lines_to_write(node))


def _problem(comparison: Compare) -> str:
    operator, left, right = oriented(comparison)
    many = left if one_by_one(operator, left, right)[0] else right
    return f"`{many.source}` is the list of all values found, and `{comparison.operator}` compares one value"


def _lines_to_write(comparison: Compare) -> str:
    operator, left, right = oriented(comparison)
    some, each = f"ANY[{comparison.source}]", f"ALL[{comparison.source}]"
    if operator == "!=":
        return f"write `{each}` if no value may be this one, or `{some}` if one other value is enough"
    member = f", which is also `{left.source} includes {right.source}`" if operator == "==" and _is_list(left) else ""
    return f"write `{some}` if one of them is enough{member}, or `{each}` if each of them must"
