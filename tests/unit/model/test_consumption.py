"""What calls of models have used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.consumption import ModelFigures, added_up, by_model, money_text, tokens_text
from harness.model.inference import ModelCall, Usage
from harness.values import replace

CALL = ModelCall(
    agent="builder",
    model="claude",
    provider="anthropic",
    identifier="haiku",
    step=0,
    attempt=1,
    at=datetime(2026, 1, 1, tzinfo=UTC),
    seconds=1.5,
    first_token=0.2,
    usage=Usage(input=900, output=90),
    cost=0.25,
    outcome="answered",
)
UNPRICED = replace(CALL, model="local", usage=Usage(input=3000, output=700), cost=None)
FAILED = replace(CALL, usage=Usage(), cost=None, outcome="failed", code="MODEL_OVERLOADED")


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ([CALL], "1 call, 900 in, 90 out, $0.25"),
        (
            [replace(CALL, usage=Usage(input=3000, output=500, cache_read=2130))],
            "1 call, 3k in (71 % cached), 500 out, $0.25",
        ),
        ([CALL, UNPRICED], "2 calls, 3.9k in, 790 out, $0.25, 1 unpriced"),
        ([UNPRICED], "1 call, 3k in, 700 out, 1 unpriced"),
        ([FAILED], "1 call, 1 failed, 0 in, 0 out, $0.00"),
        ([replace(CALL, cost=0.0, replayed=True)], "1 call, 1 replayed, 900 in, 90 out, $0.00"),
    ],
)
def test_an_unknown_price_is_said_and_never_0(calls: list[ModelCall], line: str) -> None:
    assert ModelFigures.of(calls).describe() == line


def test_by_model() -> None:
    found = by_model([CALL, UNPRICED, FAILED])
    assert {name: (used.calls, used.failed_calls, used.unpriced_calls) for name, used in found.items()} == {
        "claude": (2, 1, 0),
        "local": (1, 0, 1),
    }


CALLS = st.lists(st.sampled_from([CALL, UNPRICED, FAILED]), max_size=6)


@given(CALLS, CALLS)
def test_what_is_added_up_is_what_all_calls_have_used(some: list[ModelCall], others: list[ModelCall]) -> None:
    assert ModelFigures.of(some) + ModelFigures.of(others) == ModelFigures.of([*some, *others])
    added = added_up([by_model(some), by_model(others)])
    assert sum(added.values(), ModelFigures()) == ModelFigures.of([*some, *others])


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (tokens_text(0), "0"),
        (tokens_text(999), "999"),
        (tokens_text(4100), "4.1k"),
        (tokens_text(181_900), "182k"),
        (tokens_text(999_600), "1M"),
        (money_text(0), "$0.00"),
        (money_text(0.0021), "$0.0021"),
        (money_text(0.616), "$0.62"),
    ],
)
def test_numbers_for_people(shown: Any, text: str) -> None:
    assert shown == text
