"""The login of the public office, and the entries of its users."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from harness.demo.login import Login
from harness.demo.rows import Document

LOGIN = Login(site="gov", secrets={"C-204815": "2468"}, home="/dashboard", template="gov/login.html")


def owned(collection: Document, key: str, citizen: str) -> dict[str, Any]:
    """Return an entry that belongs to the citizen; raise 404 for anyone else's."""
    entry = collection.get(key)
    if entry is None or entry.get("holder") != citizen:
        raise HTTPException(404)
    return dict(entry)


def own_application(document: Document, request: Request, citizen: str) -> dict[str, Any]:
    """Return the application that the address of the request names; raise 404 for anyone else's."""
    return owned(document["gov"]["applications"], request.path_params["application"], citizen)
