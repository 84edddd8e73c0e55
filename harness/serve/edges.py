"""What is refused before any page answers: foreign hosts and origins, missing and wrong tokens, long bodies."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Final
from urllib.parse import quote, urlencode

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.serve.address import EVERYWHERE
from harness.serve.tokens import RefusedTokenError, Tokens, TokenScope
from harness.spec.names import HostPort, host_name, read_host

COOKIE: Final = "taskspec-serve"
"""The beginning of the cookie's name. The port follows, since a browser sends cookies to all ports of a host."""
LONGEST_BODY: Final = 1024 * 1024
"""Bytes of the body of a request, and of a message of a WebSocket."""
_LONGEST_PATH: Final = 2000
"""Characters of the path of a request."""
_LONGEST_NAME: Final = 255
"""Bytes of a name in a path, as file systems have it."""
_LOCAL_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN: Final = ("/health",)
"""The paths that answer without a token."""
_OPEN_SOCKETS: Final = ("/bridge",)
"""The WebSockets whose first message has the token: a page's WebSocket can send no header."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "SAMEORIGIN",
}
"""The headers of every answer."""
SCOPE: Final = "taskspec.scope"
"""The key of the ASGI scope that has the `TokenScope` of a request."""


class EdgeRefusal(Struct, frozen=True):
    """Why a request is refused."""

    status: int
    code: str
    message: str


class Addressed(Struct, frozen=True):
    """The names under which a server may be addressed. A site that rebinds its own name in the DNS has none of them."""

    names: frozenset[str]
    anywhere: bool = False
    """Whether it listens on all addresses of the machine: then any IP address is one of its names."""

    @classmethod
    def of(cls, host: str, listened: str) -> Addressed:
        """`host`: as it was asked for. `listened`: the address on which it listens."""
        names = frozenset({host_name(host), host_name(listened)})
        if listened in EVERYWHERE:
            return cls(names | _LOCAL_NAMES | {socket.gethostname().lower(), socket.getfqdn().lower()}, anywhere=True)
        return cls(names | _LOCAL_NAMES if names & _LOCAL_NAMES else names)

    def has(self, name: str) -> bool:
        """Return whether this is one of the names."""
        with contextlib.suppress(ValueError):
            return name in self.names or (self.anywhere and bool(ip_address(name)))
        return False


class Edges:
    """Lets only requests with a valid token and a known host pass; the outermost layer of the server."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Addressed,
        now: Callable[[], datetime],
        *,
        secure: bool = False,
        read_only: bool = False,
    ) -> None:
        """`secure`: it speaks TLS. `read_only`: it shows pages, and takes nothing from anybody."""
        self._app, self._tokens, self._hosts, self._now = app, tokens, hosts, now
        self._secure, self._read_only = secure, read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        token, place = _token(connection)
        answer = self._check(connection, token, scope)
        if answer is None and place == "query" and scope["type"] == "http" and scope["method"] == "GET":
            answer = self._without_token(connection, token)
        if answer is None and no_such_path(scope["path"]):
            answer = refuse(EdgeRefusal(404, "NOT_FOUND", "there is nothing at this path"))
        if answer is None:
            await self._app(scope, _bounded(receive), _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            await answer(scope, receive, _with_headers(send))

    def _check(self, connection: HTTPConnection, token: str, scope: Scope) -> Response | None:
        refusal = self._foreign(connection) or _too_long(connection) or self._not_reading(scope)
        said_later = scope["type"] == "websocket" and scope["path"] in _OPEN_SOCKETS
        if refusal is None and scope["path"] not in _OPEN and not said_later:
            try:
                if not token:
                    raise RefusedTokenError("a token is needed: open the address that `harness serve` prints")
                scope[SCOPE] = self._tokens.check(token, self._now())
            except RefusedTokenError as error:
                code = "AUTH_EXPIRED" if error.expired else "AUTH_INVALID" if token else "AUTH_REQUIRED"
                refusal = EdgeRefusal(401, code, str(error))
        return None if refusal is None else refuse(refusal)

    def _foreign(self, connection: HTTPConnection) -> EdgeRefusal | None:
        """A web site that the browser shows must neither read nor use this server, also not by DNS rebinding.

        A site on another port of the same host is foreign too, although the browser sends it our cookie.
        """
        told = connection.headers.getlist("host")
        host = read_host(told[0]) if len(told) == 1 else None
        if host is None or not self._hosts.has(host.name):
            return EdgeRefusal(403, "AUTH_FORBIDDEN", f"the host {', '.join(told)!r:.80} is not one of this server's")
        for origin in connection.headers.getlist("origin"):
            scheme, _, place = origin.partition("://")
            found = read_host(place) if scheme.lower() == ("https" if self._secure else "http") else None
            if found is None or self._with_port(found) != self._with_port(host):
                return EdgeRefusal(403, "AUTH_FORBIDDEN", f"pages of {origin:.200} may not use this server")
        return None

    def _with_port(self, host: HostPort) -> HostPort:
        return host._replace(port=host.port or (443 if self._secure else 80))

    def _not_reading(self, scope: Scope) -> EdgeRefusal | None:
        if self._read_only and scope.get("method") not in ("GET", "HEAD"):
            return EdgeRefusal(403, "AUTH_FORBIDDEN", "this server only shows pages: it was started with --page-only")
        return None

    def _without_token(self, connection: HTTPConnection, token: str) -> Response:
        """The same address without the token, which goes into a cookie: addresses are shown, copied and logged."""
        kept = [(name, value) for name, value in connection.query_params.multi_items() if name != "token"]
        path = "/" + quote(connection.scope["path"].lstrip("/"))  # two slashes would lead to another host
        answer = RedirectResponse(path + (f"?{urlencode(kept)}" if kept else ""), 303)
        name = _cookie_of(connection)
        answer.set_cookie(name, token, httponly=True, samesite="strict", secure=self._secure, path="/")
        return answer


def no_such_path(path: str) -> bool:
    """Return whether nothing can be served at a path: no file system and no session has a name like that."""
    try:
        parts = path.encode().split(b"/")
    except UnicodeEncodeError:  # half of a surrogate pair
        return True
    return "\0" in path or len(path) > _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in parts)


