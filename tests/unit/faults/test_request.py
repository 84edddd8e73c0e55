"""What a gate reads of a request."""

from __future__ import annotations

import pytest

from harness.faults.answers import RequestHead


def parse(*lines: str) -> RequestHead:
    found = RequestHead.parse("\r\n".join(lines).encode())
    assert found is not None
    return found


def test_urls() -> None:
    assert parse("GET /a HTTP/1.1", "Host: SHOP.local").urls("shop.local") == ("http://shop.local/a",)
    assert parse("GET /a HTTP/1.0").urls("shop.local") == ("http://shop.local/a",)
    both = ("http://shop.local/", "http://shop.local:8471/")
    assert parse("GET / HTTP/1.1", "host:shop.local:8471").urls("shop.local") == both
    assert parse("GET http://x.local/b HTTP/1.1", "Host: y").urls("shop.local") == ("http://x.local/b",)
    assert parse("GET /?u=http://x/ HTTP/1.1").urls("shop.local") == ("http://shop.local/?u=http://x/",)
    assert parse("GET /ws HTTP/1.1", "Upgrade: websocket").urls("shop.local") == ("ws://shop.local/ws",)


def test_closing_replaces_every_connection_header() -> None:
    head = parse("GET / HTTP/1.1", "CONNECTION: keep-alive", "Host: a", "Keep-Alive: timeout=5", "connection: TE")
    assert head.closing() == b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("line", ["EHLO", "get / HTTP/1.1", "GET / HTTP/2", "GET /", "PRI * HTTP/2.0", ""])
def test_what_is_not_http_1(line: str) -> None:
    assert RequestHead.parse(line.encode()) is None
