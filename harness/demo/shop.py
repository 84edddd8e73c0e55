"""shop.local: search, cart, orders, returns, payment methods; a login if the world requires one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from harness.demo import payment
from harness.demo.connection import ConnectionReset, Silence
from harness.demo.login import Login, to_login, user_of
from harness.demo.payment import typed
from harness.demo.visit import (
    attachment,
    document,
    field,
    money,
    next_number,
    page,
    see_other,
    upload,
    world_id,
    worlds,
)
from harness.demo.worlds import Document

LOGIN = Login(site="shop", secrets={"demo": "demo-pass"}, home="/orders")

_Endpoint = Callable[[Request], Awaitable[Response]]


def _members_only(routes: Sequence[Route]) -> list[Route]:
    """Return the same routes; in a world whose shop requires a login they need a session."""
    return [Route(route.path, _require_login(route.endpoint), methods=list(route.methods or ())) for route in routes]


def _require_login(endpoint: _Endpoint) -> _Endpoint:
    async def guarded(request: Request) -> Response:
        shop = document(request)["shop"]
        demanded = shop["settings"].get("login") == "required"
        return to_login(request) if demanded and not user_of(request, shop) else await endpoint(request)

    return guarded


# Home, search and product pages.

_FEATURED = 4
_SAME_DAY = "same-day"
"""A word of a search: only products that the warehouse can send today."""
WAREHOUSE_SECONDS = 2.5
"""How long the warehouse takes to answer; it is not asked again when the price is limited afterwards."""


async def home(request: Request) -> HTMLResponse:
    """The page with the search box and a few products."""
    shop = document(request)["shop"]
    return _page(request, shop, "home", featured=search(shop["products"], "", "", None)[:_FEATURED])


async def results(request: Request) -> HTMLResponse:
    """The page of results: its script fetches the products."""
    shop = document(request)["shop"]
    categories = sorted({product["category"] for product in shop["products"].values()})
    return _page(request, shop, "search", categories=categories)


async def found(request: Request) -> JSONResponse:
    """GET /api/search: the matching products, the cheapest first."""
    query = request.query_params
    try:
        limit = float(query["max_price"]) if query.get("max_price") else None
    except ValueError:
        return JSONResponse({"error": "max_price is no number"}, status_code=400)
    products = document(request)["shop"]["products"]
    words = query.get("q", "").lower().split()
    if _SAME_DAY in words:
        await asyncio.sleep(WAREHOUSE_SECONDS if limit is None else 0)
        products = {sku: product for sku, product in products.items() if product["stock"] > 0}
    items = search(products, " ".join(word for word in words if word != _SAME_DAY), query.get("category", ""), limit)
    return JSONResponse({"items": items})


async def product(request: Request) -> HTMLResponse:
    """The page of one product, with its "add to cart" form."""
    shop = document(request)["shop"]
    sku = request.path_params["sku"]
    if sku not in shop["products"]:
        raise HTTPException(404)
    return _page(request, shop, "product", sku=sku, product=shop["products"][sku])


def _page(request: Request, shop: Document, template: str, **context: Any) -> HTMLResponse:
    return page(request, f"shop/{template}.html", {"cart": shop["cart"], **context})


def search(products: Document, words: str, category: str, limit: float | None) -> list[dict[str, Any]]:
    """Return the products with every word, the category and at most the price; empty means any."""
    wanted = words.lower().split()
    matching = [
        {"sku": sku, **product}
        for sku, product in products.items()
        if (not category or product["category"] == category)
        and (limit is None or product["price"] <= limit)
        and all(word in f"{product['name']} {product['kind']} {product['category']}".lower() for word in wanted)
    ]
    return sorted(matching, key=lambda product: (product["price"], product["sku"]))


# The cart: its items and their price.

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


async def _show_cart(request: Request) -> HTMLResponse:
    """The cart page."""
    shop = document(request)["shop"]
    items = lines(shop)
    return _page(request, shop, "cart", items=items, total=total(items))


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


# Checkout: makes an order out of address, shipping and card.

ADDRESS_FIELDS = ("name", "address", "city", "postcode")


class RefusedError(Exception):
    """The order cannot be placed; the customer sees the text."""


async def _check_out(request: Request) -> Response:
    """The checkout form, or the cart page if the cart is empty; POST places the order."""
    if request.method != "POST":
        shop = document(request)["shop"]
        return _checkout_form(request, shop, dict(shop["customer"]), "") if lines(shop) else see_other("/cart")
    form = await request.form()
    with worlds(request).change(world_id(request)) as world:
        broken = strike(world["shop"], "before_commit")
    if broken is not None:
        return broken
    try:
        with worlds(request).change(world_id(request)) as world:
            return _place_order(world, form)
    except RefusedError as refusal:
        sent = {name: field(form, name) for name in ADDRESS_FIELDS}
        return _checkout_form(request, document(request)["shop"], sent, str(refusal))


def _place_order(world: Document, form: FormData) -> Response:
    """Place the order; a breakdown right after it leaves the cart full: sending the form again orders again."""
    number = place(world, form, world["shop"]["cart"])
    broken = strike(world["shop"], "after_commit")
    if broken is not None:
        return broken
    world["shop"]["cart"] = {}
    return see_other(f"/orders/{number}/confirmation")


def place(world: Document, form: FormData, cart: Document) -> str:
    """Make a paid order out of a cart and return its number; raise ``RefusedError``."""
    shop = world["shop"]
    items, speed = lines({**shop, "cart": cart}), field(form, "shipping_speed")
    card = shop["bindings"].get(field(form, "card"))
    if not items:
        raise RefusedError("Your cart is empty.")
    if not all(field(form, name) for name in ADDRESS_FIELDS):
        raise RefusedError("Please fill in the whole delivery address.")
    if speed not in shop["settings"]["shipping"] or card is None:
        raise RefusedError("Please choose a shipping speed and a card.")
    shipping = shop["settings"]["shipping"][speed]
    price = round(total(items) + shipping, 2)
    if not payment.charge(world, card["last4"], price, "shop.local"):
        raise RefusedError(f"Your bank declined the card ending {card['last4']}.")
    order = _order(world, form, items, price) | {"shipping_speed": speed, "shipping": shipping, "card": card["last4"]}
    shop["orders"][order["id"]] = order
    return str(order["id"])


def _order(world: Document, form: FormData, items: list[dict[str, Any]], price: float) -> dict[str, Any]:
    return {
        "id": f"O-{next_number(world['shop']['numbers'], 'order'):05d}",
        "placed": world["world"]["now"],
        "status": "confirmed",
        "items": items,
        "address": f"{field(form, 'address')}, {field(form, 'city')} {field(form, 'postcode')}",
        "total": price,
    }


def _checkout_form(request: Request, shop: Document, sent: dict[str, Any], error: str) -> HTMLResponse:
    items = lines(shop)
    choices = {"shipping": shop["settings"]["shipping"], "bindings": shop["bindings"]}
    return _page(request, shop, "checkout", items=items, total=total(items), sent=sent, error=error, **choices)


# Intended breakdowns of the checkout: before or after it has placed the order, by the world's settings.

_Moment = Literal["before_commit", "after_commit"]

NONE: Final = "none"
_ONCE: Final = "_once"
_ANSWERS: Final = {"reset": ConnectionReset, "hang": Silence}


def strike(shop: Document, moment: _Moment) -> Response | None:
    """Return the broken answer if the checkout breaks down now, else None; a ``..._once`` setting is used up by it."""
    settings = shop["settings"].get("checkout", {})
    breakdown = settings.get(moment, NONE)
    if breakdown == NONE:
        return None
    if breakdown.endswith(_ONCE):
        settings[moment] = NONE
    return _ANSWERS[breakdown.removesuffix(_ONCE)]()


# Orders: confirmation, list, detail and receipt.


def find(shop: Document, request: Request) -> dict[str, Any]:
    """Return the order that the path names; raise 404."""
    order = shop["orders"].get(request.path_params["order"])
    if order is None:
        raise HTTPException(404)
    return dict(order)


async def confirmation(request: Request) -> HTMLResponse:
    """The page right after an order."""
    shop = document(request)["shop"]
    return _page(request, shop, "confirmation", order=find(shop, request))


async def _listing(request: Request) -> HTMLResponse:
    """The page with all orders and returns, the newest first."""
    shop = document(request)["shop"]
    orders = sorted(shop["orders"].values(), key=lambda order: str(order.get("placed", "")), reverse=True)
    return _page(request, shop, "orders", orders=orders, returns=shop["returns"])


async def _detail(request: Request) -> HTMLResponse:
    """The page of one order with its items and their returns."""
    shop = document(request)["shop"]
    order = find(shop, request)
    returned = {entry.get("sku"): key for key, entry in shop["returns"].items() if entry.get("order") == order["id"]}
    return _page(request, shop, "order", order=order, returned=returned)


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


# Returns: the form, the request, the state that the page polls.

_REASONS = {"defective": "Defective", "wrong_item": "Wrong item", "not_needed": "No longer needed"}
_SHOP_PAYS_SHIPPING = ("defective", "wrong_item")


async def _order_return(request: Request) -> Response:
    """The return form of one item; POST requests the return. An item is returned once."""
    if request.method != "POST":
        return _return_form(request)
    form = await request.form()
    photo = await upload(form, "photo")
    if field(form, "reason") not in _REASONS:
        return _return_form(request, "Please choose a reason.")
    with worlds(request).change(world_id(request)) as world:
        order, item = _item(world["shop"], request)
        number = None if _is_returned(world["shop"], order, item) else _request_return(world, order, item, form, photo)
    if number is None:
        return _return_form(request, "This item has already been returned.")
    return see_other(f"/returns/{number}/requested")


def _request_return(
    world: Document, order: dict[str, Any], item: dict[str, Any], form: FormData, photo: dict[str, Any] | None
) -> str:
    """Store the return and, if it is approved at once, the refund; return its number."""
    shop = world["shop"]
    number = f"R-{next_number(shop['numbers'], 'return'):05d}"
    reason = field(form, "reason")
    shipping = order.get("shipping", 0.0) if reason in _SHOP_PAYS_SHIPPING else 0.0
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
    return _page(request, shop, "return_requested", entry=_return(shop, request))


async def state(request: Request) -> HTMLResponse:
    """The page of a return with its state."""
    shop = document(request)["shop"]
    return _page(request, shop, "return", entry=_return(shop, request))


async def label(request: Request) -> Response:
    """The label for the parcel as a text file."""
    entry = _return(document(request)["shop"], request)
    text = f"shop.local return label\nReturn: {entry['id']}\nOrder: {entry.get('order')}\nArticle: {entry.get('sku')}\n"
    return attachment(text, f"return-label-{entry['id']}.txt")


async def _polled(request: Request) -> JSONResponse:
    """GET /api/returns/{id}: the state for the page's polling."""
    entry = _return(document(request)["shop"], request)
    return JSONResponse({"id": entry["id"], "state": entry.get("state"), "refund": entry.get("refund")})


