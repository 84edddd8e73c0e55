"""Shared by every page: the world of a request, forms, and rendering."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from harness.demo.worlds import DEFAULT_WORLD, Document, Worlds

_WORLD_ID: Final = re.compile(r"harness-world/([\w.:-]+)")


def money(amount: object) -> str:
    """Format an amount with two decimals; anything that is no number becomes empty."""
    return f"{amount:.2f}" if isinstance(amount, int | float) else ""


def _long_date(day: object) -> str:
    """Format an ISO day as ``December 1, 2025``; anything else is shown as it is."""
    try:
        parsed = date.fromisoformat(str(day)[:10])
    except ValueError:
        return str(day)
    return f"{parsed:%B} {parsed.day}, {parsed.year}"


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(money=money, long_date=_long_date)


def world_id(request: Request) -> str:
    """Return the world named by the User-Agent's ``harness-world/<id>`` suffix."""
    found = _WORLD_ID.search(request.headers.get("user-agent", ""))
    return found.group(1) if found else DEFAULT_WORLD


def worlds(request: Request) -> Worlds:
    """Return the store of this process."""
    store: Worlds = request.app.state.worlds
    return store


def document(request: Request) -> Document:
    """Return the document of the caller's world."""
    return worlds(request).read(world_id(request))


def page(request: Request, template: str, context: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    """Render a template; the page is never cached, so that going back shows the present state."""
    html = _TEMPLATES.get_template(template).render(request=request, path=request.url.path, **context)
    return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})


def see_other(path: str) -> RedirectResponse:
    """Answer a form: the browser goes on with a GET, so that a reload repeats nothing."""
    return RedirectResponse(path, status_code=303)


def site_url(request: Request, site: str) -> str:
    """Return the origin of another site, by name or by address and port, as this one was reached."""
    here = request.url.hostname or ""
    return (
        f"http://{site}.local"
        if here.endswith(".local")
        else f"http://{here}:{request.app.state.hosts[f'{site}.local']}"
    )


def attachment(text: str, filename: str, media_type: str = "text/plain") -> Response:
    """Answer with a file to be saved."""
    return Response(text, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{filename}"'})


def field(form: FormData, name: str) -> str:
    """Return a text field without surrounding space; empty when it was not sent."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


async def upload(form: FormData, name: str) -> dict[str, Any] | None:
    """Return name, type and size in bytes of an uploaded file; None when none was chosen."""
    file = form.get(name)
    if not isinstance(file, UploadFile) or not file.filename:
        return None
    return {"name": file.filename, "type": file.content_type or "", "size": len(await file.read())}


def next_number(numbers: dict[str, Any], kind: str) -> int:
    """Take the next number of a kind, per world."""
    number = int(numbers.get(kind, 1))
    numbers[kind] = number + 1
    return number
