"""What a replay does not send."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.cli.replay import RequestBlocker


@pytest.mark.parametrize(
    ("method", "url", "refused"),
    [
        ("GET", "http://other.example/", False),
        ("HEAD", "http://other.example/", False),
        ("POST", "http://Shop.local/buy", False),
        ("POST", "http://other.example/buy", True),
        ("delete", "https://other.example:8443/x", True),
        ("POST", "http://below.shop.local/", True),
        ("POST", "blob:null/1", False),
    ],
)
def test_what_may_write_elsewhere_is_not_sent(method: str, url: str, refused: bool) -> None:
    assert RequestBlocker(frozenset({"shop.local"})).refuses(SimpleNamespace(method=method, url=url)) is refused


def test_what_a_redirect_leads_to_is_named() -> None:
    held = RequestBlocker(frozenset({"shop.local"}))
    first = SimpleNamespace(method="POST", url="http://shop.local/buy", redirected_from=None)
    for url, before in [
        ("http://other.example/buy?token=a", first),
        ("http://shop.local/b", first),
        ("http://x/", None),
    ]:
        held.watch(SimpleNamespace(method="POST", url=url, redirected_from=before))
    assert (held.redirected, held.found) == (("POST http://other.example/buy",), ())