def _return_form(request: Request, error: str = "") -> HTMLResponse:
    shop = document(request)["shop"]
    order, item = _item(shop, request)
    if not error and _is_returned(shop, order, item):
        error = "This item has already been returned."
    return _page(request, shop, "return_form", order=order, item=item, reasons=_REASONS, error=error)


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


# Payment methods: the cards that the shop charges.

_LISTING = "/account/payment-methods"


async def methods(request: Request) -> HTMLResponse:
    """The page with the stored cards."""
    shop = document(request)["shop"]
    updated = request.query_params.get("updated")
    return _page(request, shop, "payment_methods", bindings=shop["bindings"], updated=updated)


async def _replace_card(request: Request) -> Response:
    """The form for replacing a card; POST stores another one."""
    if request.method != "POST":
        return _card_form(request)
    form = await request.form()
    method = request.path_params["method"]
    with worlds(request).change(world_id(request)) as world:
        binding = _binding(world["shop"], request)
        last4, expiry, error = typed(form, world["world"]["now"])
        if not error:
            binding |= {"last4": last4, "expiry": expiry, "updated": world["world"]["now"]}
            world["shop"]["bindings"][method] = binding
    return _card_form(request, last4, expiry, error) if error else see_other(f"{_LISTING}?updated={method}")


