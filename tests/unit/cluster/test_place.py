"""The values of `--task-cluster` and `--task-cluster-slots`."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from harness.cluster.place import ClusterPlace, SlotRange


def test_the_three_kinds_of_clusters() -> None:
    assert ClusterPlace.parse("auto").address == "auto"
    assert (ClusterPlace.parse("local:2").address, ClusterPlace.parse("local:2").local) == ("local", 2)
    far = ClusterPlace.parse("head.example:6379")
    assert (far.address, far.host, far.port) == ("head.example:6379", "head.example", 6379)


@pytest.mark.parametrize("text", ["", "2", "local", "local:", "local:0", "local:1001", "head:x", ":6379", "head:70000"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        ClusterPlace.parse(text)


def test_ray_client_is_refused_with_what_to_do_instead() -> None:
    with pytest.raises(ArgumentTypeError, match="ray job submit"):
        ClusterPlace.parse("ray://head:10001")


def test_numbers_of_slots() -> None:
    assert (SlotRange.parse("4").fewest, SlotRange.parse("4").most) == (4, 4)
    assert (SlotRange.parse("2:20").fewest, SlotRange.parse("2:20").most) == (2, 20)


@pytest.mark.parametrize("text", ["", "0", "3:2", "a:b", "1:1001", "1:", ":2", "-1"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected N or MIN:MAX"):
        SlotRange.parse(text)
