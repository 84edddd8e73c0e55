"""What is decided by evidence of one moment is what the real evaluation says, whatever happens after that moment."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.criteria import PageQuery, evaluate, parse
from harness.criteria.syntax import Compare, Condition, Happened, Literal, Read, Test
from harness.reporting.redaction import MARK
from harness.reporting.regrade.recorded import RecordedPage, RecordedSources
from harness.reporting.regrade.regrading import Grade, grade
from harness.resilience import Deadline
from tests.unit.conftest import examples
from tests.unit.criteria.trees import Hand, joined, settled
from tests.unit.fakes import FakeClock

NOW = datetime(2025, 11, 16, 9, tzinfo=UTC)
IDS = ("always", "never", "late", "brief", "blinking")
MEMORY = {"order.id": "O-1", "pin": "4711", "total": 24.99, "begun": "2025-11-16T08:00:00Z", "list": ["a", "b"]}
HIDDEN = {**MEMORY, "pin": MARK, "list": ["a", MARK]}
CHANNEL = {"users": {"alex": {"plan": "gold"}}, "secret": "4711"}


def there(name: str, time: float) -> bool:
    match name:
        case "late":
            return time >= 1.3
        case "brief":
            return time < 0.7
        case "blinking":
            return int(time * 2) % 2 == 0
        case _:
            return name == "always"


@dataclass
class Moving:
    """A world whose page changes as time goes by."""

    clock: FakeClock
    locale: str | None = None

    async def page(self, query: PageQuery, until: float) -> Any:
        present = there((query.selector or "#")[1:], self.clock.time)
        return {"exists": present, "count": int(present), "text": "shown" if present else None}[query.function]

    async def memory(self) -> Mapping[str, Any]:
        return MEMORY

    async def channel(self, name: str) -> Any:
        return CHANNEL

    async def happened(self, function: str, pattern: str, until: float) -> Happened:
        return Happened([])

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.clock.time)


def element(selector: str, *, present: bool = True, **changes: Any) -> dict[str, Any]:
    """What is kept of a selector."""
    found = {"count": int(present), "visible": False, "text": "shown" if present else None, "value": None}
    return {"selector": selector, "frame": None, **found, "text_content": found["text"], "attributes": {}, **changes}


def page(*elements: dict[str, Any]) -> RecordedPage:
    return RecordedPage.model_validate({"version": 3, "url": "http://x/", "title": "x", "elements": elements})


def evidence(memory: Mapping[str, Any] = MEMORY, **fields: Any) -> RecordedSources:
    """Of the moment at which the real evaluation begins."""
    recorded: dict[str, Any] = {
        "recorded_page": page(*(element(f"#{name}", present=there(name, 0)) for name in IDS)),
        "entries": memory,
        "channels": {"env": CHANNEL},
        "at": NOW,
    }
    return RecordedSources(**{**recorded, **fields})


def judged(text: str, sources: RecordedSources | None = None, expect: float = 0.0) -> Grade:
    return asyncio.run(grade(parse(text), sources or evidence(), expect))


selectors = st.sampled_from([f"#{name}" for name in IDS])
reads = st.one_of(
    st.builds(Read, st.sampled_from(["text", "count"]), st.tuples(selectors)),
    st.builds(Read, st.just("mem"), st.tuples(st.sampled_from([*MEMORY, "order", "list[*]", "list[1]", "none"]))),
    st.builds(
        Read, st.just("json"), st.tuples(st.just("env"), st.sampled_from(["users.*.plan", "secret", "users.none", ""]))
    ),
    st.builds(Read, st.sampled_from(["time_since", "time_until"]), st.just(("begun",))),
)
literals = st.sampled_from([None, True, 0, 1, 3600, "shown", "O-1", "4711", "gold", "a", 24.99]).map(Literal)
operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "includes"])
checks: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Test, st.builds(Read, st.just("exists"), st.tuples(selectors))),
    st.builds(Compare, operators, reads, st.one_of(literals, reads)),
)
limits = st.sampled_from([0.0, 0.5, 1.0, 2.0])
trees: st.SearchStrategy[Condition] = st.recursive(checks, lambda parts: joined(parts, limits), max_leaves=8).map(
    settled
)


def real(text: str, limit: float) -> bool:
    clock = FakeClock()
    return asyncio.run(evaluate(parse(text), Moving(clock), clock, Deadline(limit))).holds


@settings(deadline=None, max_examples=examples(150))
@given(trees, st.sampled_from([1.0, 3.0, 10.0]))
def test_what_is_decided_is_what_the_real_evaluation_says(tree: Condition, limit: float) -> None:
    text = Hand().write(tree)
    assert judged(text).holds in (None, real(text, limit))


@settings(deadline=None, max_examples=examples(100))
@given(trees)
def test_redacted_evidence_decides_less_and_nothing_else(tree: Condition) -> None:
    text = Hand().write(tree)
    assert judged(text, evidence(HIDDEN, channels={"env": {**CHANNEL, "secret": MARK}})).holds in (None, real(text, 5))


@settings(deadline=None, max_examples=examples(80))
@given(checks.map(settled).map(Hand().write).filter(lambda text: "time_" not in text))
def test_without_waits_and_clocks_whole_evidence_decides_all(text: str) -> None:
    assert judged(text).holds is real(text, 5)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("EVENTUALLY(exists('#always'))", True),
        ("EVENTUALLY(exists('#never'))", None),
        ("STABLE(1, exists('#never'))", False),
        ("STABLE(1, exists('#always'))", None),
        ("WITHIN(0, exists('#never'))", False),
        ("STABLE(0, exists('#always'))", True),
        ("NOT[EVENTUALLY(exists('#never'))]", None),
        ("ANY[EVENTUALLY(exists('#never')), exists('#always')]", True),
        ("ALL[exists('#never'), EVENTUALLY(exists('#late'))]", False),
        ("ALL[EVENTUALLY(exists('#late')), exists('#never')]", None),  # judged when that has come, later
        ("ALL[EVENTUALLY(exists('#always')), exists('#never')]", False),
        ("ALL[exists('#never'), mem('pin') == '1']", None),  # decided only when all that it reads is known
        ("mem('pin') == '4711'", None),
        ("mem('pin').length > 0", None),
        ("mem('list[0]') == 'a'", True),
        ("mem('list[*]') includes 'b'", None),
        ("[mem('pin'), 1] == [1, 1]", None),
        ("time_since('begun') < 3601", None),
        ("ALL[time_since('begun') > 3599, time_since('begun') < 3601]", None),
        ("time_since('begun') < 3700", True),
        ("time_until('begun') > 0", False),
        ("time_since('pin') < 3700", None),
        ("json('other', 'a') == 1", None),
        ("visible('#always')", False),
        ("text('#always').length == 5", True),
        ("text('#other') == 'shown'", None),
        ("exists('#other')", None),
    ],
)
def test_what_can_be_told(text: str, holds: bool | None) -> None:
    found = judged(text, evidence(HIDDEN))
    assert found.holds is holds
    assert found.part
    assert found.holds or found.why


def test_what_a_run_would_have_waited_for_is_not_taken_for_unmet() -> None:
    assert judged("exists('#never')", expect=5).holds is None
    assert judged("exists('#always')", expect=5).holds is True
    assert judged("WITHIN(0, exists('#never'))", expect=5).holds is False  # it says itself how it waits


FORM = page(
    element("#a", count=2, visible=True, text="two words", attributes={"title": MARK, "viewBox": "0"}),
    element("#told", text=f"Hello {MARK}"),
    element("text=Go >> nth=0", value="go", attributes={"value": "was"}),
    element("#none", present=False),
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("text('#a') == 'two words'", True),
        ("count('#a') == 2", True),
        ("exists('#a')", True),
        ("visible('#a')", True),
        ("attr('#a', 'title') == 'x'", None),
        ("attr('#a', 'nothing') == null", True),
        ("attr('#a', 'viewBox') == '0'", True),
        ("attr('#a', 'NOTHING') == null", None),
        ("attr('#none', 'NOTHING') == null", True),
        ("text('#told') includes 'Hello'", None),
        ("exists('#told')", True),
        ("value('text=Go >> nth=0') == 'go'", True),
        ("attr('text=Go >> nth=0', 'value') == 'was'", True),
        ("text('#none') == ''", False),
        ("title() == 'x'", True),
        ("exists('#b')", None),
    ],
)
def test_a_kept_page_answers_for_the_elements_that_the_run_looked_at(text: str, holds: bool | None) -> None:
    assert judged(text, evidence(recorded_page=FORM)).holds is holds


def test_the_part_that_cannot_be_told_is_named_with_its_reason() -> None:
    found = judged("ALL[exists('#always'), ANY[mem('pin') == '4711', exists('#never')]]", evidence(HIDDEN))
    assert (found.part, found.why) == ("mem('pin')", "mem('pin') is redacted in the evidence")


def test_a_redacted_name_may_be_the_one_that_is_missed() -> None:
    sources = evidence({MARK: 1}, channels={"env": {"a": {MARK: 1}}})
    assert judged("mem('x') == null", sources).holds is None
    assert judged("json('env', 'a.x') == null", sources).holds is None
    assert judged("ANY[json('env', 'a.*') == 1]", sources).holds is None
    quoted = evidence({"a": f'{MARK}": 1', "b": [MARK, "c"]})  # a value that looks like a name
    assert judged("mem('x') == null", quoted).holds is True


def test_what_was_not_recorded_is_undecided_with_the_reason() -> None:
    sources = RecordedSources(
        "the page does not answer",
        "memory_snapshot.json was not found",
        {"env": {"error": "refused"}},
        None,
        "http://u/",
    )
    for text, why in {
        "exists('#a')": "the page was not recorded: the page does not answer",
        "mem('a') == 1": "memory was not recorded: memory_snapshot.json was not found",
        "json('env', 'a') == 1": "channel `env` could not be read in the run: refused",
        "requests('POST *').length == 1": "the requests that match POST * are not part of the evidence that is judged",
        "json('x', 'a') == 1": "channel `x` could not be read in the run: it was not recorded",
    }.items():
        assert judged(text, sources).why == why
    assert judged("url() == 'http://u/'", sources).holds is True
    assert judged("time_since('begun') > 0", evidence(at=None)).why == "the time was not recorded"


def test_a_number_in_a_text_is_read_as_the_run_read_it() -> None:
    price = page(element("#price", text="1.234 \u20ac"))
    assert judged("text('#price') > 1000", evidence(recorded_page=price)).holds is False
    assert judged("text('#price') > 1000", evidence(recorded_page=price, locale="de-DE")).holds is True


def test_a_pattern_that_takes_too_long_is_not_taken_for_unmet() -> None:
    found = judged(r"mem('x') matches '(a|aa)+$'", evidence({"x": "a" * 80 + "b"}))
    assert (found.holds, found.why) == (None, "the regular expression takes too long")
