"""The merchants: sites with an account and a stored payment card, each with a form of its own to change it.

They share login, overview, buying with the stored card, and storing another one.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from harness.demo import payment
from harness.demo.bank import RETURN, redeem, vouch_url
from harness.demo.login import Login, local_path, remember, start_session
from harness.demo.payment import typed
from harness.demo.visit import document, field, next_number, page, see_other, world_id, worlds
from harness.demo.worlds import Document


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
            token = start_session(world[self.site], user, world["world"]["now"])
        following = local_path(request.query_params.get("next", ""), self.overview)
        return remember(see_other(following), token)

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


# util.local: bills, and the card of the automatic payment, changed in a dialog.

_UTILITY = Merchant(site="util", overview="/bills", card_page="/autopay", prefix="UP")


@_UTILITY.login.required
async def change_utility_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the card from the dialog's form."""
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or _UTILITY.keep(request, last4, expiry)
    return _UTILITY.page(request, document, user, "card", error) if error else see_other("/autopay?updated=1")


UTILITY_ROUTES = [*_UTILITY.routes(), Route("/autopay", change_utility_card, methods=["POST"])]


# food.local: dishes to order, and the payment card, one of the customer's cards as radio buttons.

_FOOD = Merchant(site="food", overview="/menu", card_page="/account", prefix="FD")


@_FOOD.login.required
async def change_food_card(request: Request, document: Document, user: str) -> Response:
    """POST: store the checked card."""
    error = _FOOD.keep_from_wallet(request, field(await request.form(), "card"))
    return _FOOD.page(request, document, user, "card", error) if error else see_other("/account?updated=1")


FOOD_ROUTES = [*_FOOD.routes(), Route("/account/card", change_food_card, methods=["POST"])]


# transport.local: the travel account, and a settings page that says which card tops it up, and when.

_TRANSPORT = Merchant(site="transport", overview="/account", card_page="/settings", prefix="TU")


@_TRANSPORT.login.required
async def change_transport_card(request: Request, document: Document, user: str) -> Response:
    """POST: store card and threshold together."""
    form = await request.form()
    threshold = field(form, "threshold")
    known = threshold in map(str, document["transport"]["topup"]["thresholds"])
    error = _TRANSPORT.keep_from_wallet(request, field(form, "card")) if known else "Please choose a threshold."
    if error:
        return _TRANSPORT.page(request, document, user, "card", error)
    with worlds(request).change(world_id(request)) as world:
        world["transport"]["topup"]["threshold"] = int(threshold)
    return see_other("/settings?updated=1")


TRANSPORT_ROUTES = [*_TRANSPORT.routes(), Route("/settings", change_transport_card, methods=["POST"])]


# stream.local: films to rent, and the payment card, typed into a widget that lives in an iframe.

_STREAM = Merchant(site="stream", overview="/library", card_page="/account/payment", prefix="SR")
_WIDGET = "/account/payment/widget"


@_STREAM.login.required
async def change_stream_card(request: Request, document: Document, user: str) -> Response:
    """The content of the iframe; the answer to POST stays inside it, and it notifies the page around it."""
    if request.method != "POST":
        return _STREAM.page(request, document, user, "widget")
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    error = error or _STREAM.keep(request, last4, expiry)
    return _STREAM.page(request, document, user, "widget", error) if error else see_other(f"{_WIDGET}?saved=1")


STREAM_ROUTES = [*_STREAM.routes(), Route(_WIDGET, change_stream_card, methods=["GET", "POST"])]


# travel.local: trips, and the card of the profile, changed in two steps: enter it, then confirm it.

_TRAVEL = Merchant(site="travel", overview="/trips", card_page="/profile", prefix="TB")
_TRAVEL_CARD = "/profile/card"
_TRAVEL_CONFIRMATION = "/profile/card/confirm"


@_TRAVEL.login.required
async def enter(request: Request, document: Document, user: str) -> Response:
    """The first step: a form for the new card. POST keeps the input; the stored card is still the old one."""
    if request.method != "POST":
        return _TRAVEL.page(request, document, user, "enter")
    last4, expiry, error = typed(await request.form(), document["world"]["now"])
    if error:
        return _TRAVEL.page(request, document, user, "enter", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {"last4": last4, "expiry": expiry}
    return see_other(_TRAVEL_CONFIRMATION)


@_TRAVEL.login.required
async def confirm(request: Request, document: Document, user: str) -> Response:
    """The second step: old and new card side by side. POST stores the new one. Without a first step it redirects."""
    draft = document["travel"].get("draft")
    if not draft:
        return see_other(_TRAVEL_CARD)
    if request.method != "POST":
        return _TRAVEL.page(request, document, user, "confirm")
    accepted = field(await request.form(), "holder")
    error = _TRAVEL.keep(request, **draft) if accepted else "Please confirm that the card is yours."
    if error:
        return _TRAVEL.page(request, document, user, "confirm", error)
    with worlds(request).change(world_id(request)) as world:
        world["travel"]["draft"] = {}
    return see_other("/profile?updated=1")


TRAVEL_ROUTES = [
    *_TRAVEL.routes(),
    Route(_TRAVEL_CARD, enter, methods=["GET", "POST"]),
    Route(_TRAVEL_CONFIRMATION, confirm, methods=["GET", "POST"]),
]
