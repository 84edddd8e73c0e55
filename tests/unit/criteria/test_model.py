"""Evaluation against an obvious model of the language in plain Python, over random documents and criteria."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria import Json
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
from tests.unit.conftest import examples
from tests.unit.criteria.conftest import World
from tests.unit.criteria.model import DATES, NUMERIC, PLAIN, holds, one
from tests.unit.criteria.trees import ORDERS, Hand, settled

PATTERNS = ["a", "^7", "[0-9]{2}", "^$", "true", r"\$\d+\.\d\d$", "e", "^-"]

texts = st.sampled_from([*NUMERIC, *DATES, *PLAIN])
scalars = st.one_of(st.none(), st.booleans(), st.sampled_from([7, 7.0, 0, 1, -5, 0.5, 1000, 24.99, 22]), texts)
keys = st.sampled_from(["a", "b", "c"])
documents: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=8,
)
segments = st.one_of(keys, keys, st.sampled_from(["*", "[0]", "[-1]", "[*]", "1"]))
ways = st.lists(segments, min_size=1, max_size=3)
paths = ways.map(lambda way: ".".join(way).replace(".[", "["))
entries = st.dictionaries(
    st.sampled_from(["a", "b", "a.b", "a.b.c", "a.c", "b.a", "c.b.a", "[0]"]), documents, max_size=5
)
worlds = st.builds(
    lambda memory, document, text, count: World(
        entries=memory,
        channels={"env": document},
        pages={("text", "#t"): text, ("value", "#t"): text, ("count", "#t"): count, ("exists", "#t"): count > 0}
        | {("url",): text, ("attr", "#t", "a"): text, ("visible", "#t"): count > 1},
        sent=[{"url": "a", "json": document}, {"url": "POST */c"}, {"url": "a", "json": text}],
        limit=1e9,
    ),
    entries,
    documents,
    st.one_of(st.none(), texts),
    st.integers(0, 2),
)
page_reads = [Read(name, ("#t",)) for name in ("text", "value", "count", "exists", "visible")]
page_reads += [Read("attr", ("#t", "a")), Read("text", ("#no",)), Read("url", ()), Read("title", ())]
reads = st.one_of(
    st.builds(lambda path: Read("mem", (path,)), paths),
    st.builds(lambda path: Read("json", ("env", path)), st.one_of(st.just(""), paths)),
    st.builds(lambda name, path: Read(name, (path,)), st.sampled_from(["time_since", "time_until"]), paths),
    st.sampled_from(page_reads),
)


def wider(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    fields = st.dictionaries(keys, values, max_size=2).map(lambda found: tuple(found.items()))
    return st.one_of(
        st.builds(ListOf, st.lists(values, max_size=2).map(tuple)),
        st.builds(ObjectOf, fields),
        st.builds(Length, values),
        comparisons(values),
    )


def comparisons(values: st.SearchStrategy[Value]) -> st.SearchStrategy[Compare]:
    return st.one_of(
        st.builds(Compare, st.sampled_from(ORDERS), values, values),
        st.builds(Compare, st.just("matches"), values, st.sampled_from(PATTERNS).map(Literal)),
    )


any_values: st.SearchStrategy[Value] = st.recursive(st.one_of(reads, reads, scalars.map(Literal)), wider, max_leaves=3)
values = any_values.map(settled)
questions = st.sampled_from([Test(read) for read in page_reads if read.function in ("exists", "visible")])


def deeper(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Every, some),
        st.builds(Some, some),
        st.builds(Not, parts),
        st.builds(Stable, st.sampled_from([0.0, 0.3]), parts),
    )


leaves = st.one_of(comparisons(any_values), comparisons(any_values), questions)
leaves |= st.builds(Within, st.sampled_from([0.0, 0.4]), leaves)  # around a STABLE it would be too short to see it
trees: st.SearchStrategy[Condition] = st.recursive(leaves, deeper, max_leaves=5).map(settled)


@settings(deadline=None, max_examples=examples(300))
@given(worlds, trees, st.integers(0, 1000))
def test_a_criterion_holds_when_the_model_says_so(world: World, tree: Condition, seed: int) -> None:
    verdict = world.judge(Hand(seed).write(tree))
    assert verdict.holds is (holds(tree, world) is True)
    assert verdict.holds or verdict.explanation.message


@settings(deadline=None, max_examples=examples(200))
@given(worlds, values)
def test_a_value_is_what_the_model_says(world: World, tree: Value) -> None:
    assert world.value(Hand().write(tree)) == one(tree, world)


@settings(deadline=None, max_examples=examples(300))
@given(scalars, st.sampled_from(ORDERS), scalars)
def test_two_constants_compare_as_the_model_says(left: Json, operator: str, right: Json) -> None:
    tree = Compare(operator, Literal(left), Literal(right))
    assert World().holds(Hand().write(tree)) is (holds(tree, World()) is True)
