"""Numbers from outside: what can be true is known, and nothing else."""

from __future__ import annotations

import math
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.resilience.outside import LONGEST_WAIT, MOST_COUNT, count_of, seconds_of
from harness.resilience.verdict import retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)
IMPOSSIBLE: list[Any] = [
    *(10**30, -(10**30), -1, 10**5000, 1e300, math.nan, math.inf, -math.inf),
    *(True, None, [], {}, "many", "", "1e999", "nan", "-1", "9" * 5000),
]


@pytest.mark.parametrize("value", IMPOSSIBLE, ids=lambda value: repr(value)[:12] if value != 10**5000 else "huge")
def test_what_cannot_be_true_is_unknown(value: Any) -> None:
    assert count_of(value) is None
    assert seconds_of(value) is None


@pytest.mark.parametrize("value", [0, 1, 12.0, MOST_COUNT])
def test_a_count_that_can_be_true_fits_into_any_database(value: float) -> None:
    found = count_of(value)
    assert found == value
    assert isinstance(found, int)
    (stored,) = sqlite3.connect(":memory:").execute("SELECT ?", (found,)).fetchone()
    assert stored == found


def test_a_text_is_no_count_and_half_a_thing_is_none() -> None:
    assert (count_of("12"), count_of(1.5), seconds_of("1.5"), seconds_of(0)) == (None, None, 1.5, 0)


WAITS: dict[str, float | None] = {
    "5": 5,
    "1.5": 1.5,
    "Thu, 01 Jan 2026 00:00:07 GMT": 7,
    "Wed, 31 Dec 2025 00:00:00 GMT": 0,
    **dict.fromkeys(("9" * 31, "9" * 400, "1e30", "1e999", "nan", "inf", "-5", "soon", "", "true"), None),
    **dict.fromkeys(("Thu, 01 Jan 9999 00:00:00 GMT", "Thu, 01 Jan 99999999999999999999 00:00:00 GMT"), None),
    **dict.fromkeys(("Thu, 99 Jan 2026 00:00:00 GMT", "Thu, 01 Jan 2026 00:00:00 +99999999999999"), None),
}


@pytest.mark.parametrize("value", WAITS, ids=lambda value: value[:32])
def test_a_wait_that_nobody_means_is_none(value: str) -> None:
    assert retry_after({"Retry-After": value}, NOW) == WAITS[value]


def test_milliseconds_count_first() -> None:
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}, NOW) == 1.5
    assert retry_after({"retry-after-ms": "9" * 40, "retry-after": "9"}, NOW) == 9
    assert seconds_of(LONGEST_WAIT) == LONGEST_WAIT
