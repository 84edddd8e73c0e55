"""The shared parts of the merchants: login, overview, buying with the stored card, and storing another card."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo import payment, sessions
from harness.demo.bank import RETURN, redeem, vouch_url
from harness.demo.login import Login
from harness.demo.rows import Document
from harness.demo.sessions import local_path
from harness.demo.visit import document, next_number, page, see_other, world_id, worlds


class Merchant(Struct, frozen=True):
    """One merchant: the paths of the overview and of the card's page, and the prefix of its receipt numbers."""

    site: str
    overview: str
    card_page: str
    prefix: str

    @property
    def login(self) -> Login:
        """The site's login."""
        secrets = {"demo": "demo-pass"}
        return Login(site=self.site, secrets=secrets, home=self.overview, template="merchant_login.html")

    def routes(self) -> list[Route]:
        """Return the routes of every merchant: start page, login, overview, buying, and the page with the card."""
        login = self.login
        return [
            Route("/", self._root),
            *login.routes(),
            Route("/login/bank", self._ask_bank),
            Route(RETURN, self._return_from_bank),
            Route(self.overview, login.required(self._show_overview)),
            Route(self.card_page, login.required(self.show_card), methods=["GET"]),
            Route("/purchases/{offer}", login.required(self._buy), methods=["POST"]),
        ]

    async def show_card(self, request: Request, document: Document, user: str) -> HTMLResponse:
        """The page with the stored card."""
        return self.page(request, document, user, "card")

    def page(
        self, request: Request, document: Document, user: str, template: str, error: str = "", **context: Any
    ) -> HTMLResponse:
        """Render one of the site's pages, with the reason if a form was refused."""
        account = document[self.site]
        shared = {"account": account, "user": account["users"][user], "wallet": wallet(document), "error": error}
        return page(request, f"{self.site}/{template}.html", {**shared, **context})

    def keep(self, request: Request, last4: str, expiry: str) -> str:
        """Store a card; return the reason if its bank declines it, else an empty text."""
        with worlds(request).change(world_id(request)) as world:
            known = world["bank"]["cards"].get(last4, {})
            if known.get("status", "active") != "active":
                return f"The bank declined the card ending {last4}."
            card = world[self.site]["payment"] | {"last4": last4, "expiry": expiry, "updated": world["world"]["now"]}
            world[self.site]["payment"] = card | {"brand": known.get("brand", card["brand"])}
        return ""

    def keep_from_wallet(self, request: Request, last4: str) -> str:
        """Store one of the wallet's cards; return the reason if that is refused."""
        card = wallet(document(request)).get(last4)
        return self.keep(request, last4, card["expiry"]) if card else "Please choose one of your cards."

    async def _root(self, _request: Request) -> Response:
        return see_other(self.overview)

    async def _ask_bank(self, request: Request) -> Response:
        following = local_path(request.query_params.get("next", ""), self.overview)
        return see_other(vouch_url(request, self.site, following))

    async def _return_from_bank(self, request: Request) -> Response:
        """Handle the return from the bank: a valid code opens a session, any other leads to the login."""
        with worlds(request).change(world_id(request)) as world:
            user = redeem(world["bank"], self.site, request.query_params.get("code", ""))
            if user not in world[self.site]["users"]:
                return see_other("/login")
            token = sessions.start(world[self.site], user, world["world"]["now"])
        following = local_path(request.query_params.get("next", ""), self.overview)
        return sessions.remember(see_other(following), token)

    async def _show_overview(self, request: Request, document: Document, user: str) -> HTMLResponse:
        bought = document[self.site]["purchases"].get(request.query_params.get("bought", ""))
        return self.page(request, document, user, "overview", bought=bought)

    async def _buy(self, request: Request, document: Document, user: str) -> Response:
        offer = request.path_params["offer"]
        if offer not in document[self.site]["offers"]:
            raise HTTPException(404)
        with worlds(request).change(world_id(request)) as world:
            number = self._sell(world, offer)
        if not number:
            error = f"Your bank declined the card ending {document[self.site]['payment']['last4']}."
            return self.page(request, document, user, "overview", error)
        return see_other(f"{self.overview}?bought={number}")

    def _sell(self, world: Document, offer: str) -> str:
        """Charge the stored card and keep the receipt; return its number, or "" if the bank declines."""
        account = world[self.site]
        price, last4 = account["offers"][offer]["price"], account["payment"]["last4"]
        if not payment.charge(world, last4, price, f"{self.site}.local"):
            return ""
        number = f"{self.prefix}-{next_number(account['numbers'], 'purchase')}"
        receipt = {"id": number, "offer": offer, "price": price, "card": last4, "date": world["world"]["now"]}
        account["purchases"][number] = receipt | {"name": account["offers"][offer]["name"]}
        return number


def wallet(document: Document) -> dict[str, Any]:
    """Return the cards that can be selected: the active ones that the customer's bank shares."""
    return {last4: card for last4, card in document["bank"]["cards"].items() if card.get("status") == "active"}
