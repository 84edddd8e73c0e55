"""Which endpoint is asked first."""

from __future__ import annotations

import pytest

from harness.browser.endpoints import Candidate, first_turn, order

FREE = Candidate()


@pytest.mark.parametrize(("turn", "expected"), [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1]), (5, [2, 0, 1])])
def test_in_turn(turn: int, expected: list[int]) -> None:
    assert order([FREE] * 3, turn, hosts=False) == expected


def test_fewest_sessions_first() -> None:
    assert order([Candidate(2), Candidate(1), Candidate(1)], 2, hosts=False) == [2, 1, 0]


def test_one_that_failed_comes_after_a_busy_one() -> None:
    assert order([Candidate(failed=True), Candidate(9)], 0, hosts=False) == [1, 0]


@pytest.mark.parametrize(("hosts", "expected"), [(True, [1, 0]), (False, [0, 1])])
def test_one_that_cannot_reach_this_machine_is_the_last_for_its_hosts_alone(hosts: bool, expected: list[int]) -> None:
    assert order([Candidate(far=True), Candidate(3, failed=True)], 0, hosts=True) == [1, 0]
    assert order([Candidate(far=True), Candidate(3)], 0, hosts=hosts) == expected


@pytest.mark.parametrize(("worker", "turn"), [(None, 0), ("gw0", 0), ("gw3", 3), ("master", 0)])
def test_each_worker_begins_at_another(worker: str | None, turn: int) -> None:
    assert first_turn({} if worker is None else {"PYTEST_XDIST_WORKER": worker}) == turn
