"""Payment methods: the cards that the shop charges."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo.payment import typed
from harness.demo.rows import Document
from harness.demo.visit import document, page, see_other, world_id, worlds

LISTING = "/account/payment-methods"


async def methods(request: Request) -> HTMLResponse:
    """The page with the stored cards."""
    shop = document(request)["shop"]
    context = {"bindings": shop["bindings"], "updated": request.query_params.get("updated"), "cart": shop["cart"]}
    return page(request, "shop/payment_methods.html", context)


async def show(request: Request) -> HTMLResponse:
    """The form for replacing a card."""
    return _form(request, "", "", "")


async def submit(request: Request) -> Response:
    """POST: store another card."""
    form = await request.form()
    method = request.path_params["method"]
    with worlds(request).change(world_id(request)) as world:
        binding = _binding(world["shop"], request)
        last4, expiry, error = typed(form, world["world"]["now"])
        if not error:
            binding |= {"last4": last4, "expiry": expiry, "updated": world["world"]["now"]}
            world["shop"]["bindings"][method] = binding
    return _form(request, last4, expiry, error) if error else see_other(f"{LISTING}?updated={method}")


def _form(request: Request, last4: str, expiry: str, error: str) -> HTMLResponse:
    shop = document(request)["shop"]
    context = {"binding": _binding(shop, request), "last4": last4, "expiry": expiry, "error": error}
    return page(request, "shop/replace_card.html", context | {"cart": shop["cart"]})


def _binding(shop: Document, request: Request) -> dict[str, Any]:
    method = request.path_params["method"]
    if method not in shop["bindings"]:
        raise HTTPException(404)
    return dict(shop["bindings"][method])


ROUTES = [
    Route(LISTING, methods),
    Route(f"{LISTING}/{{method}}/replace", show, methods=["GET"]),
    Route(f"{LISTING}/{{method}}/replace", submit, methods=["POST"]),
]
