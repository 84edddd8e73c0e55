"""Looking until something holds."""

from __future__ import annotations

import asyncio

import pytest

from harness.resilience import poll_until
from tests.unit.fakes import FakeClock


@pytest.mark.parametrize(
    ("holds_from", "within", "found", "looks"),
    [
        (0.0, 0.0, True, [0.0]),
        (1.0, 0.0, False, [0.0]),
        (0.5, 2.0, True, [0.0, 0.4, 0.8]),
        (1.0, 1.0, True, [0.0, 0.4, 0.8, 1.0]),
        (9.0, 1.0, False, [0.0, 0.4, 0.8, 1.0]),
        (9.0, -1.0, False, [0.0]),
    ],
)
@pytest.mark.parametrize("awaited", [False, True])
def test_it_looks_at_once_and_for_the_last_time_when_the_time_is_over(
    holds_from: float, within: float, found: bool, looks: list[float], awaited: bool
) -> None:
    clock, seen = FakeClock(), list[float]()

    def holds() -> bool:
        seen.append(round(clock.now(), 3))
        return clock.now() >= holds_from

    async def told() -> bool:
        return holds()

    assert asyncio.run(poll_until(clock, told if awaited else holds, 0.4, within)) is found
    assert seen == looks
