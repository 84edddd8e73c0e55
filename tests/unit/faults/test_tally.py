"""What is kept of a fault's strikes."""

from __future__ import annotations

from harness.faults.injector import KEPT, FaultCounter
from harness.spec.faults import Empty


def test_counts_all_and_keeps_the_first_times_and_the_last() -> None:
    tally = FaultCounter("mine", Empty(url="*"))
    assert tally.record("nobody asked").describe().endswith(": never struck: nobody asked")
    for number in range(KEPT + 5):
        tally.strike(number + 0.12345, number)
        tally.heal(number + 0.5)
    met = tally.record("nobody asked")
    assert (met.name, met.count, len(met.strikes), len(met.healed)) == ("mine", KEPT + 5, KEPT, KEPT)
    assert (met.strikes[0], met.strikes[-1], met.steps[-1], met.healed[-1]) == (
        0.123,
        KEPT + 4.123,
        KEPT + 4,
        KEPT - 0.5,
    )
    assert (met.why, "struck 105 times, first in step 0 at 0.1 s" in met.describe()) == ("", True)
