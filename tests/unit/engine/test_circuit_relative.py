"""Steps whose URL is relative to the project's `base_url`: their host is known, and waited for."""

from __future__ import annotations

import asyncio

from harness.model.settings import Settings
from tests.unit.engine.test_circuit import SHOP, codes, opened
from tests.unit.engine.test_circuit import Sites as Absolute
from tests.unit.fakes import Theatre


def test_the_service_behind_a_relative_url_is_waited_for() -> None:
    sites = Absolute()
    opened(sites)
    theatre = Theatre(clock=sites.clock, settings=Settings(base_url=SHOP))
    theatre.breaker = lambda url: sites.breaker(url) or sites.shop
    rules = {"on_network_error": {"max_retries": 1, "wait_for_circuit": False}}
    result = asyncio.run(theatre.play(steps=[{"act": "open", "url": "/cart"}], error_recovery=rules))
    assert codes(result)[0] == "CIRCUIT_OPEN"
    assert theatre.recovered == [f"{SHOP}cart"]
    assert result.failure is not None
    assert result.failure.details["url"] == f"{SHOP}cart"
