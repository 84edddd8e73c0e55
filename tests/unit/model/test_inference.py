"""The ledger's entries in one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.model.inference import ModelCall, Usage, describe_calls


def call(usage: Usage, cost: float | None) -> ModelCall:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return ModelCall("builder", "claude", "anthropic", "c", 0, 1, at, 1.0, 0.2, usage, cost, "answered")


@pytest.mark.parametrize(
    ("calls", "line"),
    [
        ((call(Usage(input=900, output=90), 0.25),), "1 call, 900 in, 90 out, $0.2500"),
        (
            (call(Usage(input=3000, output=500, cache_read=1500), 0.5), call(Usage(input=3000, output=700), None)),
            "2 calls, 6k in (25 % cached), 1.2k out, $0.5000, 1 of 2 calls unpriced",
        ),
        ((call(Usage(input=5), None),), "1 call, 5 in, 0 out, 1 of 1 calls unpriced"),
    ],
)
def test_an_unknown_price_is_said_and_never_0(calls: tuple[ModelCall, ...], line: str) -> None:
    assert describe_calls(calls) == line
