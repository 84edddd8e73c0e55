"""Secrets leave addresses, wherever an address stands, and nothing else does."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.settings import Settings
from harness.reporting.redaction import MARK, QUERY_NAMES, Redactor, is_secret_query, redact_addresses

SECRET = "s3cr3t-Value.of~this_run"
URL = f"https://shop.local/cb?state=1&code={SECRET}&x=2#id_token={SECRET}&y=3"
HIDDEN = f"https://shop.local/cb?state=1&code={MARK}&x=2#id_token={MARK}&y=3"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (URL, HIDDEN),
        (f"go to {URL}.", f"go to {HIDDEN}."),
        (f"({URL}), then", f"({HIDDEN}), then"),
        (f'<a href="/cb?code={SECRET}&amp;x=1">', f'<a href="/cb?code={MARK}&amp;x=1">'),
        (f'<a href="/cb?x=1&amp;code={SECRET}">', f'<a href="/cb?x=1&amp;code={MARK}">'),
        (f'<a href="cb?code={SECRET}">', f'<a href="cb?code={MARK}">'),
        (f"<a href='?code={SECRET}'>", f"<a href='?code={MARK}'>"),
        (f"<a href=/cb?code={SECRET}>", f"<a href=/cb?code={MARK}>"),
        (f"cb?code={SECRET}", f"cb?code={MARK}"),
        (f"url(/a.png?sig={SECRET})", f"url(/a.png?sig={MARK})"),
        (f"GET /cb;jsessionid={SECRET}?x=1 HTTP/1.1", f"GET /cb;jsessionid={MARK} HTTP/1.1"),
        (json.dumps({"u": URL}), json.dumps({"u": HIDDEN})),
        (json.dumps(json.dumps({"u": URL})), json.dumps(json.dumps({"u": HIDDEN}))),
        (f'"http:\\/\\/x\\/cb?code=a\\/{SECRET}"', f'"http:\\/\\/x\\/cb?code={MARK}"'),
        (f"http://x/?a=1\\u0026token={SECRET}\\u0026b=2", f"http://x/?a=1\\u0026token={MARK}\\u0026b=2"),
        (f"/login?next={quote(URL, safe='')}", f"/login?next={quote(HIDDEN, safe='[]')}"),
        (
            f"/login?next={quote(quote(URL, safe=''), safe='')}",
            f"/login?next={quote(quote(HIDDEN, safe='[]'), safe='[]')}",
        ),
        ("see ftp://ann:pw@shop.local/x", f"see ftp://{MARK}@shop.local/x"),
        ("a=http%3A%2F%2Fann%3Apw%40shop.local%2F", f"a=http%3A%2F%2F{MARK}%40shop.local%2F"),
        (f"http://x/?X-Amz-Signature={SECRET}", f"http://x/?X-Amz-Signature={MARK}"),
        (f"http://x/?user%5Bpassword%5D={SECRET}", f"http://x/?user%5Bpassword%5D={MARK}"),
        (f"http://x/?newPassword={SECRET}…", f"http://x/?newPassword={MARK}"),
    ],
)
def test_in_every_spelling(text: str, found: str) -> None:
    assert redact_addresses(text) == found
    assert redact_addresses(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "http://x/search?q=code&page=1&postcode=12345&author=key&monkey=1&sides=2",
        "let a = open&&key=event.which; b = c?key=5:3; x;code=7; return(d?token=e:f)",
        "code=1 key: 2 session=3, and the code is 1",
        "mail ann@shop.local about http://shop.local/@ann?x=a@b",
        "http://x/?code=&token",
        "price: 100% @ 3=3",
    ],
)
def test_nothing_else_changes(text: str) -> None:
    assert redact_addresses(text) == text


def test_names_of_the_project() -> None:
    redactor = Redactor.of(Settings(redact_query=("voucher-id",)))
    assert (
        redactor.text("http://x/?voucher_id=1&Voucher-Id=2&v=3") == f"http://x/?voucher_id={MARK}&Voucher-Id={MARK}&v=3"
    )
    assert redactor.plus(["other"]).json({"u": "/x?voucher-id=1"}) == {"u": f"/x?voucher-id={MARK}"}
    assert Redactor().text("http://x/?voucher-id=1") == "http://x/?voucher-id=1"


def test_the_table_is_written_as_it_is_compared() -> None:
    assert all(is_secret_query(name) and is_secret_query(name.upper().replace("_", "-")) for name in QUERY_NAMES)


VALUE = st.text(st.sampled_from("abcXYZ019-._~%/+:,!*$@[]()=é"), min_size=6, max_size=30).map(lambda text: f"Q{text}Z")


@given(
    VALUE, st.sampled_from(sorted(QUERY_NAMES)), st.sampled_from(["{}", '"{}"', "<a href='{}'>", "at {}: no", "{}#f"])
)
def test_no_value_stays(value: str, name: str, around: str) -> None:
    address = f"http://shop.local/p?a=1&{name}={value}&b=2"
    assert value not in redact_addresses(around.format(address))
    escaped = f"http://shop.local/?next={quote(address, safe='')}&c=3"
    assert quote(value, safe="") not in redact_addresses(around.format(escaped))


@given(st.text(max_size=200))
def test_twice_is_once(text: str) -> None:
    once = redact_addresses(text)
    assert redact_addresses(once) == once
