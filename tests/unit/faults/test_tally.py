"""What is kept of a fault's strikes."""

from __future__ import annotations

from harness.faults.tally import KEPT, Tally
from harness.spec.faults import Empty


def test_counts_all_and_keeps_the_first_times() -> None:
    tally = Tally("mine", Empty(url="*"))
    assert tally.record().describe().endswith("never met")
    for number in range(KEPT + 5):
        tally.strike(number + 0.12345)
        tally.heal(number + 0.5)
    met = tally.record()
    assert (met.name, met.count, len(met.strikes), len(met.healed)) == ("mine", KEPT + 5, KEPT, KEPT)
    assert (met.strikes[0], met.healed[-1]) == (0.123, KEPT - 0.5)
    assert "struck 105 times, first at 0.1 s" in met.describe()
