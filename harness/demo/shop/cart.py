"""The cart: its items and their price."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo.rows import Document
from harness.demo.visit import document, field, page, see_other, world_id, worlds

MOST_PER_ITEM = 10


def lines(shop: Document) -> list[dict[str, Any]]:
    """Return the cart as order items, without products that are no longer sold."""
    return [
        {"sku": sku, "name": product["name"], "qty": entry["qty"], "price": product["price"]}
        for sku, entry in sorted(shop["cart"].items())
        if (product := shop["products"].get(sku))
    ]


def total(items: list[dict[str, Any]]) -> float:
    """Return the price of the items, shipping not included."""
    return float(round(sum(item["price"] * item["qty"] for item in items), 2))


async def show(request: Request) -> HTMLResponse:
    """The cart page."""
    shop = document(request)["shop"]
    items = lines(shop)
    return page(request, "shop/cart.html", {"items": items, "total": total(items), "cart": shop["cart"]})


async def add(request: Request) -> Response:
    """POST /cart/items: add a product."""
    form = await request.form()
    sku, wanted = field(form, "sku"), _quantity(field(form, "qty"))
    with worlds(request).change(world_id(request)) as world:
        shop = world["shop"]
        if sku not in shop["products"]:
            raise HTTPException(404)
        entry = shop["cart"].setdefault(sku, {"qty": 0})
        entry["qty"] = min(MOST_PER_ITEM, entry["qty"] + max(1, wanted))
    return see_other("/cart")


async def change(request: Request) -> Response:
    """POST /cart/items/{sku}: change the quantity; 0 removes the item."""
    form = await request.form()
    sku, wanted = request.path_params["sku"], _quantity(field(form, "qty"))
    with worlds(request).change(world_id(request)) as world:
        cart = world["shop"]["cart"]
        if wanted > 0 and sku in cart:
            cart[sku] = {"qty": min(MOST_PER_ITEM, wanted)}
        else:
            cart.pop(sku, None)
    return see_other("/cart")


def _quantity(text: str) -> int:
    return int(text) if text.isdecimal() else 1


ROUTES = [
    Route("/cart", show),
    Route("/cart/items", add, methods=["POST"]),
    Route("/cart/items/{sku}", change, methods=["POST"]),
]
