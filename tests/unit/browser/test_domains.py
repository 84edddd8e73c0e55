"""Which URLs may be opened, and where hosts really are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.browser import domains
from harness.failure import Failed

LABEL = st.from_regex(r"[a-z]([a-z0-9]{0,8})", fullmatch=True)


@pytest.mark.parametrize(
    ("url", "base", "absolute"),
    [
        ("http://a.test/x", None, "http://a.test/x"),
        ("/x", "http://a.test/y/", "http://a.test/x"),
        ("x", "http://a.test/y/", "http://a.test/y/x"),
        ("https://b.test/", "http://a.test/", "https://b.test/"),
        ("about:blank", "http://a.test/", "about:blank"),
        ("HTTP://A.test/", None, "HTTP://A.test/"),
    ],
)
def test_resolve(url: str, base: str | None, absolute: str) -> None:
    assert domains.resolve(url, base) == absolute


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "chrome://crash",
        "javascript:1",
        "data:text/html,x",
        "FILE:///x",
        "/x",
        "http://",
        "http://[",
    ],
)
@pytest.mark.parametrize("base", [None, "http:///"])
def test_what_is_refused(url: str, base: str | None) -> None:
    with pytest.raises(Failed) as raised:
        domains.resolve(url, base)
    assert raised.value.failure.code == "INVALID_INPUT"


@pytest.mark.parametrize(
    "allowed", [("a.test",), ("*.a.test",), ("http://a.test:80/x",), ("A.test",), ("b.test", "a.test:8080")]
)
def test_allowed(allowed: tuple[str, ...]) -> None:
    domains.check("http://a.test/", allowed)
    domains.check("http://A.TEST:99/", allowed)
    domains.check("http://www.a.test/", allowed)
    domains.check("about:blank", allowed)
    with pytest.raises(Failed) as raised:
        domains.check("http://a.test.evil/", allowed)
    assert raised.value.failure.code == "POLICY_DOMAIN"
    assert "a.test.evil" in raised.value.failure.message


@given(LABEL, LABEL)
def test_a_host_that_only_ends_alike_is_another(one: str, two: str) -> None:
    with pytest.raises(Failed):
        domains.check(f"http://{one}{two}.test/", (f"{two}.test",))


def test_no_allowed_domains_allows_all() -> None:
    domains.check("http://anything.test/", ())


def test_bypass_names_hosts_and_what_is_below() -> None:
    assert domains.bypass(("a.test", "*.b.test")) == "<-loopback>,a.test,*.a.test,b.test,*.b.test"


def test_resolver_rules_do_not_depend_on_order() -> None:
    assert domains.resolver_rules({"b": 2, "a": 1}) == "MAP a 127.0.0.1:1, MAP b 127.0.0.1:2"


def test_mapped() -> None:
    hosts = {"a.test": 81}
    assert domains.mapped("http://a.test/x?y=1", hosts) == ("http://127.0.0.1:81/x?y=1", "a.test")
    assert domains.mapped("http://a.test:90/x", hosts) == ("http://127.0.0.1:81/x", "a.test:90")
    assert domains.mapped("https://b.test/x", hosts) == ("https://b.test/x", None)
    with pytest.raises(Failed):
        domains.mapped("https://a.test/", hosts)


def test_https_of_a_mapped_host() -> None:
    hosts = {"a.test": 81}
    for url in ("http://a.test/", "https://b.test/", "about:blank"):
        domains.check_plain(url, hosts)
    with pytest.raises(Failed) as raised:
        domains.check_plain("HTTPS://A.test/x?y=1", hosts)
    assert raised.value.failure.code == "INVALID_INPUT"
    assert raised.value.failure.message.endswith(": write http://A.test/x?y=1")
