"""Set-Cookie headers as the browser's cookies."""

from __future__ import annotations

from datetime import UTC, datetime

from harness.browser.acts.api import cookies_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
URL = "http://shop.test/x"


def test_host_only_cookie() -> None:
    [cookie] = cookies_of("sid=a1; Path=/p; HttpOnly; Secure; SameSite=Lax", URL, NOW)
    assert cookie == {
        "name": "sid",
        "value": "a1",
        "domain": "shop.test",
        "path": "/p",
        "httpOnly": True,
        "secure": True,
        "sameSite": "Lax",
    }


def test_domain_cookie_and_expiry() -> None:
    [cookie] = cookies_of("a=b; Domain=test; Max-Age=60", URL, NOW)
    assert (cookie["domain"], cookie["path"], cookie["expires"]) == (".test", "/", NOW.timestamp() + 60)
    [dated] = cookies_of("a=b; Expires=Thu, 01 Jan 2026 00:01:00 GMT", URL, NOW)
    assert dated["expires"] == NOW.timestamp() + 60


def test_deletion_and_nonsense() -> None:
    assert cookies_of("a=; Max-Age=0", URL, NOW)[0]["expires"] == 1.0
    assert cookies_of("a=b; Expires=Thu, 01 Jan 1970 00:00:00 GMT", URL, NOW)[0]["expires"] == 1.0
    assert "expires" not in cookies_of("a=b; Max-Age=soon", URL, NOW)[0]
    assert cookies_of(";;;", URL, NOW) == []
