"""bank.local: accounts, cards, lost cards, and the merchants that charge them."""

from __future__ import annotations

import csv
import io
import secrets
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.login import Login, digest, local_path
from harness.demo.payment import typed
from harness.demo.visit import attachment, field, money, next_number, page, see_other, site_url, world_id, worlds
from harness.demo.worlds import Document

LOGIN = Login(site="bank", secrets={"demo": "demo-pass"}, home="/accounts")


# Accounts and statements.

COLUMNS = ("id", "date", "text", "card", "amount")


@LOGIN.required
async def overview(request: Request, document: Document, user: str) -> Response:
    """Balances and the latest transactions."""
    bank = document["bank"]
    transactions = _transactions(bank, None)[::-1]
    return _page(request, document, user, "accounts", accounts=bank["accounts"], transactions=transactions)


@LOGIN.required
async def statement(request: Request, document: Document, _user: str) -> Response:
    """The transactions of an account as a CSV file."""
    account = request.path_params["account"]
    if account not in document["bank"]["accounts"]:
        raise HTTPException(404)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for entry in _transactions(document["bank"], account):
        table.writerow([money(entry[name]) if name == "amount" else entry[name] for name in COLUMNS])
    return attachment(text.getvalue(), f"statement-{account}.csv", "text/csv")


async def root(_request: Request) -> Response:
    """GET /: the accounts are the start page."""
    return see_other("/accounts")


def _transactions(bank: Document, account: str | None) -> list[dict[str, Any]]:
    entries = [{"id": key, **entry} for key, entry in bank.get("transactions", {}).items()]
    wanted = [entry for entry in entries if account is None or entry["account"] == account]
    return sorted(wanted, key=lambda entry: (entry["date"], entry["id"]))


# Cards: the list, replacing one, deactivating one.

_REASONS = {"replaced": "Replaced by a new card", "lost": "Lost", "stolen": "Stolen", "damaged": "Damaged"}
DONE = {
    "activated": "The new card is active.",
    "deactivated": "The card is inactive now.",
    "blocked": "The card is blocked. Nobody can pay with it any more.",
    "issued": "Your virtual card is ready to pay with.",
}


@LOGIN.required
async def list_cards(request: Request, document: Document, user: str) -> Response:
    """The list of all cards with their status."""
    bank = document["bank"]
    replaced = {entry["card"]: key for key, entry in bank.get("replacements", {}).items()}
    taken_over = {card["replaces"] for card in bank["cards"].values() if "replaces" in card}
    context = {"cards": bank["cards"], "replaced": replaced, "taken_over": taken_over}
    notice = DONE.get(request.query_params.get("done", ""), "")
    return _page(request, document, user, "cards", **context, notice=notice)


@LOGIN.required
async def replace(request: Request, document: Document, user: str) -> Response:
    """The form for activating the replacement of a card; POST activates it."""
    if request.method != "POST":
        return _form(request, document, user, "replace")
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    if not error and last4 in document["bank"]["cards"]:
        error = f"You already have a card ending {last4}."
    if error:
        return _form(request, document, user, "replace", error)
    with worlds(request).change(world_id(request)) as world:
        old, now = find(world, request), world["world"]["now"]
        new = {"last4": last4, "expiry": expiry, "status": "active", "replaces": old["last4"], "activated": now}
        world["bank"]["cards"][last4] = {name: old[name] for name in ("brand", "holder", "account")} | new
    return see_other("/cards?done=activated")


@LOGIN.required
async def deactivate(request: Request, document: Document, user: str) -> Response:
    """The form for deactivating a card; POST deactivates it."""
    if request.method != "POST":
        return _form(request, document, user, "deactivate")
    reason = field(await request.form(), "reason")
    if reason not in _REASONS:
        return _form(request, document, user, "deactivate", "Please choose a reason.")
    with worlds(request).change(world_id(request)) as world:
        card = find(world, request) | {"status": "inactive", "reason": reason, "deactivated": world["world"]["now"]}
        world["bank"]["cards"][card["last4"]] = card
    return see_other("/cards?done=deactivated")


def find(document: Document, request: Request) -> dict[str, Any]:
    """Return the card that the path names; raise 404."""
    last4 = request.path_params["card"]
    if last4 not in document["bank"]["cards"]:
        raise HTTPException(404)
    return dict(document["bank"]["cards"][last4])


# A lost card: block it, pay with a virtual one at once, have its replacement sent.

_CIRCUMSTANCES = {"lost": "I have lost it", "stolen": "It was stolen"}
_DELIVERIES = {"standard": "Standard (5 working days)", "express": "Express (next working day)"}
_VIRTUAL_YEARS = 3


@LOGIN.required
async def report(request: Request, document: Document, user: str) -> Response:
    """The form for reporting an active card as lost; POST blocks it."""
    if request.method != "POST":
        return _form(request, document, user, "lost")
    reason = field(await request.form(), "reason")
    if reason not in _CIRCUMSTANCES:
        return _form(request, document, user, "lost", "Please say what happened.")
    with worlds(request).change(world_id(request)) as world:
        card = find(world, request)
        if card["status"] == "active":
            blocked = {"status": "blocked", "reason": reason, "blocked": world["world"]["now"]}
            world["bank"]["cards"][card["last4"]] = card | blocked
    return see_other("/cards?done=blocked")


