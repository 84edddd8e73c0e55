"""The shop's login, which a world may require: ``shop.settings.login`` is ``optional`` or ``required``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo import sessions
from harness.demo.login import Login
from harness.demo.visit import document

LOGIN = Login(site="shop", secrets={"demo": "demo-pass"}, home="/orders")

Endpoint = Callable[[Request], Awaitable[Response]]


def members_only(routes: Sequence[Route]) -> list[Route]:
    """Return the same routes; in a world whose shop requires a login they need a session."""
    return [Route(route.path, _require_login(route.endpoint), methods=list(route.methods or ())) for route in routes]


def _require_login(endpoint: Endpoint) -> Endpoint:
    async def guarded(request: Request) -> Response:
        shop = document(request)["shop"]
        demanded = shop["settings"].get("login") == "required"
        return sessions.to_login(request) if demanded and not sessions.user(request, shop) else await endpoint(request)

    return guarded
