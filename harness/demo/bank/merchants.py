"""Merchants, and the card that each of them charges."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.bank.access import LOGIN
from harness.demo.rows import Document
from harness.demo.visit import field, page, see_other, world_id, worlds


@LOGIN.required
async def listing(request: Request, document: Document, user: str) -> Response:
    """The table of merchants and cards."""
    return _table(request, document, user, "")


@LOGIN.required
async def update(request: Request, document: Document, user: str) -> Response:
    """POST: the merchant charges another card, which must be active."""
    card = field(await request.form(), "card")
    merchant = request.path_params["merchant"]
    if merchant not in document["bank"]["bindings"]:
        raise HTTPException(404)
    if document["bank"]["cards"].get(card, {}).get("status") != "active":
        return _table(request, document, user, f"The card ending {card} is not active.")
    with worlds(request).change(world_id(request)) as world:
        world["bank"]["bindings"][merchant] |= {"card": card, "updated": world["world"]["now"][:10]}
    return see_other(f"/merchants?updated={merchant}")


def _table(request: Request, document: Document, user: str, error: str) -> Response:
    bank = document["bank"]
    updated = bank["bindings"].get(request.query_params.get("updated", ""))
    context = {"bindings": bank["bindings"], "cards": bank["cards"], "updated": updated, "error": error}
    return page(request, "bank/merchants.html", context | {"user": bank["users"][user]})


ROUTES = [Route("/merchants", listing, methods=["GET"]), Route("/merchants/{merchant}", update, methods=["POST"])]
