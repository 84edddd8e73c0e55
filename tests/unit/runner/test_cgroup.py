"""What control groups allow, by the texts of their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.runner.capacity import HUGE, Share, share, usable

GIB = 2**30


def files(**texts: str) -> Callable[[str], str]:
    return of({name.replace("__", "."): text for name, text in texts.items()})


def of(texts: Mapping[str, str]) -> Callable[[str], str]:
    return lambda path: texts.get(path, "")


def test_a_container_of_version_two_sees_its_own_group_as_the_root() -> None:
    texts = {
        "cpu.max": "150000 100000\n",
        "cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
        "memory.max": f"{4 * GIB}\n",
        "memory.current": f"{3 * GIB}\n",
        "memory.stat": f"anon 5\ninactive_file {GIB}\nactive_file 7\n",
    }
    assert share("0::/\n", of(texts)) == Share(1.5, 4 * GIB, 2 * GIB, 2.5)


def test_the_least_of_all_groups_above_counts() -> None:
    texts = {
        "ci/job/cpu.max": "max 100000",
        "ci/cpu.max": "200000 100000",
        "ci/cpu.stat": "usage_usec 7000000",
        "ci/job/memory.max": f"{GIB}",
        "ci/job/memory.current": "0",
        "ci/memory.max": f"{8 * GIB}",
        "ci/memory.current": f"{8 * GIB - 5}",
    }
    assert share("0::/ci/job", of(texts)) == Share(2.0, GIB, 5, 7.0)


@pytest.mark.parametrize("seen", ["docker/abc/", ""])
def test_version_one_whose_path_may_be_that_of_the_host(seen: str) -> None:
    texts = {
        f"cpu,cpuacct/{seen}cpu.cfs_quota_us": "300000\n",
        f"cpu,cpuacct/{seen}cpu.cfs_period_us": "100000\n",
        f"cpu,cpuacct/{seen}cpuacct.usage": "4000000000\n",
        f"memory/{seen}memory.limit_in_bytes": f"{2 * GIB}\n",
        f"memory/{seen}memory.usage_in_bytes": f"{GIB}\n",
        f"memory/{seen}memory.stat": f"total_inactive_file {GIB // 2}\n",
    }
    membership = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/docker/abc\n"
    assert share(membership, of(texts)) == Share(3.0, 2 * GIB, GIB + GIB // 2, 4.0)


@pytest.mark.parametrize(("path", "cores"), [("/ci..job", 0.5), ("/../other", 1.0)])
def test_of_a_group_outside_of_what_is_seen_the_root_is_left(path: str, cores: float) -> None:
    texts = {"ci..job/cpu.max": "50000 100000", "cpu.max": "100000 100000"}
    assert share(f"0::{path}\n", of(texts)).cores == cores


def test_without_a_limit_nothing_is_limited() -> None:
    none = {
        "cpu.max": "max 100000",
        "memory.max": "max",
        "memory.current": "5",
        "cpu/cpu.cfs_quota_us": "-1",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "9223372036854771712",
        "memory/memory.usage_in_bytes": "5",
    }
    assert share("2:cpu:/\n3:memory:/\n0::/\n", of(none)) == Share()
    assert share("0::/", files()) == Share()
    assert share("", files()) == Share()


def test_how_much_of_the_quota_was_used() -> None:
    earlier, now = Share(2.0, used_seconds=10.0), Share(2.0, used_seconds=10.75)
    assert now.busy_since(earlier, 0.5) == 0.75
    assert now.busy_since(Share(), 0.5) == 0.0
    assert now.busy_since(earlier, 0.0) == 0.0
    assert earlier.busy_since(now, 1.0) == 0.0


def test_a_quota_of_less_than_one_processor_is_one() -> None:
    assert [usable(8, math.inf), usable(8, 2.9), usable(2, 6.0), usable(8, 0.5)] == [8, 2, 2, 1]


pairs = st.builds("{} {}".format, st.integers(), st.integers())
texts = st.one_of(st.text(max_size=40), st.integers().map(str), pairs)
controllers = st.sampled_from(["", "cpu", "memory", "cpu,cpuacct"])
memberships = st.lists(st.builds("{}:{}:{}".format, st.sampled_from("0123"), controllers, st.text()))


@given(memberships, texts, texts)
def test_no_text_is_too_odd(lines: list[str], one: str, other: str) -> None:
    def read(path: str) -> str:
        return one if path.endswith(("max", "quota_us", "limit_in_bytes")) else other

    found = share("\n".join(lines), read)
    assert found.cores > 0
    assert 0 <= found.free <= found.memory <= HUGE
    assert usable(4, found.cores) >= 1


@given(
    quota=st.integers(1, 10**7),
    period=st.integers(1000, 10**6),
    limit=st.integers(1, 2**50),
    used=st.integers(0, 2**51),
    idle=st.integers(0, 2**51),
)
def test_both_versions_say_the_same(quota: int, period: int, limit: int, used: int, idle: int) -> None:
    second = files(
        cpu__max=f"{quota} {period}",
        memory__max=str(limit),
        memory__current=str(used),
        memory__stat=f"inactive_file {idle}",
    )
    first = of({
        "cpu/cpu.cfs_quota_us": str(quota),
        "cpu/cpu.cfs_period_us": str(period),
        "memory/memory.limit_in_bytes": str(limit),
        "memory/memory.usage_in_bytes": str(used),
        "memory/memory.stat": f"total_inactive_file {idle}",
    })  # fmt: skip
    assert share("1:cpu:/\n2:memory:/", first) == share("0::/", second)
    assert share("0::/", second).cores == quota / period
