"""Returns: the form, the request, the state that the page polls."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from harness.demo import payment
from harness.demo.rows import Document
from harness.demo.shop.orders import find
from harness.demo.visit import attachment, document, field, next_number, page, see_other, upload, world_id, worlds

REASONS = {"defective": "Defective", "wrong_item": "Wrong item", "not_needed": "No longer needed"}
SHOP_PAYS_SHIPPING = ("defective", "wrong_item")


async def show(request: Request) -> HTMLResponse:
    """The return form of one item."""
    return _form(request, "")


async def submit(request: Request) -> Response:
    """POST: request the return; an item is returned once."""
    form = await request.form()
    photo = await upload(form, "photo")
    if field(form, "reason") not in REASONS:
        return _form(request, "Please choose a reason.")
    with worlds(request).change(world_id(request)) as world:
        order, item = _item(world["shop"], request)
        number = None if _is_returned(world["shop"], order, item) else request_return(world, order, item, form, photo)
    if number is None:
        return _form(request, "This item has already been returned.")
    return see_other(f"/returns/{number}/requested")


def request_return(
    world: Document, order: dict[str, Any], item: dict[str, Any], form: FormData, photo: dict[str, Any] | None
) -> str:
    """Store the return and, if it is approved at once, the refund; return its number."""
    shop = world["shop"]
    number = f"R-{next_number(shop['numbers'], 'return'):05d}"
    reason = field(form, "reason")
    shipping = order.get("shipping", 0.0) if reason in SHOP_PAYS_SHIPPING else 0.0
    entry = {
        "id": number,
        "order": order["id"],
        "sku": item["sku"],
        "name": item["name"],
        "reason": reason,
        "comment": field(form, "comment"),
        "photo": photo,
        "requested": world["world"]["now"],
        "state": shop["settings"]["returns"]["initial_state"],
        "refund": round(item["price"] * item["qty"] + shipping, 2),
    }
    shop["returns"][number] = entry
    if entry["state"] == "approved":
        shop["refunds"][number] = {"amount": entry["refund"], "card": order["card"], "issued": world["world"]["now"]}
        payment.refund(world, order["card"], entry["refund"], "shop.local")
    return number


async def requested(request: Request) -> HTMLResponse:
    """The page right after the request: it shows the number, but not yet the state."""
    shop = document(request)["shop"]
    return page(request, "shop/return_requested.html", {"entry": _return(shop, request), "cart": shop["cart"]})


async def state(request: Request) -> HTMLResponse:
    """The page of a return with its state."""
    shop = document(request)["shop"]
    return page(request, "shop/return.html", {"entry": _return(shop, request), "cart": shop["cart"]})


async def label(request: Request) -> Response:
    """The label for the parcel as a text file."""
    entry = _return(document(request)["shop"], request)
    text = f"shop.local return label\nReturn: {entry['id']}\nOrder: {entry.get('order')}\nArticle: {entry.get('sku')}\n"
    return attachment(text, f"return-label-{entry['id']}.txt")


async def polled(request: Request) -> JSONResponse:
    """GET /api/returns/{id}: the state for the page's polling."""
    entry = _return(document(request)["shop"], request)
    return JSONResponse({"id": entry["id"], "state": entry.get("state"), "refund": entry.get("refund")})


def _form(request: Request, error: str) -> HTMLResponse:
    shop = document(request)["shop"]
    order, item = _item(shop, request)
    if not error and _is_returned(shop, order, item):
        error = "This item has already been returned."
    context = {"order": order, "item": item, "reasons": REASONS, "error": error, "cart": shop["cart"]}
    return page(request, "shop/return_form.html", context)


def _item(shop: Document, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    order = find(shop, request)
    for item in order["items"]:
        if item["sku"] == request.path_params["sku"]:
            return order, dict(item)
    raise HTTPException(404)


def _is_returned(shop: Document, order: dict[str, Any], item: dict[str, Any]) -> bool:
    wanted = (order["id"], item["sku"])
    return any((entry.get("order"), entry.get("sku")) == wanted for entry in shop["returns"].values())


def _return(shop: Document, request: Request) -> dict[str, Any]:
    number = request.path_params["number"]
    if number not in shop["returns"]:
        raise HTTPException(404)
    return {"id": number, **shop["returns"][number]}


ROUTES = [
    Route("/orders/{order}/return/{sku}", show, methods=["GET"]),
    Route("/orders/{order}/return/{sku}", submit, methods=["POST"]),
    Route("/returns/{number}/requested", requested),
    Route("/returns/{number}", state),
    Route("/returns/{number}/label", label),
]
POLLED = [Route("/api/returns/{number}", polled)]
