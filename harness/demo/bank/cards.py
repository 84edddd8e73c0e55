"""Cards: the list, replacing one, deactivating one."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.bank.access import LOGIN
from harness.demo.payment import typed
from harness.demo.rows import Document
from harness.demo.visit import field, page, see_other, world_id, worlds

REASONS = {"replaced": "Replaced by a new card", "lost": "Lost", "stolen": "Stolen", "damaged": "Damaged"}
DONE = {
    "activated": "The new card is active.",
    "deactivated": "The card is inactive now.",
    "blocked": "The card is blocked. Nobody can pay with it any more.",
    "issued": "Your virtual card is ready to pay with.",
}


@LOGIN.required
async def listing(request: Request, document: Document, user: str) -> Response:
    """The list of all cards with their status."""
    bank = document["bank"]
    replaced = {entry["card"]: key for key, entry in bank.get("replacements", {}).items()}
    taken_over = {card["replaces"] for card in bank["cards"].values() if "replaces" in card}
    context = {"cards": bank["cards"], "replaced": replaced, "taken_over": taken_over, "user": bank["users"][user]}
    return page(request, "bank/cards.html", context | {"notice": DONE.get(request.query_params.get("done", ""), "")})


@LOGIN.required
async def replacing(request: Request, document: Document, user: str) -> Response:
    """The form for activating the replacement of a card."""
    return _replace_form(request, document, user, "")


@LOGIN.required
async def replace(request: Request, document: Document, user: str) -> Response:
    """POST: activate the replacement."""
    form = await request.form()
    last4, expiry, error = typed(form, document["world"]["now"])
    if not error and last4 in document["bank"]["cards"]:
        error = f"You already have a card ending {last4}."
    if error:
        return _replace_form(request, document, user, error)
    with worlds(request).change(world_id(request)) as world:
        old, now = find(world, request), world["world"]["now"]
        new = {"last4": last4, "expiry": expiry, "status": "active", "replaces": old["last4"], "activated": now}
        world["bank"]["cards"][last4] = {name: old[name] for name in ("brand", "holder", "account")} | new
    return see_other("/cards?done=activated")


@LOGIN.required
async def deactivating(request: Request, document: Document, user: str) -> Response:
    """The form for deactivating a card."""
    return _deactivate_form(request, document, user, "")


@LOGIN.required
async def deactivate(request: Request, document: Document, user: str) -> Response:
    """POST: deactivate the card."""
    reason = field(await request.form(), "reason")
    if reason not in REASONS:
        return _deactivate_form(request, document, user, "Please choose a reason.")
    with worlds(request).change(world_id(request)) as world:
        card = find(world, request) | {"status": "inactive", "reason": reason, "deactivated": world["world"]["now"]}
        world["bank"]["cards"][card["last4"]] = card
    return see_other("/cards?done=deactivated")


def _replace_form(request: Request, document: Document, user: str, error: str) -> Response:
    context = {"card": find(document, request), "error": error, "user": document["bank"]["users"][user]}
    return page(request, "bank/replace.html", context)


def _deactivate_form(request: Request, document: Document, user: str, error: str) -> Response:
    context = {"card": find(document, request), "error": error, "reasons": REASONS}
    return page(request, "bank/deactivate.html", context | {"user": document["bank"]["users"][user]})


def find(document: Document, request: Request) -> dict[str, Any]:
    """Return the card that the path names; raise 404."""
    last4 = request.path_params["card"]
    if last4 not in document["bank"]["cards"]:
        raise HTTPException(404)
    return dict(document["bank"]["cards"][last4])


ROUTES = [
    Route("/cards", listing),
    Route("/cards/{card}/replace", replacing, methods=["GET"]),
    Route("/cards/{card}/replace", replace, methods=["POST"]),
    Route("/cards/{card}/deactivate", deactivating, methods=["GET"]),
    Route("/cards/{card}/deactivate", deactivate, methods=["POST"]),
]
