"""Random syntax trees over the whole language, and every way to write one."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from random import Random

from hypothesis import strategies as st

from harness.criteria.lists import needs_a_word
from harness.criteria.syntax import (
    Compare,
    Condition,
    Every,
    Length,
    ListOf,
    Literal,
    Not,
    Number,
    ObjectOf,
    Part,
    Read,
    Some,
    Stable,
    Sum,
    Test,
    Value,
    Within,
)
from harness.values import replace

ORDERS = ["==", "!=", "<", "<=", ">", ">=", "includes"]
texts = st.text(max_size=8)
selectors = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
names = st.text("abZ-0 \u95ee", min_size=1, max_size=4).filter(lambda text: bool(text.strip()))
ends = st.sampled_from(
    ["", ".*", "[0]", "[-1]", "[*]", "['x.y']", ".7", "[?a.b=='x'].c", "[?a==1][*]", "[?a==null][0]"]
)
paths = st.builds(lambda parts, end: ".".join(parts) + end, st.lists(names, min_size=1, max_size=3), ends)
numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
literals = st.one_of(st.none(), st.booleans(), numbers, texts).map(Literal)
patterns = st.sampled_from([r"^\d+'\"$", "a|b", "", r"\\", "[0-9]{1,3}(,[0-9]{3})*", "\u8ba2\u5355 ?\n"]).map(Literal)
segments = st.one_of(st.integers(-3, 3), st.sampled_from(["url", "json", "length", "a b", "x'y", "*"]))
asked = st.builds(Read, st.just("requests"), st.tuples(st.sampled_from(["a", "b", "POST */c"])))
parts: st.SearchStrategy[Value] = st.recursive(asked, lambda of: st.builds(Part, of, segments), max_leaves=4)
reads = st.one_of(
    parts,
    st.builds(Read, st.sampled_from(["exists", "text", "value", "count", "visible"]), st.tuples(selectors)),
    st.builds(Read, st.just("attr"), st.tuples(selectors, selectors)),
    st.builds(Read, st.sampled_from(["url", "title"]), st.just(())),
    st.builds(Read, st.sampled_from(["mem", "time_since", "time_until"]), st.tuples(paths)),
    st.builds(Read, st.just("result"), st.tuples(st.one_of(st.just(""), paths))),
    st.builds(Read, st.just("json"), st.tuples(selectors, st.one_of(st.just(""), paths))),
)


def settled(tree: Value | Condition) -> Value | Condition:
    """The tree with `ANY` or `ALL` where a comparison of the values of a list needs it, and without others."""
    match tree:
        case Every(parts=parts) | Some(parts=parts):
            word = "ALL" if isinstance(tree, Every) else "ANY"
            return replace(tree, parts=tuple(_direct(word, part) for part in parts))
        case Not(part=part) | Within(part=part) | Stable(part=part):
            return replace(tree, part=settled(part))
        case Sum(left=left, right=right):
            return replace(tree, left=_value(left), right=_value(right))
        case Compare():
            found = _direct("ANY", tree)
            return Some((found,)) if found.over else found
        case Test() | Read() | Literal():
            return tree
        case _:
            return _value(tree)


def _direct(word: str, part: Condition) -> Condition:
    if not isinstance(part, Compare):
        return settled(part)
    found = replace(part, left=_value(part.left), right=_value(part.right))
    return replace(found, over=word) if needs_a_word(found) else found


def _value(tree: Value) -> Value:
    match tree:
        case ListOf(items=items):
            return ListOf(tuple(map(_value, items)))
        case ObjectOf(entries=entries):
            return ObjectOf(tuple((key, _value(item)) for key, item in entries))
        case Part(of=of) | Length(of=of) | Number(of=of):
            return replace(tree, of=_value(of))
        case Compare():
            found = _direct("", tree)
            return Literal(True) if needs_a_word(found) else found
        case _:
            return tree


def compared(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Compare]:
    return st.one_of(
        st.builds(Compare, st.sampled_from(ORDERS), values, values),
        st.builds(Compare, st.just("matches"), values, patterns),
    )


def combined(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    entries = st.dictionaries(texts, values, max_size=2).map(lambda found: tuple(found.items()))
    lists = st.lists(values, max_size=3).map(tuple)
    numbered = st.builds(Number, values, st.sampled_from(["", "([0-9]+) of", "'(a|b)\""]))
    sums = st.builds(Sum, values, st.sampled_from("+-"), values)
    return st.one_of(
        sums,
        st.builds(ListOf, lists),
        st.builds(ObjectOf, entries),
        st.builds(Length, values),
        numbered,
        compared(values),
    )


any_values: st.SearchStrategy[Value] = st.recursive(st.one_of(literals, reads), combined, max_leaves=4)
values = any_values.map(_value)
tests = st.builds(Read, st.sampled_from(["exists", "visible"]), st.tuples(selectors)).map(Test)
seconds = st.floats(0, 1000).map(lambda number: round(number, 3))


def joined(
    parts: st.SearchStrategy[Condition], limits: st.SearchStrategy[float] = seconds
) -> st.SearchStrategy[Condition]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Every, some),
        st.builds(Some, some),
        st.builds(Not, parts),
        st.builds(Within, st.one_of(limits, st.just(math.inf)), parts),
        st.builds(Stable, limits, parts),
    )


conditions: st.SearchStrategy[Condition] = st.recursive(
    st.one_of(compared(any_values), tests), joined, max_leaves=6
).map(settled)


@dataclass
class Hand:
    """Writes trees down; with a seed, in any of the ways that mean the same."""

    seed: int | None = None
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def write(self, node: Value | Condition) -> str:
        match node:
            case Literal() | ListOf() | ObjectOf() | Read() | Part() | Length() | Number() | Sum():
                return self.space(self.value(node))
            case Compare():
                return self.space(self.comparison(node))
            case Test(read=read):
                return self.space(self.value(read))
            case Every(parts=parts):
                return self.many("ALL", "&&", parts)
            case Some(parts=parts):
                return self.many("ANY", "||", parts)
            case Not(part=part):
                return "!" + self.operand(part) if self.whim() else f"NOT[{self.items([part])}]"
            case Within(seconds=math.inf, part=part):
                return f"EVENTUALLY({self.items([part])})"
            case Within(seconds=limit, part=part):
                return f"WITHIN({limit}, {self.items([part])})"
            case Stable(seconds=limit, part=part):
                return f"STABLE({limit}{'s' * self.whim()}, {self.items([part])})"

    def value(self, node: Value) -> str:
        match node:
            case Literal(value=str(text)):
                return self.quoted(text)
            case Literal(value=value):
                return json.dumps(value)
            case Read(function=function, arguments=arguments):
                return f"{function}({', '.join(map(self.quoted, arguments))}{',' * (bool(arguments) and self.whim())})"
            case ListOf(items=items):
                return f"[{self.items(items)}]"
            case ObjectOf(entries=entries):
                inner = ",".join(f"{self.key(key)}: {self.write(value)}" for key, value in entries)
                return "{" + inner + "}"
            case Part(of=of, segment="url" | "json" as name) if self.whim():
                return f"{self.operand(of)}.{name}"
            case Part(of=of, segment=segment):
                return f"{self.operand(of)}[{segment if isinstance(segment, int) else self.quoted(segment)}]"
            case Length(of=of):
                return f"{self.operand(of)}.length"
            case Number(of=of, pattern=pattern):
                return f"number({self.write(of)}{', ' + self.quoted(pattern) if pattern else ''})"
            case Sum(left=left, sign=sign, right=right):
                return f"{self.operand(left)} {sign} {self.operand(right)}"
            case Compare():
                return self.comparison(node)

    def comparison(self, node: Compare) -> str:
        left, right = self.operand(node.left), self.operand(node.right)
        if node.operator in ("includes", "matches") and self.whim():
            return f"{left}.{node.operator}({self.items([node.right])})"
        return f"{left} {node.operator} {right}"

    def operand(self, node: Value | Condition) -> str:
        """Something that stands beside an operator."""
        text = self.write(node)
        return text if isinstance(node, Read | Part | ListOf | ObjectOf) and not self.whim() else f"({text})"

    def many(self, name: str, operator: str, parts: tuple[Condition, ...]) -> str:
        apart = any(isinstance(part, Compare) and part.over for part in parts)
        if len(parts) > 1 and not apart and self.whim():
            return "(" + operator.join(map(self.operand, parts)) + ")"
        return f"{name}[{self.items(parts)}]"

    def items(self, nodes: list[Value | Condition] | tuple[Value | Condition, ...]) -> str:
        return ",".join(map(self.write, nodes)) + "," * (bool(nodes) and self.whim())

    def key(self, key: str) -> str:
        bare = key.isascii() and key.isidentifier()
        return key if bare and self.whim() else self.quoted(key)

    def quoted(self, text: str) -> str:
        quote = '"' if self.whim() else "'"
        escaped = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
        return quote + (escaped.replace("\n", r"\n").replace("\t", r"\u0009") if self.whim() else escaped) + quote

    def space(self, text: str) -> str:
        return f" \n\t{text}\u00a0" if self.whim() else text

    def whim(self) -> bool:
        return self.seed is not None and self.random.random() < 0.3
