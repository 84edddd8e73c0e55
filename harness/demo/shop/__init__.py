"""shop.local: search, cart, orders, returns, payment methods."""

from __future__ import annotations

from harness.demo.shop import account, cart, catalog, checkout, orders, returns

ROUTES = [
    *catalog.ROUTES,
    *cart.ROUTES,
    *checkout.ROUTES,
    *orders.ROUTES,
    *returns.ROUTES,
    *account.ROUTES,
]
