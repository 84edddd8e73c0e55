"""The login of a site: form, wrong password, lock after three of them, logout."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo import sessions
from harness.demo.rows import Document
from harness.demo.visit import document, field, page, see_other, world_id, worlds

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
            user = sessions.user(request, world[self.site])
            return await handler(request, world, user) if user else sessions.to_login(request)

        return guarded

    async def show(self, request: Request) -> HTMLResponse:
        """The login form."""
        return self._form(request, request.query_params.get("next", self.home), "")

    async def submit(self, request: Request) -> Response:
        """POST /login: open a session; 401 for a wrong password, 403 for a locked account."""
        form = await request.form()
        following = sessions.local_path(field(form, "next"), self.home)
        with worlds(request).change(world_id(request)) as world:
            token, error = self._check(world, field(form, "user"), field(form, "secret"))
        if not token:
            return self._form(request, following, error)
        return sessions.remember(see_other(following), token)

    async def logout(self, request: Request) -> Response:
        """POST /logout: close the session."""
        with worlds(request).change(world_id(request)) as world:
            sessions.end(request, world[self.site])
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
            return sessions.start(site, user, world["world"]["now"]), ""
        known["failed_logins"] = known.get("failed_logins", 0) + 1
        known["locked"] = known["failed_logins"] >= _MOST_FAILURES
        return "", _LOCKED if known["locked"] else _WRONG

    def _form(self, request: Request, following: str, error: str) -> HTMLResponse:
        status = {"": 200, _LOCKED: 403}.get(error, 401)
        return page(request, self.template, {"site": self.site, "following": following, "error": error}, status)
