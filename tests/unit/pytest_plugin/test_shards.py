"""Parts of a run: each item is in one, the same on every machine."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.pytest_plugin.shards import parts
from harness.runner.shard import Shard, part_in

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
    for text in ("0/3", "4/3", "2", "a/b", "1/0", "-1/3", "1/3/5", "", "1/\u0663", f"1/{'9' * 5000}"):
        with pytest.raises(ArgumentTypeError, match="not a part such as 2/3"):
            Shard.parse(text)


def test_the_longest_come_first_by_durations() -> None:
    seconds = {"a": 1.0, "b": 9.0, "c": 1.0, "d": 1.0, "e": 5.0}
    assert parts("abcde", {}, 2, seconds) == {"b": 1, "e": 2, "a": 2, "c": 2, "d": 2}
    assert parts("abcde", {"a": "X", "b": "X"}, 2, seconds) == {"a": 1, "b": 1, "e": 2, "c": 2, "d": 2}


def test_there_may_be_many_more_parts_than_tasks() -> None:
    assert parts("abc", {"a": "X", "b": "X"}, 10**9) == {"a": 1, "b": 1, "c": 2}
    assert parts("abc", {}, 10**9, {"a": 0.0, "b": 0.0, "c": 0.0}) == {"a": 1, "b": 2, "c": 3}
    assert parts("", {}, 3) == {}


@given(names, ties, st.integers(1, 6), st.data())
def test_by_durations_no_part_has_more_than_the_mean_and_the_longest_group(
    items: list[str], tied: dict[str, str], count: int, data: st.DataObject
) -> None:
    seconds = {name: float(data.draw(st.integers(1, 100))) for name in items}
    found = parts(items, tied, count, seconds)
    assert found == parts(list(reversed(items)), tied, count, seconds)
    groups: dict[str, float] = {}
    loads = [0.0] * count
    for name in items:
        group = tied.get(name, name)
        groups[group] = groups.get(group, 0) + seconds[name]
        loads[found[name] - 1] += seconds[name]
    assert max(loads) <= sum(loads) / count + max(groups.values(), default=0)


SLURM = {"SLURM_ARRAY_TASK_COUNT": "20", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "20"}


@pytest.mark.parametrize(
    ("environ", "part"),
    [
        ({"JOB_COMPLETION_INDEX": "0", "TASK_SHARDS": "20"}, "1/20"),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "19", "AWS_BATCH_JOB_ARRAY_SIZE": "20"}, "20/20"),
        ({"CI_NODE_INDEX": "3", "CI_NODE_TOTAL": "3"}, "3/3"),
        ({"CIRCLE_NODE_INDEX": "1", "CIRCLE_NODE_TOTAL": "2"}, "2/2"),
        ({"BUILDKITE_PARALLEL_JOB": "0", "BUILDKITE_PARALLEL_JOB_COUNT": "2"}, "1/2"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "1"}, "1/20"),
        ({"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "1", "SLURM_ARRAY_TASK_MAX": "0"}, "1/1"),
        ({"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2", "JOB_COMPLETION_INDEX": "0", "TASK_SHARDS": "2"}, "1/2"),
    ],
)
def test_the_environment_says_which_part(environ: dict[str, str], part: str) -> None:
    assert str(Shard.parse("env", environ)) == part


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "the environment names no part; expected one of JOB_COMPLETION_INDEX"),
        ({"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETION_INDEX is set, but not the number of parts: set TASK_SHARDS"),
        ({"AWS_BATCH_JOB_ARRAY_INDEX": "0"}, "set AWS_BATCH_JOB_ARRAY_SIZE or TASK_SHARDS"),
        ({"JOB_COMPLETION_INDEX": "20", "TASK_SHARDS": "20"}, "is '20': expected a number from 0 to 19"),
        ({"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "3"}, "is '0': expected a number from 1 to 3"),
        ({"JOB_COMPLETION_INDEX": "0", "TASK_SHARDS": "many"}, "the number of parts, which is 'many'"),
        ({"JOB_COMPLETION_INDEX": "0", "TASK_SHARDS": "0"}, "the number of parts, which is '0'"),
        (
            {"JOB_COMPLETION_INDEX": "0", "TASK_SHARDS": "9" * 5000},
            "the number of parts, which is '99999999999999999999'",
        ),
        ({"JOB_COMPLETION_INDEX": "9" * 5000, "TASK_SHARDS": "3"}, "is '99999999999999999999': expected a number"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "9" * 5000}, "an array with gaps"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "3", "TASK_SHARDS": "40"}, "of a part of an array"),
        ({**SLURM, "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MAX": "40"}, "an array with gaps"),
        (
            {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "2", "JOB_COMPLETION_INDEX": "1", "TASK_SHARDS": "2"},
            "JOB_COMPLETION_INDEX says 2/2, CI_NODE_INDEX says 1/2",
        ),
    ],
)
def test_an_environment_that_says_it_badly_is_refused(environ: dict[str, str], why: str) -> None:
    with pytest.raises(ArgumentTypeError, match=re.escape(why)):
        part_in(environ)
