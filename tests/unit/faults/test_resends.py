"""Requests that the browser sends again by itself."""

from __future__ import annotations

import pytest

from harness.faults.network import WITHIN, Resends
from harness.spec.faults import Empty, Fault, Hang, Reset

URLS = ("http://shop.local/a",)


@pytest.mark.parametrize(
    ("fault", "again"),
    [
        (Empty(url="*"), Empty(url="*")),
        (Hang(url="*", seconds=9), Hang(url="*", seconds=0)),
        (Reset(url="*", commit=True), Reset(url="*")),
    ],
)
def test_the_same_request_soon_is_struck_at_once_and_reaches_no_site(fault: Fault, again: Fault) -> None:
    resends = Resends()
    resends.remember(b"head", URLS, fault, 5)
    assert resends.fault_for_repeat(b"another head", 5) is None
    assert resends.fault_for_repeat(b"head", 5 + WITHIN) == again
    assert resends.fault_for_repeat(b"head", 5 + WITHIN + 0.1) is None


@pytest.mark.parametrize(
    ("url", "forgotten"),
    [
        ("http://shop.local/a", True),
        ("https://SHOP.local/a#there", True),
        ("http://shop.local/b", False),
    ],
)
def test_what_the_browser_has_learnt_of_is_over(url: str, forgotten: bool) -> None:
    resends = Resends()
    resends.remember(b"head", URLS, Empty(url="*"), 5)
    resends.failed(url)
    assert (resends.fault_for_repeat(b"head", 5) is None) is forgotten


def test_old_ones_are_not_kept() -> None:
    resends = Resends()
    for number in range(100):
        resends.remember(b"%d" % number, URLS, Empty(url="*"), number)
    assert [number for number in range(100) if resends.fault_for_repeat(b"%d" % number, number)] == [98, 99]
