"""Orders: confirmation, list, detail and receipt."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo.rows import Document
from harness.demo.visit import attachment, document, money, page


def find(shop: Document, request: Request) -> dict[str, Any]:
    """Return the order that the path names; raise 404."""
    order = shop["orders"].get(request.path_params["order"])
    if order is None:
        raise HTTPException(404)
    return dict(order)


async def confirmation(request: Request) -> HTMLResponse:
    """The page right after an order."""
    shop = document(request)["shop"]
    return page(request, "shop/confirmation.html", {"order": find(shop, request), "cart": shop["cart"]})


async def listing(request: Request) -> HTMLResponse:
    """The page with all orders and returns, the newest first."""
    shop = document(request)["shop"]
    orders = sorted(shop["orders"].values(), key=lambda order: str(order.get("placed", "")), reverse=True)
    return page(request, "shop/orders.html", {"orders": orders, "returns": shop["returns"], "cart": shop["cart"]})


async def detail(request: Request) -> HTMLResponse:
    """The page of one order with its items and their returns."""
    shop = document(request)["shop"]
    order = find(shop, request)
    returned = {entry.get("sku"): key for key, entry in shop["returns"].items() if entry.get("order") == order["id"]}
    return page(request, "shop/order.html", {"order": order, "returned": returned, "cart": shop["cart"]})


async def receipt(request: Request) -> Response:
    """The receipt as a text file."""
    order = find(document(request)["shop"], request)
    items = [f"{item['qty']} x {item['sku']} {item['name']}: {money(item['price'])}" for item in order["items"]]
    text = [
        "shop.local receipt",
        f"Order: {order['id']}",
        f"Placed: {order['placed']}",
        *items,
        f"Shipping ({order['shipping_speed']}): {money(order['shipping'])}",
        f"Total: {money(order['total'])} USD",
        f"Card ending: {order['card']}",
    ]
    return attachment("\n".join(text) + "\n", f"receipt-{order['id']}.txt")


ROUTES = [
    Route("/orders", listing),
    Route("/orders/{order}", detail),
    Route("/orders/{order}/confirmation", confirmation),
    Route("/orders/{order}/receipt", receipt),
]
