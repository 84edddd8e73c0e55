"""stream.local: films to rent, and the payment card, typed into a widget that lives in an iframe."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.cards import typed
from harness.demo.merchants.merchant import Merchant
from harness.demo.rows import Document
from harness.demo.visit import see_other

STREAM = Merchant(site="stream", overview="/library", card_page="/account/payment", prefix="SR")
WIDGET = "/account/payment/widget"


@STREAM.login.required
async def widget(request: Request, document: Document, user: str) -> Response:
    """The content of the iframe."""
    return STREAM.page(request, document, user, "widget")


@STREAM.login.required
async def change(request: Request, document: Document, user: str) -> Response:
    """POST: the widget's form; the answer stays inside the iframe, which notifies the page around it."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or STREAM.keep(request, last4, expiry)
    return STREAM.page(request, document, user, "widget", error) if error else see_other(f"{WIDGET}?saved=1")


ROUTES = [*STREAM.routes(), Route(WIDGET, widget, methods=["GET"]), Route(WIDGET, change, methods=["POST"])]
