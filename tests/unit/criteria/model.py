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
    Part,
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
NUMERIC = {"7": 7, "7.0": 7, "007": 7, " 7 ": 7, "1e3": 1000, "-5": -5, "0.5": "0.5", "$24.99": "24.99", "-$5": -5}
NUMERIC |= {"1,234.50": "1234.5", "22/day": 22, "(3 items)": 3, "Total: $7": 7, "[7]": 7}
DATES = {"2026-01-10": "2026-01-10T00:00:00+00:00", "2026-01-10T12:00:00+02:00": "2026-01-10T10:00:00+00:00"}
DATES |= {"2026-01-10T12:00:00Z": "2026-01-10T12:00:00+00:00", "2026-01-09 08:30": "2026-01-09T08:30:00+00:00"}
PLAIN = ["", "a", "ab", "true", "False", "null", "3 of 10", "15:30", "EXP-6631", "v1", "2026-13-45", "\u0667", "$"]
READS_ALIKE = {
    "7",
    "7.0",
    "007",
    " 7 ",
    "1e3",
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


def related(operator: str, a: Any, b: Any) -> bool:
    if operator == "includes":
        return contains(a, b)
    if operator == "matches":
        return spelled(a) is not None and re.search(b, spelled(a)) is not None
    if operator == "==":
        return same(a, b)
    if operator == "!=":
        return a is not None and not same(a, b)
    first, second = rank(a), rank(b)
    if first is None or second is None or first[0] != second[0]:
        return False
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


def matches(node: Value, world: World) -> tuple[list[Any], bool]:
    """All that the value comes to, and whether it may be several."""
    match node:
        case Literal(value=value):
            return [value], False
        case ListOf(items=items):
            return [[one(item, world) for item in items]], False
        case ObjectOf(entries=fields):
            return [{key: one(item, world) for key, item in fields}], False
        case Length(of=of):
            found, several = matches(of, world)
            return [len(value) for value in found if isinstance(value, str | list | dict)], several
        case Part(of=of, segment=segment):
            parents, bracketed = matches(of, world)[0], isinstance(segment, int)
            return [child for parent in parents for child in below(parent, str(segment), bracketed)], False
        case Compare():
            return [holds(node, world)], False
        case Read(function="requests", arguments=(pattern,)):
            return [[each for each in world.sent if pattern in each["url"]]], False
        case Read(function="mem", arguments=(key,)):
            return remembered(world.entries, key), "*" in key
        case Read(function="json", arguments=(_, path)):
            return at(world.channels["env"], path), "*" in path
        case Read(function="time_since" | "time_until" as name, arguments=(key,)):
            moments = [rank(value)[1] for value in remembered(world.entries, key) if value in [*DATES]]
            sign = 1 if name == "time_since" else -1
            return [sign * (START - moment).total_seconds() for moment in moments], "*" in key
        case Read(function=function, arguments=arguments):
            nothing = {"exists": False, "visible": False, "count": 0}.get(function)
            value = world.pages.get((function, *arguments), nothing)
            return [value] if value is not None else [], False


def one(node: Value, world: World) -> Any:
    found, several = matches(node, world)
    return found if several else found[0] if found else None


def fixed(node: Value) -> bool:
    return not any(isinstance(part, Read) for part in walk(node))


def holds(node: Condition, world: World) -> bool:
    match node:
        case Compare(operator=operator, left=left, right=right):
            if fixed(left) and not fixed(right) and operator not in ("includes", "matches"):
                left, right = right, left
                operator = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
            a, b = matches(left, world)[0], matches(right, world)[0]
            if not a or not b:
                return operator == "==" and None in a + b
            return any(related(operator, x, y) for x, y in product(a, b))
        case Test(read=read):
            return one(read, world) is True
        case Every(parts=parts):
            return all(holds(part, world) for part in parts)
        case Some(parts=parts):
            return any(holds(part, world) for part in parts)
        case Not(part=part):
            return not holds(part, world)
        case Within(part=part) | Stable(part=part):  # in a world where nothing changes
            return holds(part, world)
