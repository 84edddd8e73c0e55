"""The language in plain Python: as obvious as can be, and nothing of it is taken from harness.criteria."""

from __future__ import annotations

import re
from copy import deepcopy
from datetime import datetime
from fractions import Fraction
from itertools import product
from typing import Any

from harness.criteria.syntax import (
    Compare,
    Condition,
    Every,
    Length,
    ListOf,
    Literal,
    Not,
    ObjectOf,
    Read,
    Some,
    Stable,
    Test,
    Value,
    Within,
    walk,
)
from tests.unit.criteria.conftest import START, World

# Every text of the model with what it is as a number, or as a moment: the documented examples, not a second parser.
NUMERIC = {"7": 7, "7.0": 7, "007": 7, " 7 ": 7, "-5": -5, "0.5": "0.5", "$24.99": "24.99", "-$5": -5}
NUMERIC |= {"1,234.50": "1234.5", "22/day": 22, "(3 items)": 3, "Total: $7": 7, "[7]": 7}
DATES = {"2026-01-10": "2026-01-10T00:00:00+00:00", "2026-01-10T12:00:00+02:00": "2026-01-10T10:00:00+00:00"}
DATES |= {"2026-01-10T12:00:00Z": "2026-01-10T12:00:00+00:00", "2026-01-09 08:30": "2026-01-09T08:30:00+00:00"}
PLAIN = ["", "a", "ab", "true", "False", "null", "3 of 10", "15:30", "EXP-6631", "v1", "2026-13-45", "\u0667", "$"]
READS_ALIKE = {
    "7",
    "7.0",
    "007",
    " 7 ",
    "-5",
    "0.5",
}  # equal to a number; the others only have an order with one


def exact(number: float) -> Fraction:
    return Fraction(repr(number))


