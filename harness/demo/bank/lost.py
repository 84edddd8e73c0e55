"""A lost card: block it, pay with a virtual one at once, have its replacement sent."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.bank.access import LOGIN
from harness.demo.bank.cards import find
from harness.demo.rows import Document
from harness.demo.visit import field, next_number, page, see_other, world_id, worlds

CIRCUMSTANCES = {"lost": "I have lost it", "stolen": "It was stolen"}
DELIVERIES = {"standard": "Standard (5 working days)", "express": "Express (next working day)"}
VIRTUAL_YEARS = 3


@LOGIN.required
async def reporting(request: Request, document: Document, user: str) -> Response:
    """The form for reporting an active card as lost."""
    return _form(request, document, user, "lost", "")


@LOGIN.required
async def report(request: Request, document: Document, user: str) -> Response:
    """POST: the card is blocked."""
    reason = field(await request.form(), "reason")
    if reason not in CIRCUMSTANCES:
        return _form(request, document, user, "lost", "Please say what happened.")
    with worlds(request).change(world_id(request)) as world:
        card = find(world, request)
        if card["status"] == "active":
            blocked = {"status": "blocked", "reason": reason, "blocked": world["world"]["now"]}
            world["bank"]["cards"][card["last4"]] = card | blocked
    return see_other("/cards?done=blocked")


@LOGIN.required
async def virtual(request: Request, document: Document, user: str) -> Response:
    """The offer of a virtual card in place of a blocked one."""
    return _form(request, document, user, "virtual", "")


@LOGIN.required
async def issue(request: Request, document: Document, user: str) -> Response:
    """POST: issue the virtual card; one per blocked card."""
    error = _objection(document["bank"], find(document, request))
    if error:
        return _form(request, document, user, "virtual", error)
    with worlds(request).change(world_id(request)) as world:
        old = find(world, request)
        last4 = f"{next_number(world['bank']['numbers'], 'virtual_card'):04d}"
        world["bank"]["cards"][last4] = _virtual_card(old, last4, world["world"]["now"])
    return see_other("/cards?done=issued")


@LOGIN.required
async def ordering(request: Request, document: Document, user: str) -> Response:
    """The form for ordering the replacement."""
    return _form(request, document, user, "order_replacement", "")


@LOGIN.required
async def order(request: Request, document: Document, user: str) -> Response:
    """POST: the replacement is on its way; one per card."""
    delivery = field(await request.form(), "delivery")
    if delivery not in DELIVERIES:
        return _form(request, document, user, "order_replacement", "Please choose a delivery.")
    with worlds(request).change(world_id(request)) as world:
        number = _replacement_of(world["bank"], find(world, request)["last4"]) or _order(world, request, delivery)
    return see_other(f"/replacements/{number}")


@LOGIN.required
async def replacement(request: Request, document: Document, user: str) -> Response:
    """The page of one ordered replacement."""
    bank = document["bank"]
    entry = bank["replacements"].get(request.path_params["number"])
    if entry is None:
        raise HTTPException(404)
    context = {"replacement": entry, "delivery": DELIVERIES[entry["delivery"]], "user": bank["users"][user]}
    return page(request, "bank/replacement.html", context)


def _virtual_card(old: dict[str, Any], last4: str, now: str) -> dict[str, Any]:
    kept = {name: old[name] for name in ("brand", "holder", "account")}
    expiry = f"{now[5:7]}/{int(now[:4]) + VIRTUAL_YEARS}"
    made = {"last4": last4, "kind": "virtual", "expiry": expiry, "status": "active", "activated": now}
    return kept | made | {"replaces": old["last4"]}


def _objection(bank: Document, card: dict[str, Any]) -> str:
    if card["status"] != "blocked":
        return "A virtual card is issued for a blocked card only."
    twin = next((key for key, other in bank["cards"].items() if other.get("replaces") == card["last4"]), "")
    return f"The virtual card ending {twin} has been issued already." if twin else ""


def _replacement_of(bank: Document, last4: str) -> str:
    return next((key for key, entry in bank["replacements"].items() if entry["card"] == last4), "")


def _order(world: Document, request: Request, delivery: str) -> str:
    bank = world["bank"]
    number = f"RC-{next_number(bank['numbers'], 'replacement')}"
    entry = {"id": number, "card": find(world, request)["last4"], "delivery": delivery, "status": "ordered"}
    sent = {"address": bank["customer"]["address"], "ordered": world["world"]["now"]}
    bank["replacements"][number] = entry | sent
    return number


def _form(request: Request, document: Document, user: str, template: str, error: str) -> Response:
    bank = document["bank"]
    choices = {"circumstances": CIRCUMSTANCES, "deliveries": DELIVERIES, "address": bank["customer"]["address"]}
    context = {"card": find(document, request), "error": error, "user": bank["users"][user]}
    return page(request, f"bank/{template}.html", context | choices)


ROUTES = [
    Route("/cards/{card}/lost", reporting, methods=["GET"]),
    Route("/cards/{card}/lost", report, methods=["POST"]),
    Route("/cards/{card}/virtual", virtual, methods=["GET"]),
    Route("/cards/{card}/virtual", issue, methods=["POST"]),
    Route("/cards/{card}/replacement", ordering, methods=["GET"]),
    Route("/cards/{card}/replacement", order, methods=["POST"]),
    Route("/replacements/{number}", replacement),
]
