"""food.local: dishes to order, and the payment card, one of the customer's cards as radio buttons."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.merchants.merchant import Merchant
from harness.demo.rows import Document
from harness.demo.visit import field, see_other

FOOD = Merchant(site="food", overview="/menu", card_page="/account", prefix="FD")


@FOOD.login.required
async def change(request: Request, document: Document, user: str) -> Response:
    """POST: store the checked card."""
    error = FOOD.keep_from_wallet(request, field(await request.form(), "card"))
    return FOOD.page(request, document, user, "card", error) if error else see_other("/account?updated=1")


ROUTES = [*FOOD.routes(), Route("/account/card", change, methods=["POST"])]
