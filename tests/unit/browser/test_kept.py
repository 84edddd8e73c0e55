"""Whose session expires."""

from __future__ import annotations

import pytest

from harness.browser.faults import sent_to


@pytest.mark.parametrize(
    ("domain", "host", "sent"),
    [
        ("shop.local", None, True),
        ("shop.local", "shop.local", True),
        (".shop.local", "shop.local", True),
        (".shop.local", "www.Shop.local", True),
        ("shop.local", "www.shop.local", False),
        ("www.shop.local", "shop.local", False),
        (".shop.local", "myshop.local", False),
        ("bank.local", "shop.local", False),
    ],
)
def test_cookies_that_a_host_is_sent(domain: str, host: str | None, sent: bool) -> None:
    assert sent_to(domain, host) is sent
