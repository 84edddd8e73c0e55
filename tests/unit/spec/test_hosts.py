"""Hosts in URLs, and URLs that lack their beginning."""

from __future__ import annotations

import pytest

from harness.spec.hosts import reaches, with_scheme


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("shop.local/", "http://shop.local/"),
        ("shop.local", "http://shop.local/"),
        ("shop.local/cart?x=1", "http://shop.local/cart?x=1"),
        ("www.shop.local:8000/x", "http://www.shop.local:8000/x"),
        ("localhost/x", "http://localhost/x"),
        ("http://shop.local/", ""),
        ("/cart", ""),
        ("cart", ""),
        ("cart/new", ""),
        ("index.html", ""),
        ("../x.y/z", ""),
        ("?q=a.b", ""),
    ],
)
def test_a_url_that_begins_with_a_host_lacks_its_scheme(url: str, meant: str) -> None:
    assert with_scheme(url) == meant


def test_allowed_domains_reach_what_is_below_them() -> None:
    assert reaches("anything.test", ())
    assert reaches("www.a.test", ("*.a.test",))
    assert not reaches("a.test.evil", ("http://a.test:99/x",))
