"""How many tasks at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.runner.capacity import EACH, Sample, first_limit, next_limit
from harness.values import replace

GIB = 2**30
CALM = Sample(busy=0.4, late=0.01, free=8 * GIB, total=16 * GIB, running=4)


def test_it_begins_with_the_processors_as_far_as_memory_goes() -> None:
    assert first_limit(4, 16 * GIB) == 4
    assert first_limit(4, 2 * EACH) == 2
    assert first_limit(4, 0) == 1


def test_one_more_when_there_is_room_and_all_places_are_taken() -> None:
    assert next_limit(4, CALM, cores=4) == 5
    assert next_limit(5, CALM, cores=4) == 5, "a place is free: more would change nothing"
    assert next_limit(4, replace(CALM, busy=0.9), cores=4) == 4
    assert next_limit(4, replace(CALM, late=0.1), cores=4) == 4
    assert next_limit(16, replace(CALM, running=16), cores=4) == 16


def test_a_quarter_less_when_it_is_too_much() -> None:
    assert next_limit(8, replace(CALM, late=0.3), cores=4) == 6
    assert next_limit(8, replace(CALM, free=GIB), cores=4) == 6
    assert next_limit(1, replace(CALM, late=3), cores=4) == 1


def test_what_happens_while_nothing_runs_teaches_nothing() -> None:
    assert next_limit(4, replace(CALM, late=3, free=0, running=0), cores=4) == 4


samples = st.builds(
    Sample,
    busy=st.floats(0, 1),
    late=st.floats(0, 10),
    free=st.integers(0, 16 * GIB),
    total=st.just(16 * GIB),
    running=st.integers(0, 20),
)


@given(st.lists(samples, max_size=60), st.integers(1, 8))
def test_it_stays_in_its_bounds(seen: list[Sample], cores: int) -> None:
    limit = first_limit(cores, 16 * GIB)
    for sample in seen:
        limit = next_limit(limit, sample, cores)
        assert 1 <= limit <= 4 * cores
