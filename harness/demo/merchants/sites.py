"""The merchants whose sites store a payment card, each with a form of its own for it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.merchants.merchant import Merchant
from harness.demo.payment import typed
from harness.demo.rows import Document
from harness.demo.visit import field, see_other, world_id, worlds

# util.local: bills, and the card of the automatic payment, changed in a dialog.

_UTILITY = Merchant(site="util", overview="/bills", card_page="/autopay", prefix="UP")


@_UTILITY.login.required
async def change_utility_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the card from the dialog's form."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or _UTILITY.keep(request, last4, expiry)
    return _UTILITY.page(request, document, user, "card", error) if error else see_other("/autopay?updated=1")


UTILITY_ROUTES = [*_UTILITY.routes(), Route("/autopay", change_utility_card, methods=["POST"])]


# food.local: dishes to order, and the payment card, one of the customer's cards as radio buttons.

_FOOD = Merchant(site="food", overview="/menu", card_page="/account", prefix="FD")


@_FOOD.login.required
async def change_food_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the checked card."""
    error = _FOOD.keep_from_wallet(request, field(await request.form(), "card"))
    return _FOOD.page(request, document, user, "card", error) if error else see_other("/account?updated=1")


FOOD_ROUTES = [*_FOOD.routes(), Route("/account/card", change_food_card, methods=["POST"])]


# transport.local: the travel account, and a settings page that says which card tops it up, and when.

_TRANSPORT = Merchant(site="transport", overview="/account", card_page="/settings", prefix="TU")


@_TRANSPORT.login.required
async def change_transport_card(request: Request, document: Document, user: str) -> Response:
    """POST: store card and threshold together."""
    form = await request.form()
    threshold = field(form, "threshold")
    known = threshold in map(str, document["transport"]["topup"]["thresholds"])
    error = _TRANSPORT.keep_from_wallet(request, field(form, "card")) if known else "Please choose a threshold."
    if error:
        return _TRANSPORT.page(request, document, user, "card", error)
    with worlds(request).change(world_id(request)) as world:
        world["transport"]["topup"]["threshold"] = int(threshold)
    return see_other("/settings?updated=1")


TRANSPORT_ROUTES = [*_TRANSPORT.routes(), Route("/settings", change_transport_card, methods=["POST"])]


# stream.local: films to rent, and the payment card, typed into a widget that lives in an iframe.

_STREAM = Merchant(site="stream", overview="/library", card_page="/account/payment", prefix="SR")
_WIDGET = "/account/payment/widget"


@_STREAM.login.required
async def show_widget(request: Request, document: Document, user: str) -> Response:
    """The content of the iframe."""
    return _STREAM.page(request, document, user, "widget")


@_STREAM.login.required
async def change_stream_card(request: Request, document: Document, user: str) -> Response:
    """POST: the widget's form; the answer stays inside the iframe, which notifies the page around it."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or _STREAM.keep(request, last4, expiry)
    return _STREAM.page(request, document, user, "widget", error) if error else see_other(f"{_WIDGET}?saved=1")


STREAM_ROUTES = [
    *_STREAM.routes(),
    Route(_WIDGET, show_widget, methods=["GET"]),
    Route(_WIDGET, change_stream_card, methods=["POST"]),
]


# travel.local: trips, and the card of the profile, changed in two steps: enter it, then confirm it.

_TRAVEL = Merchant(site="travel", overview="/trips", card_page="/profile", prefix="TB")
_TRAVEL_CARD = "/profile/card"
_TRAVEL_CONFIRMATION = "/profile/card/confirm"


@_TRAVEL.login.required
async def enter(request: Request, document: Document, user: str) -> Response:
    """The first step: a form for the new card."""
    return _TRAVEL.page(request, document, user, "enter")


@_TRAVEL.login.required
async def entered(request: Request, document: Document, user: str) -> Response:
    """POST: keep the input for the second step; the stored card is still the old one."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    if error:
        return _TRAVEL.page(request, document, user, "enter", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {"last4": last4, "expiry": expiry}
    return see_other(_TRAVEL_CONFIRMATION)


@_TRAVEL.login.required
async def review(request: Request, document: Document, user: str) -> Response:
    """The second step: old and new card side by side; without a first step it redirects there."""
    return (
        _TRAVEL.page(request, document, user, "confirm") if document["travel"].get("draft") else see_other(_TRAVEL_CARD)
    )


@_TRAVEL.login.required
async def confirm(request: Request, document: Document, user: str) -> Response:
    """POST: store the new card."""
    draft = document["travel"].get("draft")
    if not draft:
        return see_other(_TRAVEL_CARD)
    accepted = field(await request.form(), "holder")
    error = _TRAVEL.keep(request, **draft) if accepted else "Please confirm that the card is yours."
    if error:
        return _TRAVEL.page(request, document, user, "confirm", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {}
    return see_other("/profile?updated=1")


TRAVEL_ROUTES = [
    *_TRAVEL.routes(),
    Route(_TRAVEL_CARD, enter, methods=["GET"]),
    Route(_TRAVEL_CARD, entered, methods=["POST"]),
    Route(_TRAVEL_CONFIRMATION, review, methods=["GET"]),
    Route(_TRAVEL_CONFIRMATION, confirm, methods=["POST"]),
]
