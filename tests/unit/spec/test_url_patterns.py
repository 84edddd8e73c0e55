"""URL patterns: only `*` is special."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.spec.url_patterns import UrlPattern, glob


@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        ("http://shop.local/*", "http://shop.local/", True),
        ("http://shop.local/*", "http://shop.local/a?b=c", True),
        ("http://shop.local/a", "http://shop.local/a?b=c", False),
        ("HTTP://Shop.Local/A?b", "http://shop.local/A?b", True),
        ("http://shop.local/A", "http://shop.local/a", False),
        ("http://shop.local/[ab]", "http://shop.local/a", False),
        ("*/cart/*/pay", "http://shop.local/cart/7/pay", True),
        ("*aa", "a", False),
        ("a*a", "a", False),
    ],
)
def test_matching(pattern: str, url: str, expected: bool) -> None:
    assert UrlPattern.parse(pattern).matches(url) is expected


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("http://shop.local/*", {"shop.local"}),
        ("http://shop.local:80/*", {"shop.local"}),
        ("http://shop*", {"shop.local", "shop.test"}),
        ("*/pay?next=http://bank.local/", {"shop.local", "shop.test", "bank.local"}),
        ("http*://bank.local/", {"bank.local"}),
        ("ws://bank.local/", {"bank.local"}),
        ("http://nowhere.local/", set()),
    ],
)
def test_hosts(pattern: str, hosts: set[str]) -> None:
    parsed = UrlPattern.parse(pattern)
    assert {host for host in ("shop.local", "shop.test", "bank.local") if parsed.may_match(host)} == hosts


@given(st.text("ab*", max_size=12), st.text("ab", max_size=12))
def test_glob_means_what_the_regular_expression_means(pattern: str, text: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert glob(pattern, text) == bool(re.fullmatch(expression, text))


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not glob("*a" * 900 + "b", "a" * 8000)


@pytest.mark.parametrize("text", ["https://shop.local/cart", "HTTPS://Shop.local/cart", "http://shop.local/cart"])
def test_a_pattern_of_https_holds_what_comes_out_of_tls(text: str) -> None:
    assert UrlPattern.parse(text).matches("http://shop.local/cart")


@pytest.mark.parametrize("text", ["wss://Shop.local/live", "ws://shop.local/live"])
def test_a_websocket_of_https_goes_by_ws(text: str) -> None:
    assert UrlPattern.parse(text).matches("ws://shop.local/live")
    assert not UrlPattern.parse(text).matches("http://shop.local/live")