def _card_form(request: Request, last4: str = "", expiry: str = "", error: str = "") -> HTMLResponse:
    shop = document(request)["shop"]
    context = {"binding": _binding(shop, request), "last4": last4, "expiry": expiry, "error": error}
    return _page(request, shop, "replace_card", **context)


def _binding(shop: Document, request: Request) -> dict[str, Any]:
    method = request.path_params["method"]
    if method not in shop["bindings"]:
        raise HTTPException(404)
    return dict(shop["bindings"][method])


ROUTES = [
    *LOGIN.routes(),
    Route("/", home),
    Route("/search", results),
    Route("/api/search", found),
    Route("/product/{sku}", product),
    Route("/cart", _show_cart),
    Route("/cart/items", add, methods=["POST"]),
    Route("/cart/items/{sku}", change, methods=["POST"]),
    Route("/api/returns/{number}", _polled),
    *_members_only(
        [
            Route("/checkout", _check_out, methods=["GET", "POST"]),
            Route("/orders", _listing),
            Route("/orders/{order}", _detail),
            Route("/orders/{order}/confirmation", confirmation),
            Route("/orders/{order}/receipt", receipt),
            Route("/orders/{order}/return/{sku}", _order_return, methods=["GET", "POST"]),
            Route("/returns/{number}/requested", requested),
            Route("/returns/{number}", state),
            Route("/returns/{number}/label", label),
            Route(_LISTING, methods),
            Route(f"{_LISTING}/{{method}}/replace", _replace_card, methods=["GET", "POST"]),
        ]
    ),
]
