"""The sites as ASGI applications, by host name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from harness.demo import VERSION, bank, control, gov, models, shop, tools
from harness.demo.merchants import sites as merchants
from harness.demo.visit import page
from harness.demo.worlds import Worlds

_STATIC: Final = Path(__file__).with_name("static")
HOSTS: Final[Mapping[str, Sequence[BaseRoute]]] = {
    "world.local": control.ROUTES,
    "shop.local": [*shop.ROUTES, *tools.ROUTES],
    "bank.local": bank.ROUTES,
    "gov.local": gov.ROUTES,
    "util.local": merchants.UTILITY_ROUTES,
    "food.local": merchants.FOOD_ROUTES,
    "transport.local": merchants.TRANSPORT_ROUTES,
    "stream.local": merchants.STREAM_ROUTES,
    "travel.local": merchants.TRAVEL_ROUTES,
    "models.local": models.ROUTES,
}
_WITHOUT_PAGES: Final = ("world", "models")


def applications(worlds: Worlds, ports: Mapping[str, int]) -> dict[str, Starlette]:
    """Build every site over one store; ``ports`` is what ``/health`` reports about the hosts."""
    return {host: _application(host, routes, worlds, ports) for host, routes in HOSTS.items()}


def _application(host: str, routes: Sequence[BaseRoute], worlds: Worlds, ports: Mapping[str, int]) -> Starlette:
    site = host.partition(".")[0]
    shared = [
        Route("/health", _health),
        Route("/favicon.ico", _favicon),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    application = Starlette(routes=[*shared, *routes], exception_handlers={404: partial(_not_found, site)})
    application.state.worlds = worlds
    application.state.hosts = dict(ports)
    return application


async def _health(request: Request) -> JSONResponse:
    identity = {"service": "taskspec-demo", "version": VERSION, "pid": os.getpid()}
    return JSONResponse({**identity, "hosts": request.app.state.hosts})


async def _favicon(_request: Request) -> FileResponse:
    return FileResponse(_STATIC / "favicon.svg", media_type="image/svg+xml")


async def _not_found(site: str, request: Request, _error: Exception) -> Response:
    if site in _WITHOUT_PAGES or request.url.path.startswith("/api/"):
        return JSONResponse({"error": "not found", "path": request.url.path}, status_code=404)
    return page(request, "missing.html", {"site": site}, status=404)
