"""shop.local: search, cart, orders, returns, payment methods; a login if the world requires one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo import sessions
from harness.demo.login import Login
from harness.demo.shop import account, cart, catalog, checkout, orders, returns
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


ROUTES = [
    *LOGIN.routes(),
    *catalog.ROUTES,
    *cart.ROUTES,
    *members_only(checkout.ROUTES),
    *members_only(orders.ROUTES),
    *members_only(returns.ROUTES),
    *returns.POLLED,
    *members_only(account.ROUTES),
]
