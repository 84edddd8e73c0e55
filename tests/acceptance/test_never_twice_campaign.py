"""The campaign of benchmarks/never_twice: no order is placed twice without a word, and no green task lacks one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.never_twice.__main__ import WRONG
from benchmarks.never_twice.playing import Judged, play
from benchmarks.never_twice.tables import WAYS
from benchmarks.never_twice.trials import KILLED, drawn

SEED = 38


def wrong(judged: Sequence[Judged]) -> list[str]:
    return [each.line() for each in judged if each.verdict in WRONG]


@pytest.mark.own_driver
def test_no_order_is_placed_twice_on_any_way_back_within_one_process(tmp_path: Path) -> None:
    """One trial for each way back but those of killed processes: the ways are drawn in turns."""
    trials = [each for each in (drawn(SEED, number) for number in range(len(WAYS))) if each.run not in KILLED]
    judged = list(play(trials, tmp_path))
    assert [each.trial.way for each in judged] == [way for way, each in WAYS.items() if each.run not in KILLED]
    assert wrong(judged) == []
    assert sum(each.arrived > 0 for each in judged) > len(judged) / 2, "most trials place their order"


@pytest.mark.own_driver
@pytest.mark.thorough
def test_no_order_is_placed_twice_in_500_random_trials(tmp_path: Path) -> None:
    judged = list(play([drawn(SEED, number) for number in range(500)], tmp_path))
    assert len(judged) == 500
    assert wrong(judged) == []
    assert [each.line() for each in judged if each.state == "no end"] == []
    assert {each.trial.way for each in judged} == set(WAYS)
    assert sum(each.effects == 1 for each in judged) > 200, "most trials place their order"
