"""Messages without what differs from task to task."""

from __future__ import annotations

import pytest

from harness.reporting.triage import normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no element matches #a (looked for 10s)", "no element matches #a (looked for 2.5s)"),
        ("HTTP 500 from http://s/p?order=17#x", "HTTP 500 from http://s/p?order=18"),
        ("its text is 'nothing'", "its text is 'Order 3'"),
        ("order 3f2a9c41-aa17-4b1e-9d11-0a0b0c0d0e0f", "order 99aa9c41-bb17-4b1e-9d11-0a0b0c0d0e0f"),
        ("$24.99 is\n too   much", "$1,024.99 is too much"),
    ],
)
def test_these_are_one(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mem('a') is missing", "mem('b') is missing"),
        ("count('.item') is 2", "count('.row') is 2"),
        ("HTTP 404 from http://s/a", "HTTP 404 from http://s/b"),
        ("there is no agent `a`", "there is no agent `b`"),
    ],
)
def test_these_are_two(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_a_message_of_any_length_is_done_with_at_once() -> None:
    assert len(normalised("'a" * 200_000)) <= 400
    assert normalised("") == ""
