"""Which URLs may be opened, and where hosts really are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.browser import domains
from harness.recovery.failure import Failed
from harness.spec.names import Domains

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


def test_a_host_without_its_scheme_is_offered_with_it() -> None:
    with pytest.raises(Failed, match=r"no base_url is set for a relative URL; did you mean http://shop\.local/ \?"):
        domains.resolve("shop.local/", None)


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
    domains.check("http://a.test/", Domains(allowed))
    domains.check("http://A.TEST:99/", Domains(allowed))
    domains.check("http://www.a.test/", Domains(allowed))
    domains.check("about:blank", Domains(allowed))
    with pytest.raises(Failed) as raised:
        domains.check("http://a.test.evil/", Domains(allowed))
    assert raised.value.failure.code == "POLICY_DOMAIN"
    assert "a.test.evil" in raised.value.failure.message


@given(LABEL, LABEL)
def test_a_host_that_only_ends_alike_is_another(one: str, two: str) -> None:
    with pytest.raises(Failed):
        domains.check(f"http://{one}{two}.test/", Domains((f"{two}.test",)))


def test_no_allowed_domains_allows_all() -> None:
    domains.check("http://anything.test/", Domains())


def test_bypass_names_hosts_and_what_is_below() -> None:
    assert domains.bypass(Domains(("a.test", "*.b.test"))) == "<-loopback>,a.test,*.a.test,b.test,*.b.test"


def test_resolver_rules_do_not_depend_on_order() -> None:
    assert domains.resolver_rules({"b": 2, "a": 1}, {}) == "MAP a 127.0.0.1:1, MAP b 127.0.0.1:2"


def test_resolver_rules_name_https_first_because_the_first_that_fits_counts() -> None:
    rules = domains.resolver_rules({"b": 2, "a": 1}, {"b": 4, "a": 3})
    assert rules == "MAP a:443 127.0.0.1:3, MAP b:443 127.0.0.1:4, MAP a 127.0.0.1:1, MAP b 127.0.0.1:2"


def test_mapped() -> None:
    hosts = {"a.test": 81}
    assert domains.mapped("http://a.test/x?y=1", hosts) == ("http://127.0.0.1:81/x?y=1", "a.test")
    assert domains.mapped("http://a.test:90/x", hosts) == ("http://127.0.0.1:81/x", "a.test:90")
    assert domains.mapped("https://b.test/x", hosts) == ("https://b.test/x", None)
    assert domains.mapped("HTTPS://me@A.test/x?y=1", hosts) == ("http://127.0.0.1:81/x?y=1", "A.test")
    with pytest.raises(Failed):
        domains.mapped("https://a.test:8443/", hosts)


@pytest.mark.parametrize(
    "url",
    [
        "http://a.test/",
        "http://a.test:90/",
        "https://a.test/",
        "HTTPS://A.test:443/",
        "https://a.test:99999999/",
        "https://b.test:8443/",
        "http://b.test:443/",
        "about:blank",
    ],
)
def test_ports_that_may_be_named(url: str) -> None:
    domains.check_port(url, {"a.test": 81})


@pytest.mark.parametrize("url", ["https://A.test:8443/x", "https://a.test:80/", "http://a.test:443/"])
def test_ports_where_a_mapped_host_does_not_speak_the_scheme(url: str) -> None:
    with pytest.raises(Failed) as raised:
        domains.check_port(url, {"a.test": 81})
    assert raised.value.failure.code == "INVALID_INPUT"
    assert raised.value.failure.message == (
        f"cannot open {url}: hosts of [tool.harness.services] serve https on port 443 only, and http on other ports"
    )
