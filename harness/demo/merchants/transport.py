"""transport.local: the travel account, and a settings page that says which card tops it up, and when."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.merchants.merchant import Merchant
from harness.demo.rows import Document
from harness.demo.visit import field, see_other, world_id, worlds

TRANSPORT = Merchant(site="transport", overview="/account", card_page="/settings", prefix="TU")


@TRANSPORT.login.required
async def change(request: Request, document: Document, user: str) -> Response:
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


ROUTES = [*TRANSPORT.routes(), Route("/settings", change, methods=["POST"])]
