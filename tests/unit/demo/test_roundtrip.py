"""A world's document is all there is: put back, it brings back everything (checkpoints rely on it)."""

from __future__ import annotations

import json
from typing import Any

from starlette.testclient import TestClient

from tests.unit.demo.conftest import Visit

USER = {"user": "demo", "secret": "demo-pass"}
ORDER = {
    "name": "A",
    "address": "1 Main St",
    "city": "S",
    "postcode": "1",
    "shipping_speed": "standard",
    "card": "PM-1",
}


def read(visit: Visit) -> str:
    return str(visit("world").get("/env").text)


def restore(visit: Visit, document: str) -> None:
    assert visit("world").put("/env", content=document).status_code == 200


def order(visit: Visit) -> Any:
    """Buy a mouse and return the document after it."""
    shop = visit("shop")
    shop.post("/cart/items", data={"sku": "WM-5521", "qty": "1"})
    shop.post("/checkout", data=ORDER)
    return json.loads(read(visit))


def use_every_site(visit: Visit) -> TestClient:
    """Leave something behind on every site; return a client that is logged in at the bank."""
    order(visit)
    bank = visit("bank")
    bank.post("/login", data=USER)
    bank.post("/cards/1234/lost", data={"reason": "lost"})
    bank.post("/cards/1234/virtual")
    visit("bank").post("/login", data={**USER, "secret": "wrong"})
    visit("gov").post("/login", data={"user": "C-204815", "secret": "2468"})
    for site in ("util", "food", "transport", "stream"):
        visit(site).post("/login", data=USER)
    travel = visit("travel")
    travel.post("/login", data=USER)
    travel.post("/profile/card", data={"last4": "8899", "expiry": "11/2028"})
    visit("shop").post("/cart/items", data={"sku": "KB-2201", "qty": "2"})
    return bank


def test_put_restores_what_get_has_read_to_the_letter(visit: Visit) -> None:
    bank = use_every_site(visit)
    kept = read(visit)
    order(visit)
    bank.post("/logout")
    visit("world").patch("/env", json={"food": None, "travel": {"draft": {"last4": "1"}}})
    assert read(visit) != kept
    restore(visit, kept)
    assert read(visit) == kept


def test_sessions_come_back(visit: Visit) -> None:
    bank = use_every_site(visit)
    kept = read(visit)
    token = bank.cookies["session"]
    bank.post("/logout")
    assert bank.get("/cards").url.path == "/login"
    restore(visit, kept)
    bank.cookies.set("session", token, domain="bank.local")
    assert bank.get("/cards").url.path == "/cards"


def test_counters_come_back_so_that_the_same_happens_again(visit: Visit) -> None:
    use_every_site(visit)
    kept = read(visit)
    first = order(visit)
    restore(visit, kept)
    assert order(visit) == first


def test_a_put_without_sessions_logs_everybody_out(visit: Visit) -> None:
    bank = use_every_site(visit)
    document = json.loads(read(visit))
    document["bank"]["sessions"] = {}
    restore(visit, json.dumps(document))
    assert bank.get("/cards").url.path == "/login"
