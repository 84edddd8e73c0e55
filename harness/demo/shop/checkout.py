"""Checkout: makes an order out of address, shipping and card."""

from __future__ import annotations

from typing import Any, Final, Literal

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo import payment
from harness.demo.connection import ConnectionReset, Silence
from harness.demo.rows import Document
from harness.demo.shop.cart import lines, total
from harness.demo.visit import document, field, next_number, page, see_other, world_id, worlds

ADDRESS_FIELDS = ("name", "address", "city", "postcode")


class RefusedError(Exception):
    """The order cannot be placed; the customer sees the text."""


async def show(request: Request) -> Response:
    """The checkout form; an empty cart redirects to the cart page."""
    shop = document(request)["shop"]
    if not lines(shop):
        return see_other("/cart")
    return _form(request, shop, dict(shop["customer"]), "")


async def submit(request: Request) -> Response:
    """POST /checkout: place the order."""
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
        return _form(request, document(request)["shop"], sent, str(refusal))


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


def _form(request: Request, shop: Document, sent: dict[str, Any], error: str) -> HTMLResponse:
    items = lines(shop)
    context = {"items": items, "total": total(items), "sent": sent, "error": error, "cart": shop["cart"]}
    return page(
        request,
        "shop/checkout.html",
        context | {"shipping": shop["settings"]["shipping"], "bindings": shop["bindings"]},
    )


ROUTES = [Route("/checkout", show, methods=["GET"]), Route("/checkout", submit, methods=["POST"])]


# Intended breakdowns of the checkout: before or after it has placed the order, by the world's settings.

Moment = Literal["before_commit", "after_commit"]

NONE: Final = "none"
_ONCE: Final = "_once"
_ANSWERS: Final = {"reset": ConnectionReset, "hang": Silence}


def strike(shop: Document, moment: Moment) -> Response | None:
    """Return the broken answer if the checkout breaks down now, else None; a ``..._once`` setting is used up by it."""
    settings = shop["settings"].get("checkout", {})
    breakdown = settings.get(moment, NONE)
    if breakdown == NONE:
        return None
    if breakdown.endswith(_ONCE):
        settings[moment] = NONE
    return _ANSWERS[breakdown.removesuffix(_ONCE)]()
