"""Dashboard and permits."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from harness.demo.gov.access import LOGIN, owned
from harness.demo.rows import Document
from harness.demo.visit import next_number, page, see_other, world_id, worlds


async def root(_request: Request) -> Response:
    """GET /: the dashboard is the start page."""
    return see_other("/dashboard")


@LOGIN.required
async def dashboard(request: Request, document: Document, user: str) -> Response:
    """The page with permits that need attention, and the appointments."""
    gov = document["gov"]
    context = {"permits": _entries_of(gov["permits"], user), "appointments": _entries_of(gov["appointments"], user)}
    return page(request, "gov/dashboard.html", context | {"user": gov["users"][user]})


@LOGIN.required
async def listing(request: Request, document: Document, user: str) -> Response:
    """The page with all permits of the citizen."""
    gov = document["gov"]
    return page(request, "gov/permits.html", {"permits": _entries_of(gov["permits"], user), "user": gov["users"][user]})


@LOGIN.required
async def detail(request: Request, document: Document, user: str) -> Response:
    """The page of one permit, with the button that starts its renewal."""
    gov = document["gov"]
    permit = owned(gov["permits"], request.path_params["permit"], user)
    return page(request, "gov/permit.html", {"permit": permit, "user": gov["users"][user]})


@LOGIN.required
async def renew(request: Request, _document: Document, user: str) -> Response:
    """POST: start the renewal, or continue an open one."""
    with worlds(request).change(world_id(request)) as world:
        permit = owned(world["gov"]["permits"], request.path_params["permit"], user)
        application = _open_application(world["gov"], permit["id"]) or _start(world, permit)
    return see_other(f"/renewal/{application}/details")


def _open_application(gov: Document, permit: str) -> str | None:
    for key, application in gov["applications"].items():
        if application["permit"] == permit and application["status"] == "draft":
            return str(key)
    return None


def _start(world: Document, permit: dict[str, Any]) -> str:
    gov = world["gov"]
    number = f"A-{next_number(gov['numbers'], 'application')}"
    gov["applications"][number] = {
        "id": number,
        "permit": permit["id"],
        "holder": permit["holder"],
        "status": "draft",
        "started": world["world"]["now"],
    }
    return number


def _entries_of(collection: Document, citizen: str) -> list[dict[str, Any]]:
    return [entry for _, entry in sorted(collection.items()) if entry.get("holder") == citizen]


ROUTES = [
    Route("/", root),
    Route("/dashboard", dashboard),
    Route("/permits", listing),
    Route("/permits/{permit}", detail),
    Route("/permits/{permit}/renewal", renew, methods=["POST"]),
]
