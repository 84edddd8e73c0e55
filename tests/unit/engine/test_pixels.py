"""Two screenshots are compared pixel by pixel, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.engine.pixels import count_differing, size_of
from tests.unit.conftest import examples
from tests.unit.pictures import WHITE, block, png


def count(folder: Path, expected: bytes, actual: bytes, threshold: float = 0.2, within: float = 30) -> int:
    (folder / "a.png").write_bytes(expected)
    (folder / "b.png").write_bytes(actual)
    return count_differing(folder / "a.png", folder / "b.png", folder / "diff.png", threshold, within)


@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_equal_pictures_have_no_difference_and_a_block_counts_its_pixels(
    tmp_path: Path, width: int, height: int, random: object
) -> None:
    number = width * random.randint(0, height)  # type: ignore[attr-defined]
    plain, marked = png(width, height), block(width, height, number)
    assert size_of(marked) == (width, height)
    assert count(tmp_path, marked, marked) == 0
    assert count(tmp_path, plain, marked) == count(tmp_path, marked, plain) == number


def test_the_picture_of_what_differs_is_made_and_small(tmp_path: Path) -> None:
    assert count(tmp_path, png(400, 300), block(400, 300, 800)) == 800
    diff = (tmp_path / "diff.png").read_bytes()
    assert size_of(diff) == (400, 300)
    assert len(diff) < 20_000


def test_the_smoothing_of_an_edge_is_no_difference_and_a_dot_is(tmp_path: Path) -> None:
    def edge(grey: int) -> bytes:
        """A dark half beside a light one; one pixel at their border is between both."""
        return png(20, 20, lambda x, y: (grey,) * 3 if x == y == 10 else (0, 0, 0) if x < 10 else WHITE)

    def dot(grey: int) -> bytes:
        return png(20, 20, lambda x, y: (grey,) * 3 if x == y == 10 else WHITE)

    assert count(tmp_path, edge(255), edge(120), threshold=0.1) == 0
    assert count(tmp_path, dot(255), dot(120), threshold=0.1) == 1


def test_the_threshold_says_how_far_a_colour_may_be_off(tmp_path: Path) -> None:
    pale = png(10, 10, lambda x, y: (230, 230, 230))
    assert count(tmp_path, png(10, 10), pale, threshold=0.2) == 0
    assert count(tmp_path, png(10, 10), pale, threshold=0.01) == 100


def test_a_picture_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    whole = block(60, 60, 700)
    with pytest.raises(ValueError, match="image"):
        count(tmp_path, whole, whole[: len(whole) // 2])
    assert size_of(b"") is size_of(b"GIF89a") is size_of(whole[:20]) is None


def test_a_comparison_ends_in_its_time(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="took more than"):
        count(tmp_path, png(10, 10), block(10, 10, 10), within=0.001)