def same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, str) and isinstance(b, str):
        return a == b
    if isinstance(b, str):
        a, b = b, a
    if isinstance(a, str) and isinstance(b, bool):
        return a.strip().lower() == str(b).lower()
    if isinstance(a, str) and isinstance(b, int | float):
        return a in READS_ALIKE and exact(float(a)) == exact(b)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def rank(value: Any) -> tuple[str, Any] | None:
    """What gives a value a place in an order."""
    if isinstance(value, str) and value in DATES:
        return "moment", datetime.fromisoformat(DATES[value])
    if isinstance(value, str):
        return ("number", Fraction(NUMERIC[value])) if value in NUMERIC else None
    return ("number", exact(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def spelled(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float | str) else None


def contains(whole: Any, part: Any) -> bool:
    if isinstance(whole, list):
        return any(same(item, part) for item in whole)
    if isinstance(whole, dict):
        return spelled(part) in whole
    return spelled(whole) is not None and spelled(part) is not None and spelled(part) in spelled(whole)


Truth = bool | None
"""Whether a condition holds; None: neither it nor its opposite does."""


def related(operator: str, a: Any, b: Any) -> Truth:
    if operator == "includes":
        return contains(a, b)
    if operator == "matches":
        return spelled(a) is not None and re.search(b, spelled(a)) is not None
    if operator in ("==", "!="):
        if (a is None and b == "") or (b is None and a == ""):
            return None
        return same(a, b) is (operator == "==")
    first, second = rank(a), rank(b)
    if first is None or second is None or first[0] != second[0]:
        return None
    return {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[operator]


def at(document: Any, path: str) -> list[Any]:
    """All that the path leads to."""
    found = [document]
    for segment in path.replace("[", ".").replace("]", "").strip(".").split(".") if path else []:
        found = [child for parent in found for child in below(parent, segment, f"[{segment}]" in path)]
    return found


def below(parent: Any, segment: str, bracketed: bool) -> list[Any]:
    if segment == "*":
        return list(parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else [])
    if isinstance(parent, dict):
        return [parent[segment]] if segment in parent and not bracketed else []
    if isinstance(parent, list) and segment.lstrip("-").isdigit() and -len(parent) <= int(segment) < len(parent):
        return [parent[int(segment)]]
    return []


def remembered(memory: dict[str, Any], key: str) -> list[Any]:
    if key in memory:
        return [memory[key]]
    cuts = [place for place, letter in enumerate(key) if letter in ".[" and place]
    for cut in reversed(cuts):
        if key[:cut] in memory and (found := at(memory[key[:cut]], key[cut:].removeprefix("."))):
            return found
    gathered: dict[str, Any] = {}
    for name in sorted(memory, key=len):
        place = gathered
        *way, last = name.split(".")
        for part in way:
            place[part] = place[part] if isinstance(place.get(part), dict) else {}
            place = place[part]
        place[last] = deepcopy(memory[name])
    return at(gathered, key)


Seen = tuple[str, Any]
"""What a value is: `one` value, a `list` of found values, `missing`, `nothing` that could have it, or `unread`."""


def read_path(document: Any, path: str) -> Seen:
    if "*" in path:
        root = re.split(r"\.?\*|\[\*\]", path)[0]
        there = any(isinstance(each, list | dict) for each in at(document, root))
        return ("list", at(document, path)) if there else ("missing", None)
    found = at(document, path)
    return ("one", found[0]) if found else ("missing", None)


def read_memory(memory: dict[str, Any], key: str) -> Seen:
    found = remembered(memory, key)
    if "*" in key and key not in memory:
        root = re.split(r"\.?\*|\[\*\]", key)[0]
        there = not root or any(isinstance(each, list | dict) for each in remembered(memory, root))
        return ("list", found) if there or found else ("missing", None)
    return ("one", found[0]) if found else ("missing", None)


def seen(node: Value, world: World) -> Seen:
    match node:
        case Literal(value=value):
            return "one", value
        case ListOf(items=items):
            parts = [seen(item, world) for item in items]
            return ("unread", None) if any(kind == "unread" for kind, _ in parts) else ("one", [v for _, v in parts])
        case ObjectOf(entries=fields):
            found = {key: seen(item, world) for key, item in fields}
            unread = any(kind == "unread" for kind, _ in found.values())
            return ("unread", None) if unread else ("one", {key: value for key, (_, value) in found.items()})
        case Length(of=of):
            kind, value = seen(of, world)
            if isinstance(value, str | list | dict):
                return "one", len(value)
            return ("unread" if kind == "unread" else "nothing"), None
        case Compare():
            truth = holds(node, world)
            return ("unread", None) if truth is None else ("one", truth)
        case Read(function="mem", arguments=(key,)):
            return read_memory(world.entries, key)
        case Read(function="json", arguments=(_, path)):
            return read_path(world.channels["env"], path)
        case Read(function="time_since" | "time_until" as name, arguments=(key,)):
            kind, value = read_memory(world.entries, key)
            moments = [rank(each)[1] for each in (value if kind == "list" else [value]) if each in [*DATES]]
            if kind == "missing":
                return kind, None
            if len(moments) < (len(value) if kind == "list" else 1):
                return "unread", None
            sign = 1 if name == "time_since" else -1
            seconds = [sign * (START - moment).total_seconds() for moment in moments]
            return (kind, seconds) if kind == "list" else (kind, seconds[0])
        case Read(function=function, arguments=arguments):
            nothing = {"exists": False, "visible": False, "count": 0}.get(function)
            value = world.pages.get((function, *arguments), nothing)
            there = function in ("attr", "value") and world.pages.get(("exists", arguments[0]))
            return ("one", value) if value is not None else ("missing" if there else "nothing", None)


def one(node: Value, world: World) -> Any:
    return seen(node, world)[1]


def fixed(node: Value) -> bool:
    return not any(isinstance(part, Read) for part in walk(node))


def compared(operator: str, left: Seen, right: Seen) -> Truth:
    kinds, values = {left[0], right[0]}, [left[1], right[1]]
    if "unread" in kinds:
        return None
    if not kinds & {"missing", "nothing"}:
        return related(operator, *values)
    lacking = [kind in ("missing", "nothing") for kind, _ in (left, right)]
    if operator in ("==", "!="):
        if all(lacking):
            return None
        other = right[1] if lacking[0] else left[1]
        if other is None:
            return operator == "=="
        return None if "nothing" in kinds or other == "" else operator == "!="
    certain = operator in ("includes", "matches") and "nothing" not in kinds and not lacking[1]
    return False if certain else None


def several(found: Seen) -> list[Seen]:
    return [("one", each) for each in found[1]] if found[0] == "list" else [found]


def some(truths: list[Truth]) -> Truth:
    return True if True in truths else None if None in truths else False


def holds(node: Condition, world: World) -> Truth:
    match node:
        case Compare(operator=operator, left=left, right=right, over=over):
            if fixed(left) and not fixed(right) and operator not in ("includes", "matches"):
                left, right = right, left
                operator = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
            a, b = seen(left, world), seen(right, world)
            if not over:
                return compared(operator, a, b)
            whole = operator == "includes"  # an item of the list on the left
            pairs = product([a] if whole else several(a), several(b))
            truths = [compared(operator, x, y) for x, y in pairs]
            if over == "ANY":
                return some(truths)
            return next((truth for truth in truths if not truth), True)
        case Test(read=read):
            return one(read, world) is True
        case Every(parts=parts):
            return next((truth for part in parts if not (truth := holds(part, world))), True)
        case Some(parts=parts):
            return some([holds(part, world) for part in parts])
        case Not(part=part):
            truth = holds(part, world)
            return None if truth is None else not truth
        case Within(part=part) | Stable(part=part):  # in a world where nothing changes
            return holds(part, world)
