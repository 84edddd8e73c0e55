"""Trees, written as text, parse back to themselves."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.criteria import parse
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
)

texts = st.text(max_size=8)
selectors = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
keys = st.lists(st.text("abZ-0 \u95ee", min_size=1, max_size=4), min_size=1, max_size=3).map(".".join)
keys = keys.filter(lambda text: bool(text.strip()))
numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
literals = st.one_of(st.none(), st.booleans(), numbers, texts).map(Literal)
reads = st.one_of(
    st.builds(Read, st.sampled_from(["exists", "text", "value", "count", "visible"]), st.tuples(selectors)),
    st.builds(Read, st.just("attr"), st.tuples(selectors, selectors)),
    st.builds(Read, st.sampled_from(["url", "title"]), st.just(())),
    st.builds(Read, st.sampled_from(["mem", "time_since", "time_until"]), st.tuples(keys)),
    st.builds(Read, st.just("json"), st.tuples(selectors, keys)),
)


def _wider(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    entries = st.dictionaries(texts, values, max_size=2).map(lambda found: tuple(found.items()))
    lists = st.lists(values, max_size=3).map(tuple)
    return st.one_of(st.builds(ListOf, lists), st.builds(ObjectOf, entries), st.builds(Length, values))


values: st.SearchStrategy[Value] = st.recursive(st.one_of(literals, reads), _wider, max_leaves=4)
compares = st.one_of(
    st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "includes"]), values, values),
    st.builds(Compare, st.just("matches"), values, st.just(Literal(r"^\d+'\"$"))),
)
tests = st.builds(Read, st.sampled_from(["exists", "visible"]), st.tuples(selectors)).map(Test)
seconds = st.floats(0, 1000).map(lambda number: round(number, 3))


def _deeper(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Every, some),
        st.builds(Some, some),
        st.builds(Not, parts),
        st.builds(Within, st.one_of(seconds, st.just(float("inf"))), parts),
        st.builds(Stable, seconds, parts),
    )


conditions: st.SearchStrategy[Condition] = st.recursive(st.one_of(compares, tests), _deeper, max_leaves=6)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def written(node: Value | Condition) -> str:
    match node:
        case Literal(value=str(text)):
            return quoted(text)
        case Literal(value=value):
            return json.dumps(value)
        case Read(function=function, arguments=arguments):
            return f"{function}({', '.join(map(quoted, arguments))})"
        case ListOf(items=items):
            return f"[{', '.join(map(written, items))}]"
        case ObjectOf(entries=entries):
            return "{" + ", ".join(f"{quoted(key)}: {written(value)}" for key, value in entries) + "}"
        case Length(of=of):
            return written(of) + ".length" if not isinstance(of, Literal) else f"({written(of)}).length"
        case Compare(operator=operator, left=left, right=right):
            return f"{written(left)} {operator} {written(right)}"
        case Test(read=read):
            return written(read)
        case Every(parts=parts):
            return f"ALL[{', '.join(map(written, parts))}]"
        case Some(parts=parts):
            return "(" + " || ".join(map(written, parts)) + ")" if len(parts) > 1 else f"ANY[{written(parts[0])}]"
        case Not(part=part):
            return f"NOT[{written(part)}]"
        case Within(seconds=limit, part=part):
            return f"EVENTUALLY({written(part)})" if limit == float("inf") else f"WITHIN({limit}, {written(part)})"
        case Stable(seconds=limit, part=part):
            return f"STABLE({limit}s, {written(part)})"


@given(conditions)
def test_a_tree_comes_back_from_its_text(tree: Condition) -> None:
    text = written(tree)
    criterion = parse(text)
    assert criterion.tree == tree


@given(conditions)
def test_every_part_knows_its_own_text(tree: Condition) -> None:
    text = written(tree)
    parsed = parse(text).tree
    inner = parsed.parts[0] if isinstance(parsed, Every | Some) else parsed
    assert text[inner.offset : inner.offset + len(inner.source)] == inner.source
    assert parse(inner.source).tree == inner
