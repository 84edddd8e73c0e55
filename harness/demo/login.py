"""The login of a site: form, wrong password, lock after three of them, logout; and its sessions.

A session is a random cookie in the browser, and its digest in the environment document.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from harness.demo.visit import document, field, page, see_other, world_id, worlds
from harness.demo.worlds import Document

_MOST_FAILURES = 3
_WRONG = "Unknown user or wrong password."
_LOCKED = "This account is locked after too many failed attempts."

_Page = Callable[[Request, Document, str], Awaitable[Response]]


class Login(Struct, frozen=True):
    """The login of one site; ``secrets`` are kept out of the environment document, which ends up in reports."""

    site: str
    secrets: Mapping[str, str]
    home: str
    template: str = "login.html"

    def routes(self) -> list[Route]:
        """Return the login and logout routes."""
        return [
            Route("/login", self.show, methods=["GET"]),
            Route("/login", self.submit, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
        ]

    def required(self, handler: _Page) -> Callable[[Request], Awaitable[Response]]:
        """Wrap a page (request, document, user) so that it needs a session; without one it goes to the login."""

        async def guarded(request: Request) -> Response:
            world = document(request)
            user = user_of(request, world[self.site])
            return await handler(request, world, user) if user else to_login(request)

        return guarded

    async def show(self, request: Request) -> HTMLResponse:
        """The login form."""
        return self._form(request, request.query_params.get("next", self.home), "")

    async def submit(self, request: Request) -> Response:
        """POST /login: open a session; 401 for a wrong password, 403 for a locked account."""
        form = await request.form()
        following = local_path(field(form, "next"), self.home)
        with worlds(request).change(world_id(request)) as world:
            token, error = self._check(world, field(form, "user"), field(form, "secret"))
        if not token:
            return self._form(request, following, error)
        return remember(see_other(following), token)

    async def logout(self, request: Request) -> Response:
        """POST /logout: close the session."""
        with worlds(request).change(world_id(request)) as world:
            world[self.site].get("sessions", {}).pop(_session(request), None)
        return see_other("/login")

    def _check(self, world: Document, user: str, secret: str) -> tuple[str, str]:
        site = world[self.site]
        known = site["users"].get(user)
        if known is None:
            return "", _WRONG
        if known.get("locked"):
            return "", _LOCKED
        if hmac.compare_digest(self.secrets.get(user, "").encode(), secret.encode()):
            known["failed_logins"] = 0
            return start_session(site, user, world["world"]["now"]), ""
        known["failed_logins"] = known.get("failed_logins", 0) + 1
        known["locked"] = known["failed_logins"] >= _MOST_FAILURES
        return "", _LOCKED if known["locked"] else _WRONG

    def _form(self, request: Request, following: str, error: str) -> HTMLResponse:
        status = {"": 200, _LOCKED: 403}.get(error, 401)
        return page(request, self.template, {"site": self.site, "following": following, "error": error}, status)


# Sessions.

_COOKIE: Final = "session"


def start_session(site: Document, user: str, now: str) -> str:
    """Open a session in the site's part of the document and return the token for the cookie."""
    token = secrets.token_urlsafe(18)
    site.setdefault("sessions", {})[digest(token)] = {"user": user, "started": now}
    return token


def user_of(request: Request, site: Document) -> str | None:
    """Return the logged-in user; None if the cookie is missing or its session is not in the document."""
    known = site.get("sessions", {}).get(_session(request), {}).get("user")
    return str(known) if known in site.get("users", {}) else None


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


def _session(request: Request) -> str:
    """The digest of the browser's cookie, by which its session is found."""
    return digest(request.cookies.get(_COOKIE, ""))


def digest(token: str) -> str:
    """The digest of a token: environment snapshots end up in reports and must not contain a usable cookie."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]
