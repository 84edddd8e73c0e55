"""What a page was refused."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.browser.exchanges import RequestRecord
from harness.browser.failures.navigation import refused_hosts, strayed
from harness.browser.page_events import LoggedLine
from harness.spec.names import Domains

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = "http://shop.local/"
REFUSED = "net::ERR_PROXY_CONNECTION_FAILED"


def asked(url: str, error: str | None = None) -> RequestRecord:
    return RequestRecord(url, "GET", NOW, error=error)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://shop.local/", True),
        ("wss://img.SHOP.local/x", True),
        ("http://notshop.local/", False),
        ("http://shop.local.evil.test/", False),
        ("http://evil.test/?shop.local", False),
        ("about:blank", True),
    ],
)
def test_allows(url: str, wanted: bool) -> None:
    assert Domains(("https://*.shop.local/x",)).allows(url) is wanted
    assert Domains().allows(url)


def test_refused_hosts_are_those_of_the_page() -> None:
    exchanges = [
        asked("http://earlier.test/", REFUSED),
        asked(PAGE),
        asked("http://b.test/x", REFUSED),
        asked("http://a.test/x", "net::ERR_TUNNEL_CONNECTION_FAILED"),
        asked("http://a.test/y", REFUSED),
        asked("http://down.test/", "net::ERR_CONNECTION_REFUSED"),
        asked("http://shop.local/x", REFUSED),
    ]
    allowed = ("shop.local",)
    assert refused_hosts(exchanges, (), PAGE, Domains(allowed)) == ("a.test", "b.test")
    assert refused_hosts(exchanges, (), "http://shop.local/renamed", Domains(allowed)) == (
        "a.test",
        "b.test",
        "earlier.test",
    )
    assert refused_hosts(exchanges, (), PAGE, Domains()) == ()


def test_refused_sockets_are_told_by_the_console() -> None:
    lines = [
        LoggedLine(
            "ERROR", f"WebSocket connection to 'ws://evil.test/ws' failed: Error in the establishment: {REFUSED}"
        ),
        LoggedLine("ERROR", "WebSocket connection to 'ws://down.test/' failed: net::ERR_CONNECTION_REFUSED"),
        LoggedLine("LOG", f"http://talk.test/ {REFUSED}"),
    ]
    assert refused_hosts((), lines, PAGE, Domains(("shop.local",))) == ("evil.test",)


def test_strayed() -> None:
    good, bad = asked(PAGE), asked("http://evil.test/")
    assert strayed([good, bad], Domains(("shop.local",))) is bad
    assert strayed([good], Domains(("shop.local",))) is None
    assert strayed([good, bad], Domains()) is None
