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

UTILITY = Merchant(site="util", overview="/bills", card_page="/autopay", prefix="UP")


@UTILITY.login.required
async def change_utility_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the card from the dialog's form."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or UTILITY.keep(request, last4, expiry)
    return UTILITY.page(request, document, user, "card", error) if error else see_other("/autopay?updated=1")


UTILITY_ROUTES = [*UTILITY.routes(), Route("/autopay", change_utility_card, methods=["POST"])]


# food.local: dishes to order, and the payment card, one of the customer's cards as radio buttons.

FOOD = Merchant(site="food", overview="/menu", card_page="/account", prefix="FD")


@FOOD.login.required
async def change_food_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the checked card."""
    error = FOOD.keep_from_wallet(request, field(await request.form(), "card"))
    return FOOD.page(request, document, user, "card", error) if error else see_other("/account?updated=1")


FOOD_ROUTES = [*FOOD.routes(), Route("/account/card", change_food_card, methods=["POST"])]


# transport.local: the travel account, and a settings page that says which card tops it up, and when.

TRANSPORT = Merchant(site="transport", overview="/account", card_page="/settings", prefix="TU")


@TRANSPORT.login.required
async def change_transport_card(request: Request, document: Document, user: str) -> Response:
    """POST: store card and threshold together."""
    form = await request.form()
    threshold = field(form, "threshold")
    known = threshold in map(str, document["transport"]["topup"]["thresholds"])
    error = TRANSPORT.keep_from_wallet(request, field(form, "card")) if known else "Please choose a threshold."
    if error:
        return TRANSPORT.page(request, document, user, "card", error)
    with worlds(request).change(world_id(request)) as world:
        world["transport"]["topup"]["threshold"] = int(threshold)
    return see_other("/settings?updated=1")


TRANSPORT_ROUTES = [*TRANSPORT.routes(), Route("/settings", change_transport_card, methods=["POST"])]


# stream.local: films to rent, and the payment card, typed into a widget that lives in an iframe.

STREAM = Merchant(site="stream", overview="/library", card_page="/account/payment", prefix="SR")
WIDGET = "/account/payment/widget"


@STREAM.login.required
async def show_widget(request: Request, document: Document, user: str) -> Response:
    """The content of the iframe."""
    return STREAM.page(request, document, user, "widget")


@STREAM.login.required
async def change_stream_card(request: Request, document: Document, user: str) -> Response:
    """POST: the widget's form; the answer stays inside the iframe, which notifies the page around it."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or STREAM.keep(request, last4, expiry)
    return STREAM.page(request, document, user, "widget", error) if error else see_other(f"{WIDGET}?saved=1")


STREAM_ROUTES = [
    *STREAM.routes(),
    Route(WIDGET, show_widget, methods=["GET"]),
    Route(WIDGET, change_stream_card, methods=["POST"]),
]


# travel.local: trips, and the card of the profile, changed in two steps: enter it, then confirm it.

TRAVEL = Merchant(site="travel", overview="/trips", card_page="/profile", prefix="TB")
TRAVEL_CARD = "/profile/card"
TRAVEL_CONFIRMATION = "/profile/card/confirm"


@TRAVEL.login.required
async def enter(request: Request, document: Document, user: str) -> Response:
    """The first step: a form for the new card."""
    return TRAVEL.page(request, document, user, "enter")


@TRAVEL.login.required
async def entered(request: Request, document: Document, user: str) -> Response:
    """POST: keep the input for the second step; the stored card is still the old one."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    if error:
        return TRAVEL.page(request, document, user, "enter", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {"last4": last4, "expiry": expiry}
    return see_other(TRAVEL_CONFIRMATION)


@TRAVEL.login.required
async def review(request: Request, document: Document, user: str) -> Response:
    """The second step: old and new card side by side; without a first step it redirects there."""
    return (
        TRAVEL.page(request, document, user, "confirm") if document["travel"].get("draft") else see_other(TRAVEL_CARD)
    )


@TRAVEL.login.required
async def confirm(request: Request, document: Document, user: str) -> Response:
    """POST: store the new card."""
    draft = document["travel"].get("draft")
    if not draft:
        return see_other(TRAVEL_CARD)
    accepted = field(await request.form(), "holder")
    error = TRAVEL.keep(request, **draft) if accepted else "Please confirm that the card is yours."
    if error:
        return TRAVEL.page(request, document, user, "confirm", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {}
    return see_other("/profile?updated=1")


TRAVEL_ROUTES = [
    *TRAVEL.routes(),
    Route(TRAVEL_CARD, enter, methods=["GET"]),
    Route(TRAVEL_CARD, entered, methods=["POST"]),
    Route(TRAVEL_CONFIRMATION, review, methods=["GET"]),
    Route(TRAVEL_CONFIRMATION, confirm, methods=["POST"]),
]
