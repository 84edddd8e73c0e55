"""The bank vouches for its customers: "log in with your bank" at a merchant, by a one-time code."""

from __future__ import annotations

import secrets
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.bank.access import LOGIN
from harness.demo.rows import Document
from harness.demo.sessions import digest, local_path
from harness.demo.visit import see_other, site_url, world_id, worlds

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


ROUTES = [Route("/vouch/{site}", vouch)]
