"""Hosts in URLs, and URLs that lack their beginning."""

from __future__ import annotations

import pytest

from harness.spec.names import Domains, reaches, template_problem, with_scheme


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("shop.local/", "http://shop.local/"),
        ("shop.local", "http://shop.local/"),
        ("shop.local/cart?x=1", "http://shop.local/cart?x=1"),
        ("www.shop.local:8000/x", "http://www.shop.local:8000/x"),
        ("localhost/x", "http://localhost/x"),
        ("http://shop.local/", ""),
        ("/cart", ""),
        ("cart", ""),
        ("cart/new", ""),
        ("index.html", ""),
        ("../x.y/z", ""),
        ("?q=a.b", ""),
    ],
)
def test_a_url_that_begins_with_a_host_lacks_its_scheme(url: str, meant: str) -> None:
    assert with_scheme(url) == meant


def test_allowed_domains_reach_what_is_below_them() -> None:
    assert reaches("anything.test", ())
    assert reaches("www.a.test", ("*.a.test",))
    assert not reaches("a.test.evil", ("http://a.test:99/x",))


SERVERS = ("http://localhost:8014/{host}/", "https://gate.test/sites/{host}/")


@pytest.mark.parametrize(
    ("url", "host"),
    {
        "http://localhost:8014/shop.local/cart?x=1": "shop.local",
        "http://LOCALHOST:8014/Shop.Local": "shop.local",
        "http://localhost:8014/favicon.ico": "localhost",
        "http://localhost:8014/static/app.js": "localhost",
        "http://localhost:8014/": "localhost",
        "http://localhost:9999/shop.local/": "localhost",
        "https://gate.test/sites/bank.local/x": "bank.local",
        "https://gate.test/shop.local/": "gate.test",
        "https://gate.test:443/sites/bank.local": "bank.local",
        "http://localhost:8014//shop.local/": "shop.local",
        "http://localhost:8014/static/%2e%2e%2Fshop%2elocal/x": "shop.local",
        "http://localhost:8014/static\\..\\shop.local;v=1/x": "shop.local",
        "http://localhost:8014/?to=/shop.local/": "localhost",
        "http://localhost:99999/shop.local/": "localhost",
    }.items(),
)
def test_a_virtual_host_is_the_first_part_of_a_path(url: str, host: str) -> None:
    assert Domains((), SERVERS).host(url) == host


def test_of_virtual_hosts_only_those_allowed_are_reached() -> None:
    domains = Domains(("shop.local",), SERVERS)
    assert domains.allows("http://localhost:8014/www.shop.local/")
    assert not domains.allows("http://localhost:8014/bank.local/")
    assert not domains.allows("http://localhost:8014/static/%2e%2e/bank%2Elocal/")
    shared = "http://localhost:8014/static/app.js"
    assert (domains.shares(shared), domains.allows(shared)) == (True, True)
    assert not domains.allows("http://localhost:9999/static/app.js"), "another server"
    assert not Domains(("shop.local",)).allows(shared)
    assert domains.servers == ("localhost", "gate.test")


@pytest.mark.parametrize(
    "template", ["localhost/{host}/", "http://a.test/", "http://{host}.test/", "http://a/{host}/{host}/"]
)
def test_a_template_that_cannot_be_used_is_refused(template: str) -> None:
    assert "{host}" in template_problem(template)
    assert template_problem(SERVERS[0]) == ""
