"""util.local: bills, and the card of the automatic payment, changed in a dialog."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.cards import typed
from harness.demo.merchants.merchant import Merchant
from harness.demo.rows import Document
from harness.demo.visit import see_other

UTILITY = Merchant(site="util", overview="/bills", card_page="/autopay", prefix="UP")


@UTILITY.login.required
async def change(request: Request, document: Document, user: str) -> Response:
    """POST: store the card from the dialog's form."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or UTILITY.keep(request, last4, expiry)
    return UTILITY.page(request, document, user, "card", error) if error else see_other("/autopay?updated=1")


ROUTES = [*UTILITY.routes(), Route("/autopay", change, methods=["POST"])]
