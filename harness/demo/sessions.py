"""Login sessions: a random cookie in the browser, its digest in the environment document."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from harness.demo.rows import Document
from harness.demo.visit import see_other

_COOKIE: Final = "session"


def start(site: Document, user: str, now: str) -> str:
    """Open a session in the site's part of the document and return the token for the cookie."""
    token = secrets.token_urlsafe(18)
    site.setdefault("sessions", {})[digest(token)] = {"user": user, "started": now}
    return token


def user(request: Request, site: Document) -> str | None:
    """Return the logged-in user; None if the cookie is missing or its session is not in the document."""
    session = _sessions(site).get(digest(request.cookies.get(_COOKIE, "")), {})
    known = session.get("user")
    return str(known) if known in site.get("users", {}) else None


def end(request: Request, site: Document) -> None:
    """Close the session of this browser."""
    _sessions(site).pop(digest(request.cookies.get(_COOKIE, "")), None)


def remember(response: Response, token: str) -> Response:
    """Put the token into the browser's cookie."""
    response.set_cookie(_COOKIE, token, httponly=True, samesite="lax")
    return response


def to_login(request: Request) -> RedirectResponse:
    """Redirect to the login page, and back here afterwards; a submitted form is not submitted again."""
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    following = f"?next={quote(asked)}" if request.method == "GET" else ""
    return see_other(f"/login{following}")


def local_path(path: str, default: str) -> str:
    """Return ``path`` if it stays on this site, else ``default``, so that a login cannot redirect to another site."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else default


def _sessions(site: Document) -> dict[str, Any]:
    sessions: dict[str, Any] = site.get("sessions", {})
    return sessions


def digest(token: str) -> str:
    """The digest of a token: environment snapshots end up in reports and must not contain a usable cookie."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]
