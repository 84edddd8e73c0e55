"""What is refused before any page answers: foreign hosts and origins, missing and wrong tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec import Struct
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.serve.tokens import RefusedTokenError, Tokens, TokenScope

COOKIE: Final = "taskspec-serve"
OPEN: Final = ("/health",)
"""The paths that answer without a token."""
OPEN_SOCKETS: Final = ("/bridge",)
"""The WebSockets whose first message has the token: a page's WebSocket can send no header."""
HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "SAMEORIGIN",
}
"""The headers of every answer."""
SCOPE: Final = "taskspec.scope"
"""The key of the ASGI scope that has the `TokenScope` of a request."""


class Refusal(Struct, frozen=True):
    """Why a request is refused."""

    status: int
    code: str
    message: str


class Edges:
    """Lets only requests with a valid token and a known host pass; the outermost layer of the server."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: frozenset[str],
        now: Callable[[], datetime],
        *,
        secure: bool = False,
    ) -> None:
        """`hosts`: the names under which the server is addressed. `secure`: it speaks TLS."""
        self._app = app
        self._tokens = tokens
        self._hosts = hosts
        self._now = now
        self._secure = secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or one WebSocket."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        token, place = _token(connection)
        answer = self._check(connection, token, scope)
        if answer is None and place == "query" and scope["type"] == "http" and scope["method"] == "GET":
            answer = self._without_token(connection, token)
        if answer is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        else:
            await answer(scope, receive, _with_headers(send))

    def _check(self, connection: HTTPConnection, token: str, scope: Scope) -> Response | None:
        refusal = self._foreign(connection)
        said_later = scope["type"] == "websocket" and connection.url.path in OPEN_SOCKETS
        if refusal is None and connection.url.path not in OPEN and not said_later:
            try:
                if not token:
                    raise RefusedTokenError("a token is needed: open the address that `harness serve` prints")
                scope[SCOPE] = self._tokens.check(token, self._now())
            except RefusedTokenError as error:
                code = "AUTH_EXPIRED" if error.expired else "AUTH_INVALID" if token else "AUTH_REQUIRED"
                refusal = Refusal(401, code, str(error))
        return None if refusal is None else refuse(refusal)

    def _foreign(self, connection: HTTPConnection) -> Refusal | None:
        """A web site that the browser shows must neither read nor use this server, also not by DNS rebinding."""
        name = urlsplit(f"//{connection.headers.get('host', '')}").hostname
        if name not in self._hosts:
            return Refusal(403, "AUTH_FORBIDDEN", f"the host {name!r} is not one of this server's")
        origin = connection.headers.get("origin")
        if origin is not None and urlsplit(origin).hostname not in self._hosts:
            return Refusal(403, "AUTH_FORBIDDEN", f"pages of {origin} may not use this server")
        return None

    def _without_token(self, connection: HTTPConnection, token: str) -> Response:
        """The same address without the token, which goes into a cookie: addresses are shown, copied and logged."""
        kept = [(name, value) for name, value in parse_qsl(connection.url.query) if name != "token"]
        answer = RedirectResponse(connection.url.path + (f"?{urlencode(kept)}" if kept else ""), 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=self._secure, path="/")
        return answer


def _token(connection: HTTPConnection) -> tuple[str, str]:
    """The token of a request, and where it stands."""
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value:
        return value.strip(), "header"
    if asked := connection.query_params.get("token"):
        return asked, "query"
    return connection.cookies.get(COOKIE, ""), "cookie"


def refuse(refusal: Refusal) -> Response:
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
            more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*given, *(each for each in more if each[0] not in names)]}
        await send(message)

    return with_headers  # type: ignore[return-value]
