"""Parts of a run: each item is in one, the same on every machine."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.pytest_plugin.shards import Shard, parts

names = st.lists(st.text("abcdefgh", min_size=1, max_size=3), unique=True, max_size=30)
ties = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.sampled_from("XYZ"))


@given(names, ties, st.integers(1, 6))
def test_everything_is_in_one_part_and_groups_stay_together(items: list[str], tied: dict[str, str], count: int) -> None:
    found = parts(items, tied, count)
    assert sorted(found) == sorted(items)
    assert all(1 <= part <= count for part in found.values())
    for group in "XYZ":
        assert len({part for name, part in found.items() if tied.get(name) == group}) <= 1
    assert found == parts(items, tied, count)


def test_parts_are_even() -> None:
    assert parts("abcdef", {}, 3) == {"a": 1, "b": 2, "c": 3, "d": 1, "e": 2, "f": 3}
    assert parts("abcdef", {"a": "X", "b": "X", "c": "X"}, 2) == {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2}


def test_how_a_part_is_written() -> None:
    assert str(Shard.parse("2/3")) == "2/3"
    for text in ("0/3", "4/3", "2", "a/b", "1/0", "-1/3", "1/3/5", ""):
        with pytest.raises(ArgumentTypeError, match="not a part such as 2/3"):
            Shard.parse(text)
