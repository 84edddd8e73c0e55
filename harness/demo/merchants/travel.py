"""travel.local: trips, and the card of the profile, changed in two steps: enter it, then confirm it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.cards import typed
from harness.demo.merchants.merchant import Merchant
from harness.demo.rows import Document
from harness.demo.visit import field, see_other, world_id, worlds

TRAVEL = Merchant(site="travel", overview="/trips", card_page="/profile", prefix="TB")
FIRST = "/profile/card"
SECOND = "/profile/card/confirm"


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
    return see_other(SECOND)


@TRAVEL.login.required
async def review(request: Request, document: Document, user: str) -> Response:
    """The second step: old and new card side by side; without a first step it redirects there."""
    return TRAVEL.page(request, document, user, "confirm") if document["travel"].get("draft") else see_other(FIRST)


@TRAVEL.login.required
async def confirm(request: Request, document: Document, user: str) -> Response:
    """POST: store the new card."""
    draft = document["travel"].get("draft")
    if not draft:
        return see_other(FIRST)
    accepted = field(await request.form(), "holder")
    error = TRAVEL.keep(request, **draft) if accepted else "Please confirm that the card is yours."
    if error:
        return TRAVEL.page(request, document, user, "confirm", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {}
    return see_other("/profile?updated=1")


ROUTES = [
    *TRAVEL.routes(),
    Route(FIRST, enter, methods=["GET"]),
    Route(FIRST, entered, methods=["POST"]),
    Route(SECOND, review, methods=["GET"]),
    Route(SECOND, confirm, methods=["POST"]),
]
