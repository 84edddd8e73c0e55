"""Which parts of a page did not come, and which of them it needs."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from playwright.async_api import Request

from harness.browser.exchanges import RequestRecord
from harness.browser.failures.parts import is_needed, missing_parts, short_url
from harness.spec.names import ANYWHERE, Domains

AT = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = Domains(("shop.test", "cdn.test"))


def record(url: str, kind: str = "script", **fields: Any) -> RequestRecord:
    asked = cast("Request", SimpleNamespace(resource_type=kind, method="GET", redirected_from=None))
    return RequestRecord(url, "GET", AT, asked=asked, **fields)


PAGE = record("http://shop.test/", "document", status=200)


@pytest.mark.parametrize(
    ("url", "again", "missing"),
    [
        ("http://shop.test/a.js", "http://shop.test/a.js", False),
        ("http://shop.test/a.js", "http://shop.test/a.js?retry=1#x", False),
        ("http://shop.test/a.js?m=1", "http://shop.test/a.js?retry=1&m=1", False),
        ("http://shop.test/load?m=a", "http://shop.test/load?m=b", True),
        ("http://shop.test/a.js", "http://shop.test/b.js", True),
        ("http://shop.test/a.js", "http://cdn.test/a.js", True),
    ],
)
def test_a_part_that_the_page_requested_again_with_success_is_there(url: str, again: str, missing: bool) -> None:
    page = record("http://shop.test/", "document", status=200)
    part = record(url, error="net::ERR_CONNECTION_RESET", of=page)
    page.lacks(part)
    assert bool(missing_parts(page, [part, record(again, status=200, of=page)])) is missing
    assert missing_parts(page, [part, record(again, of=page), record(again, status=500, of=page)]) == [part]
    assert missing_parts(page, [part, record(again, status=200, of=PAGE)]) == [part], "another page has requested it"


NEEDED = {
    "reset": ({"error": "net::ERR_CONNECTION_RESET"}, True),
    "broken-off": ({"status": 200, "error": "net::ERR_INCOMPLETE_CHUNKED_ENCODING"}, True),
    "unresolved": ({"error": "net::ERR_NAME_NOT_RESOLVED"}, True),
    "server-error": ({"status": 500, "error": "net::ERR_ABORTED"}, True),
    "not-found": ({"status": 404, "error": "net::ERR_ABORTED"}, False),
    "given-up": ({"status": 200, "error": "net::ERR_ABORTED"}, False),
    "blocked": ({"error": "net::ERR_BLOCKED_BY_CLIENT"}, False),
    "policy": ({"error": "csp"}, False),
    "late": ({"error": "net::ERR_CONNECTION_RESET", "late": True}, False),
    "spare": ({"error": "net::ERR_CONNECTION_RESET", "spare": True}, False),
    "routed": ({"status": 503, "routed": 0}, False),
    "aborted-by-a-route": ({"error": "net::ERR_FAILED", "promised": True}, False),
    "picture": ({"error": "net::ERR_CONNECTION_RESET", "kind": "image"}, False),
    "frame": ({"error": "net::ERR_CONNECTION_RESET", "kind": "document"}, False),
}


@pytest.mark.parametrize("name", NEEDED)
def test_a_page_needs_the_scripts_and_stylesheets_with_which_it_loads(name: str) -> None:
    fields, needed = NEEDED[name]
    assert is_needed(record("http://cdn.test/a", **cast("dict[str, Any]", fields)), PAGE, SHOP) is needed


def test_of_hosts_that_no_task_names_only_the_own_one_counts() -> None:
    def needed(url: str, domains: Domains) -> bool:
        return is_needed(record(url, error="net::ERR_CONNECTION_RESET"), PAGE, domains)

    assert needed("http://shop.test/a.js", ANYWHERE)
    assert not needed("http://cdn.test/a.js", ANYWHERE)
    assert needed("http://cdn.test/a.js", SHOP)
    assert not needed("http://ads.test/a.js", SHOP)


def test_only_the_first_missing_parts_are_kept() -> None:
    page = record("http://shop.test/", "document", status=200)
    for number in range(60):
        page.lacks(record(f"http://shop.test/{number}.js", status=404))
    page.lacks(record("http://shop.test/a.png", "image", status=404))
    assert len(page.unmet) == 50


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://shop.test/a.js?v=1", "http://shop.test/a.js?v=1"),
        (f"http://shop.test/a.js?v={'1' * 90}", "http://shop.test/a.js?…"),
        (f"http://shop.test/{'static/' * 20}app.js", "http://shop.test/…/static/static/static/static/static/app.js"),
        (f"http://{'shop.' * 20}test/{'static/' * 20}app.js?1", f"http://{'shop.' * 20}test/…/static/static/app.js?…"),
    ],
)
def test_a_url_in_a_sentence_is_short_so_that_its_end_is_not_cut(url: str, shown: str) -> None:
    assert short_url(url) == shown
