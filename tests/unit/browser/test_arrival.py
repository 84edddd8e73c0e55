"""How a page was come to."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.browser.exchanges import RequestRecord, document_of, hops_to, requests_before, requests_since

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def exchange(url: str, status: int | None = 200, to: str | None = None, kind: str = "text/html") -> RequestRecord:
    headers = {"content-type": kind} | ({"location": to} if to else {})
    return RequestRecord(url, "GET", NOW, status=status, headers=headers)


CART = exchange("http://a/cart", 302, "/login?next=1")
LOGIN = exchange("http://a/login?next=1")
API = exchange("http://a/api", kind="application/json")
HOME = exchange("http://a/")


def test_document_of() -> None:
    again = exchange("http://a/")
    assert document_of([HOME, API, again, API], "http://a/#part") is again
    assert document_of([API], "http://a/") is None


def test_hops_are_followed_back() -> None:
    assert hops_to([HOME, CART, API, LOGIN], "http://a/login?next=1") == (LOGIN, CART)
    first = exchange("http://a/old", 301, "http://a/cart")
    assert hops_to([first, CART, LOGIN], LOGIN.url) == (LOGIN, CART, first)
    assert hops_to([HOME], "http://a/renamed") == ()


def test_hops_of_an_earlier_visit_do_not_count() -> None:
    assert hops_to([CART, LOGIN, HOME, LOGIN], LOGIN.url) == (LOGIN,)


def test_a_page_that_sends_to_itself() -> None:
    cookie = exchange("http://a/", 302, "/")
    assert hops_to([cookie, HOME], "http://a/") == (HOME, cookie)


def test_a_redirect_that_cannot_be_read_leads_nowhere() -> None:
    odd = exchange("http://a/odd", 302, "http://[")
    assert hops_to([odd, HOME], "http://a/") == (HOME,)


def test_since_and_before() -> None:
    other = exchange("http://a/api2", 401, kind="application/json")
    seen = [API, HOME, other, LOGIN, API]
    assert list(requests_since(seen, LOGIN)) == [API]
    assert list(requests_since(seen, None)) == list(reversed(seen))
    assert list(requests_before(seen, LOGIN)) == [other, HOME]
