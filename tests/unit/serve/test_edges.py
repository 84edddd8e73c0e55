"""What the server refuses before any page answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from harness.serve.edges import COOKIE, LONGEST_BODY, Addressed, Edges, allowed
from harness.serve.tokens import Tokens, TokenScope

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
TOKENS = Tokens(b"k" * 32)
VIEW = TOKENS.issue(TokenScope.VIEW, NOW, timedelta(hours=1))
OLD = TOKENS.issue(TokenScope.VIEW, NOW - timedelta(days=2), timedelta(hours=1))


async def page(request: Request) -> Response:
    await request.body()
    return PlainTextResponse(f"agent {allowed(request.scope, TokenScope.AGENT)}")


SITE = Starlette(routes=[Route("/", page, methods=["GET", "POST"]), Route("/health", page)])
APP = Edges(SITE, TOKENS, Addressed.of("127.0.0.1", "127.0.0.1"), lambda: NOW)


def ask(path: str = "/", body: Any = None, app: Edges = APP, **headers: str) -> httpx2.Response:
    async def request() -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1:8000"
        ) as http:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            return await http.request("GET" if body is None else "POST", path, headers=sent, content=body)

    return asyncio.run(request())


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
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "http://127.0.0.1:9000"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "https://127.0.0.1:8000"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"cookie": f"{COOKIE}-9000={VIEW}"}, 401, "AUTH_REQUIRED"),
        ("/", {"host": "127.0.0.1/health?"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"host": "evil@127.0.0.1"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"host": "[", "authorization": f"Bearer {VIEW}"}, 403, "AUTH_FORBIDDEN"),
        ("/health", {"host": "evil.example"}, 403, "AUTH_FORBIDDEN"),
        ("/health", {"host": "127.0.0.1:1:2"}, 403, "AUTH_FORBIDDEN"),
        ("/health", {"host": "[::1].x"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "http://127.0.0.1:8000/"}, 403, "AUTH_FORBIDDEN"),
        ("/", {"authorization": f"Bearer {VIEW}", "origin": "http://me@127.0.0.1:8000"}, 403, "AUTH_FORBIDDEN"),
        ("/" + "n" * 5000, {"authorization": f"Bearer {VIEW}"}, 404, "NOT_FOUND"),
        ("/a/" + "%C3%BC" * 128, {"authorization": f"Bearer {VIEW}"}, 404, "NOT_FOUND"),
        ("/a%00b", {"authorization": f"Bearer {VIEW}"}, 404, "NOT_FOUND"),
        ("/" + "a/" * 1500, {"authorization": f"Bearer {VIEW}"}, 404, "NOT_FOUND"),
    ],
)
def test_it_is_refused_with_a_code(path: str, headers: dict[str, Any], status: int, code: str) -> None:
    answer = ask(path, **headers)
    assert (answer.status_code, answer.json()["payload"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {VIEW}"},
        {"cookie": f"{COOKIE}-8000={VIEW}"},
        {"authorization": f"Bearer {VIEW}", "origin": "http://127.0.0.1:8000"},
        {"authorization": f"Bearer {VIEW}", "host": "LOCALHOST:8000", "origin": "HTTP://localhost:8000"},
        {"authorization": f"Bearer {VIEW}", "host": "[0:0::1]:80", "origin": "http://[::1]"},
    ],
)
def test_a_valid_token_passes_and_has_only_its_scope(headers: dict[str, Any]) -> None:
    answer = ask(**headers)
    assert (answer.status_code, answer.text) == (200, "agent False")
    assert answer.headers["cache-control"] == "no-store"


def test_the_token_of_an_address_goes_into_a_cookie() -> None:
    answer = ask(f"/?token={VIEW}&run=R")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?run=R")
    kept = answer.headers["set-cookie"]
    assert VIEW in kept
    assert "HttpOnly" in kept
    assert "SameSite=strict" in kept


def test_health_needs_no_token() -> None:
    assert ask("/health").status_code == 200


def test_the_address_without_its_token_stays_on_this_server() -> None:
    answer = ask(f"http://127.0.0.1:8000//evil.example/?token={VIEW}")
    assert answer.headers["location"] == "/evil.example/"


async def _parts() -> AsyncIterator[bytes]:
    for _ in range(5):
        yield b"x" * (LONGEST_BODY // 4)


def test_a_body_that_is_too_long_is_not_read_to_its_end() -> None:
    token = f"Bearer {VIEW}"
    assert ask(body=b"x" * LONGEST_BODY, authorization=token).status_code == 200
    assert ask(body=b"x" * (LONGEST_BODY + 1), authorization=token).json()["payload"]["code"] == "PROTO_INVALID_MESSAGE"
    assert ask(body=_parts(), authorization=token).status_code == 413  # its length was not told


def test_a_server_that_only_shows_pages_takes_nothing() -> None:
    app = Edges(SITE, TOKENS, Addressed.of("127.0.0.1", "127.0.0.1"), lambda: NOW, read_only=True)
    token = f"Bearer {TOKENS.issue(TokenScope.CONTROL, NOW, timedelta(hours=1))}"
    assert ask(app=app, authorization=token).status_code == 200
    refused = ask(app=app, body=b"x", authorization=token)
    assert (refused.status_code, refused.json()["payload"]["code"]) == (403, "AUTH_FORBIDDEN")


@pytest.mark.parametrize(
    ("host", "listened", "good", "bad"),
    [
        ("127.0.0.1", "127.0.0.1", {"localhost", "::1"}, {"10.0.0.1", "ci.example", ""}),
        ("ci.example", "10.0.0.1", {"ci.example", "10.0.0.1"}, {"localhost", "evil.example"}),
        ("Bücher.example", "10.0.0.1", {"xn--bcher-kva.example"}, {"bücher.example", "localhost"}),
        ("[0:0::1]", "::1", {"::1", "localhost"}, {"evil.example"}),
        ("0.0.0.0", "0.0.0.0", {"10.9.8.7", "fe80::1", "localhost"}, {"evil.example"}),
    ],
)
def test_a_server_has_only_its_own_names(host: str, listened: str, good: set[str], bad: set[str]) -> None:
    hosts = Addressed.of(host, listened)
    assert {name for name in good | bad if hosts.has(name)} == good


def test_two_hosts_or_a_foreign_second_origin_are_refused() -> None:
    base = [(b"authorization", f"Bearer {VIEW}".encode())]
    twice = [(b"host", b"127.0.0.1"), (b"host", b"127.0.0.1"), *base]
    foreign = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), (b"origin", b"http://evil.example"), *base]
    assert [status_of(headers) for headers in (twice, foreign, [], twice[1:])] == [403, 403, 403, 200]


def status_of(headers: list[tuple[bytes, bytes]], path: str = "/") -> int:
    """The status of the answer to a request as a server of HTTP hands it on."""
    statuses: list[int] = []

    async def main() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
        await APP({**scope, "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80)}, receive, send)

    asyncio.run(main())
    return statuses[0]


def test_half_of_a_surrogate_pair_is_no_path() -> None:
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {VIEW}".encode())]
    assert status_of(headers, "/\ud800") == 404