@LOGIN.required
async def issue(request: Request, document: Document, user: str) -> Response:
    """The offer of a virtual card in place of a blocked one; POST issues it, one per blocked card."""
    if request.method != "POST":
        return _form(request, document, user, "virtual")
    error = _objection(document["bank"], find(document, request))
    if error:
        return _form(request, document, user, "virtual", error)
    with worlds(request).change(world_id(request)) as world:
        old = find(world, request)
        last4 = f"{next_number(world['bank']['numbers'], 'virtual_card'):04d}"
        world["bank"]["cards"][last4] = _virtual_card(old, last4, world["world"]["now"])
    return see_other("/cards?done=issued")


@LOGIN.required
async def order(request: Request, document: Document, user: str) -> Response:
    """The form for ordering the replacement; POST orders it, one per card."""
    if request.method != "POST":
        return _form(request, document, user, "order_replacement")
    delivery = field(await request.form(), "delivery")
    if delivery not in _DELIVERIES:
        return _form(request, document, user, "order_replacement", "Please choose a delivery.")
    with worlds(request).change(world_id(request)) as world:
        number = _replacement_of(world["bank"], find(world, request)["last4"]) or _order(world, request, delivery)
    return see_other(f"/replacements/{number}")


@LOGIN.required
async def replacement(request: Request, document: Document, user: str) -> Response:
    """The page of one ordered replacement."""
    entry = document["bank"]["replacements"].get(request.path_params["number"])
    if entry is None:
        raise HTTPException(404)
    return _page(request, document, user, "replacement", replacement=entry, delivery=_DELIVERIES[entry["delivery"]])


def _virtual_card(old: dict[str, Any], last4: str, now: str) -> dict[str, Any]:
    kept = {name: old[name] for name in ("brand", "holder", "account")}
    expiry = f"{now[5:7]}/{int(now[:4]) + _VIRTUAL_YEARS}"
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


def _form(request: Request, document: Document, user: str, template: str, error: str = "") -> Response:
    """The page with a form about one card, and the reason if the form was refused."""
    choices = {"reasons": _REASONS, "circumstances": _CIRCUMSTANCES, "deliveries": _DELIVERIES}
    address = document["bank"]["customer"]["address"]
    card = find(document, request)
    return _page(request, document, user, template, card=card, error=error, address=address, **choices)


def _page(request: Request, document: Document, user: str, template: str, **context: Any) -> Response:
    return page(request, f"bank/{template}.html", {"user": document["bank"]["users"][user], **context})


# Merchants, and the card that each of them charges.


@LOGIN.required
async def list_merchants(request: Request, document: Document, user: str) -> Response:
    """The table of merchants and cards."""
    return _table(request, document, user)


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


def _table(request: Request, document: Document, user: str, error: str = "") -> Response:
    bank = document["bank"]
    updated = bank["bindings"].get(request.query_params.get("updated", ""))
    context = {"bindings": bank["bindings"], "cards": bank["cards"], "updated": updated, "error": error}
    return _page(request, document, user, "merchants", **context)


# The bank vouches for its customers: "log in with your bank" at a merchant, by a one-time code.

RETURN = "/login/bank/return"


def vouch_url(request: Request, site: str, following: str) -> str:
    """Return the URL where a merchant sends its visitor for the login; ``following`` is where the visitor goes then."""
    return f"{site_url(request, 'bank')}/vouch/{site}?next={quote(following)}"


def redeem(bank: Document, site: str, code: str) -> str:
    """Use up a code and return its user; empty if the code is unknown, used, or meant for another site."""
    found = bank["codes"].pop(digest(code), {})
    return str(found["user"]) if found.get("site") == site else ""


@LOGIN.required
async def vouch(request: Request, document: Document, user: str) -> Response:
    """GET: send a logged-in user back to the merchant with a code."""
    site = request.path_params["site"]
    if "offers" not in document.get(site, {}):
        raise HTTPException(404)
    code = secrets.token_urlsafe(12)
    with worlds(request).change(world_id(request)) as world:
        world["bank"]["codes"][digest(code)] = {"site": site, "user": user}
    following = local_path(request.query_params.get("next", ""), "/")
    return see_other(f"{site_url(request, site)}{RETURN}?code={code}&next={quote(following)}")


ROUTES = [
    *LOGIN.routes(),
    Route("/", root),
    Route("/accounts", overview),
    Route("/accounts/{account}/statement.csv", statement),
    Route("/cards", list_cards),
    Route("/cards/{card}/replace", replace, methods=["GET", "POST"]),
    Route("/cards/{card}/deactivate", deactivate, methods=["GET", "POST"]),
    Route("/cards/{card}/lost", report, methods=["GET", "POST"]),
    Route("/cards/{card}/virtual", issue, methods=["GET", "POST"]),
    Route("/cards/{card}/replacement", order, methods=["GET", "POST"]),
    Route("/replacements/{number}", replacement),
    Route("/merchants", list_merchants, methods=["GET"]),
    Route("/merchants/{merchant}", update, methods=["POST"]),
    Route("/vouch/{site}", vouch),
]
