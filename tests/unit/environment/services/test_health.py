"""Where a service is asked, and what is made of its answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from harness.environment.health import Health, HealthAnswer, HealthEndpoint, client, probe
from tests.unit.environment.services.conftest import settings


def ask(endpoint: HealthEndpoint) -> HealthAnswer:
    async def main() -> HealthAnswer:
        async with client() as http:
            return await probe(http, endpoint)

    return asyncio.run(main())


def endpoint(port: int, **more: Any) -> HealthEndpoint:
    chosen = settings(port, **{"health": "http://SHOP.local/health?deep=1", **more})
    return HealthEndpoint.of("site", chosen, {"shop.local": port})


def test_the_host_header_stays_and_the_port_is_mapped(httpserver: HTTPServer) -> None:
    seen: list[tuple[str, str]] = []

    def answer(request: Request) -> Response:
        seen.append((request.host, request.full_path))
        return Response('{"service": "site", "version": 2, "more": 1}')

    httpserver.expect_request("/health").respond_with_handler(answer)
    assert ask(endpoint(httpserver.port)) == HealthAnswer(Health.HEALTHY)
    assert seen == [("SHOP.local", "/health?deep=1")]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("not json", "is not JSON"),
        ("[1]", "service is None instead of 'site'"),
        ('{"service": "site"}', "version is None instead of '2'"),
        ('{"service": "site", "version": "3"}', "version is '3' instead of '2'"),
        ("x" * 1_000_001, "does not end"),
    ],
)
def test_answers_that_are_not_the_service(httpserver: HTTPServer, body: str, problem: str) -> None:
    httpserver.expect_request("/health").respond_with_data(body)
    found = ask(endpoint(httpserver.port))
    assert found.health is Health.OTHER
    assert problem in found.problem


def test_without_an_identity_any_200_will_do(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/health").respond_with_data("fine")
    assert ask(endpoint(httpserver.port, identity={})).health is Health.HEALTHY


def test_a_redirect_is_not_followed(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/health").respond_with_data("", 302, {"Location": "/elsewhere"})
    assert ask(endpoint(httpserver.port)) == HealthAnswer(Health.OTHER, "it answers 302")


def test_nothing_listens(port: int) -> None:
    assert ask(endpoint(port)).health is Health.ABSENT
