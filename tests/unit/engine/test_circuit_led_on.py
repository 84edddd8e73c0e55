"""A step that ends up at a site that it does not name, and that is left alone."""

from __future__ import annotations

from harness.resilience.breaker import CircuitState
from tests.unit.engine.test_circuit import BANK, SHOP, Sites, codes, down

ABORT = {"on_network_error": "abort"}


def test_a_redirect_to_a_site_that_is_left_alone_says_so() -> None:
    sites = Sites()
    bank = sites.breaker(BANK)
    assert bank is not None
    for _ in range(5):
        bank.admit().failed("NET_TIMEOUT: gone")
    result = sites.run(down(BANK), error_recovery=ABORT)
    assert codes(result) == ["NET_CONNECTION_REFUSED"]
    assert result.failure is not None
    assert result.failure.message.startswith(
        "http://bank.local/ does not answer; the step was led to another site, whose circuit origin:http://bank.local "
        "is open after 5 failures in a row, the last: NET_TIMEOUT: gone; it is tried again in 30.0 s"
    )
    assert result.failure.details["circuit"] == {"name": "origin:http://bank.local", "state": "open"}
    assert [each.type for each in result.warnings] == [], "it has opened nothing"
    assert sites.shop.failures == 0
    assert bank.failures == 5, "what is left alone anyway is not counted again"


def test_http_and_https_of_one_host_are_one_site_and_nothing_else_is() -> None:
    sites = Sites()
    for address, blamed in [
        ("http://[::1]:8000/", "https://[fe80::2]:8000/"),
        (SHOP, "https://shop.local.elsewhere/"),
        ("http://127.0.0.1:3000/", "http://127.0.0.1:4000/"),
    ]:
        named = sites.breaker(address)
        assert named is not None
        sites.run(*[down(blamed)] * 6, steps=[{"act": "open", "url": address}], error_recovery=ABORT)
        assert named.failures == 0, f"{blamed} is another site than {address}"
    sites.run(down("https://[::1]/"), steps=[{"act": "open", "url": "http://[::1]:8000/"}], error_recovery=ABORT)
    named = sites.breaker("http://[::1]:8000/")
    assert named is not None
    assert (named.failures, named.state) == (1, CircuitState.CLOSED)
