"""What the server refuses before any page answers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from harness.serve.edges import COOKIE, Edges, allowed
from harness.serve.tokens import Tokens, TokenScope

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
TOKENS = Tokens(b"k" * 32)
VIEW = TOKENS.issue(TokenScope.VIEW, NOW, timedelta(hours=1))
OLD = TOKENS.issue(TokenScope.VIEW, NOW - timedelta(days=2), timedelta(hours=1))


async def page(request: Request) -> Response:
    return PlainTextResponse(f"agent {allowed(request.scope, TokenScope.AGENT)}")


APP = Edges(Starlette(routes=[Route("/", page), Route("/health", page)]), TOKENS, frozenset({"127.0.0.1"}), lambda: NOW)


def get(path: str = "/", **headers: str) -> httpx2.Response:
    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=APP), base_url="http://127.0.0.1:80") as http:
            return await http.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "headers", "status", "code"),
    [
        ("/", {}, 401, "AUTH_REQUIRED"),
        ("/", {"authorization": "Bearer nonsense"}, 401, "AUTH_INVALID"),
        ("/?token=nonsense", {}, 401, "AUTH_INVALID"),
        ("/", {"authorization": f"Bearer {OLD}"}, 401, "AUTH_EXPIRED"),
        ("/", {"authorization": f"Bearer {VIEW}", "host": "evil.example"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "http://evil.example"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "null"}, 403, "AUTH_FORBIDDEN"),
        ("/health", {"host": "evil.example"}, 403, "AUTH_FORBIDDEN"),
    ],
)
def test_it_is_refused_with_a_code(path: str, headers: dict[str, Any], status: int, code: str) -> None:
    answer = get(path, **headers)
    assert (answer.status_code, answer.json()["payload"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {VIEW}"},
        {"cookie": f"{COOKIE}={VIEW}"},
        {"authorization": f"Bearer {VIEW}", "origin": "http://127.0.0.1:80"},
    ],
)
def test_a_valid_token_passes_and_has_only_its_scope(headers: dict[str, Any]) -> None:
    answer = get(**headers)
    assert (answer.status_code, answer.text) == (200, "agent False")
    assert answer.headers["cache-control"] == "no-store"


def test_the_token_of_an_address_goes_into_a_cookie() -> None:
    answer = get(f"/?token={VIEW}&run=R")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?run=R")
    kept = answer.headers["set-cookie"]
    assert VIEW in kept
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept


def test_health_needs_no_token() -> None:
    assert get("/health").status_code == 200
