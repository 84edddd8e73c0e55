"""shop.local: search, cart, orders, returns, payment methods; a login if the world requires one."""

from __future__ import annotations

from harness.demo.shop import account, cart, catalog, checkout, orders, returns
from harness.demo.shop.access import LOGIN, members_only

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
