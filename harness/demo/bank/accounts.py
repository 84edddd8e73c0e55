"""Accounts and statements."""

from __future__ import annotations

import csv
import io
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.bank.access import LOGIN
from harness.demo.rows import Document
from harness.demo.visit import attachment, money, page, see_other

COLUMNS = ("id", "date", "text", "card", "amount")


@LOGIN.required
async def overview(request: Request, document: Document, user: str) -> Response:
    """Balances and the latest transactions."""
    bank = document["bank"]
    context = {"accounts": bank["accounts"], "transactions": _transactions(bank, None)[::-1]}
    return page(request, "bank/accounts.html", context | {"user": bank["users"][user]})


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


ROUTES = [Route("/", root), Route("/accounts", overview), Route("/accounts/{account}/statement.csv", statement)]