def _too_long(connection: HTTPConnection) -> EdgeRefusal | None:
    told = connection.headers.get("content-length", "")
    if told.isdigit() and int(told) > LONGEST_BODY:
        return EdgeRefusal(413, "PROTO_INVALID_MESSAGE", f"the body is longer than {LONGEST_BODY} bytes")
    return None


def _bounded(receive: Receive) -> Receive:
    """Reading a body that did not tell its length, and is longer than allowed, raises HTTPException."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > LONGEST_BODY:
                raise HTTPException(413, f"the body is longer than {LONGEST_BODY} bytes")
        return message

    return bounded


def _cookie_of(connection: HTTPConnection) -> str:
    """The cookie of this server: each port has its own, so that two projects do not take each other's."""
    server = connection.scope.get("server") or ("", 0)
    return f"{COOKIE}-{server[1]}"


def _token(connection: HTTPConnection) -> tuple[str, str]:
    """The token of a request, and where it stands."""
    if bearer := bearer_of(connection):
        return bearer, "header"
    if asked := connection.query_params.get("token"):
        return asked, "query"
    return connection.cookies.get(_cookie_of(connection), ""), "cookie"


def bearer_of(connection: HTTPConnection) -> str:
    """The token in `Authorization: Bearer ...`; empty if there is none."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def refuse(refusal: EdgeRefusal) -> Response:
    """The answer to a refused request."""
    error = {"code": refusal.code, "message": refusal.message}
    return JSONResponse({"type": "error", "payload": error}, refusal.status)


def allowed(scope: Mapping[str, object], needed: TokenScope) -> bool:
    """Return whether the token of a request allows this."""
    found = scope.get(SCOPE)
    return isinstance(found, TokenScope) and found >= needed


def _with_headers(send: Send) -> Send:
    async def with_headers(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))  # type: ignore[call-overload]
            names = {bytes(name).lower() for name, _ in given}
            more = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*given, *(each for each in more if each[0] not in names)]}
        await send(message)

    return with_headers  # type: ignore[return-value]
