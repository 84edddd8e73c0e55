"""shop.local without a browser: what a form does to the environment."""

from __future__ import annotations

import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from harness.demo.shop import WAREHOUSE_SECONDS
from tests.unit.demo.conftest import Visit

ADDRESS = {"name": "Alex", "address": "1 Main St", "city": "Springfield", "postcode": "62701"}


def env(visit: Visit, world: str = "") -> Any:
    return visit("world", world).get("/env").json()


def buy(shop: TestClient, **changes: str) -> str:
    shop.post("/cart/items", data={"sku": "WM-5521", "qty": "1"})
    order = {**ADDRESS, "shipping_speed": "same_day", "card": "PM-1", **changes}
    return str(shop.post("/checkout", data=order).text)


def test_search_takes_words_category_and_price(visit: Visit) -> None:
    shop = visit("shop")

    def skus(**query: str) -> list[str]:
        return [item["sku"] for item in shop.get("/api/search", params=query).json()["items"]]

    assert skus(q="Wireless MOUSE", max_price="30") == ["WM-5521"]
    assert skus(q="wireless mouse") == ["WM-5521", "WM-7710", "WM-8300", "WM-9001"]
    assert skus(q="wireless", category="audio", max_price="35") == ["HP-3310", "SP-4100"]
    assert skus(q="wireless mouse same-day", max_price="30") == ["WM-5521"]
    began = time.monotonic()
    assert skus(q="Same-Day wireless mouse") == ["WM-5521", "WM-7710", "WM-8300", "WM-9001"]
    assert time.monotonic() - began >= WAREHOUSE_SECONDS
    assert skus(q="no such thing") == []
    assert shop.get("/api/search", params={"max_price": "x"}).status_code == 400


def test_an_order_is_confirmed_charged_and_numbered_per_world(visit: Visit) -> None:
    assert 'id="order-total">30.98<' in buy(visit("shop", "a"))
    buy(visit("shop", "a"))
    buy(visit("shop", "b"))
    document = env(visit, "a")
    assert set(document["shop"]["orders"]) == {"O-09871", "O-10001", "O-10002"}
    assert set(env(visit, "b")["shop"]["orders"]) == {"O-09871", "O-10001"}
    order = document["shop"]["orders"]["O-10001"]
    assert (order["status"], order["total"], order["placed"]) == ("confirmed", 30.98, "2025-11-16T09:00:00Z")
    assert order["items"] == [{"sku": "WM-5521", "name": "Logitech M185", "qty": 1, "price": 24.99}]
    assert document["bank"]["accounts"]["AC-100"]["balance"] == round(2431.18 - 2 * 30.98, 2)
    assert document["shop"]["cart"] == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"address": " "}, "fill in the whole delivery address"),
        ({"shipping_speed": "teleport"}, "choose a shipping speed"),
        ({"card": "PM-9"}, "choose a shipping speed and a card"),
    ],
)
def test_an_incomplete_order_is_refused(visit: Visit, changes: dict[str, str], message: str) -> None:
    assert message in buy(visit("shop"), **changes)
    assert set(env(visit)["shop"]["orders"]) == {"O-09871"}


def test_an_inactive_card_is_declined(visit: Visit) -> None:
    visit("world").patch("/env", json={"bank": {"cards": {"1234": {"status": "inactive"}}}})
    assert "declined the card ending 1234" in buy(visit("shop"))
    assert "O-10001" not in env(visit)["shop"]["orders"]


def test_an_empty_cart_cannot_be_ordered(visit: Visit) -> None:
    answer = visit("shop").post("/checkout", data={**ADDRESS, "shipping_speed": "standard", "card": "PM-1"})
    assert "Your cart is empty" in answer.text


def test_the_cart_is_changed_and_emptied(visit: Visit) -> None:
    shop = visit("shop")
    shop.post("/cart/items", data={"sku": "MP-6001", "qty": "2"})
    assert 'id="cart-total">29.97<' in shop.post("/cart/items/MP-6001", data={"qty": "3"}).text
    assert 'id="empty-cart"' in shop.post("/cart/items/MP-6001", data={"qty": "0"}).text
    assert shop.post("/cart/items", data={"sku": "nothing"}).status_code == 404


def test_a_defective_item_is_returned_once_with_its_shipping(visit: Visit) -> None:
    shop = visit("shop")
    form = {"reason": "defective", "comment": "dead"}
    photo = {"photo": ("mouse.png", b"12345", "image/png")}
    page = shop.post("/orders/O-09871/return/WM-5521", data=form, files=photo).text
    assert 'id="return-id">R-50001<' in page
    again = shop.post("/orders/O-09871/return/WM-5521", data=form).text
    assert "already been returned" in again
    document = env(visit)["shop"]
    assert list(document["returns"]) == ["R-50001"]
    entry = document["returns"]["R-50001"]
    assert (entry["state"], entry["refund"], entry["comment"]) == ("approved", 30.98, "dead")
    assert entry["photo"] == {"name": "mouse.png", "type": "image/png", "size": 5}
    assert document["refunds"]["R-50001"]["amount"] == 30.98


def test_what_is_no_longer_needed_is_refunded_without_shipping(visit: Visit) -> None:
    visit("shop").post("/orders/O-09871/return/WM-5521", data={"reason": "not_needed"})
    entry = env(visit)["shop"]["returns"]["R-50001"]
    assert (entry["refund"], entry["photo"]) == (24.99, None)


def test_a_return_may_start_under_review(visit: Visit) -> None:
    visit("world").patch("/env", json={"shop": {"settings": {"returns": {"initial_state": "processing"}}}})
    shop = visit("shop")
    shop.post("/orders/O-09871/return/WM-5521", data={"reason": "defective"})
    assert shop.get("/api/returns/R-50001").json() == {"id": "R-50001", "state": "processing", "refund": 30.98}
    assert env(visit)["shop"]["refunds"] == {}


def test_a_return_written_by_the_environment_alone_is_shown(visit: Visit) -> None:
    visit("world").patch("/env", json={"shop": {"returns": {"R-50001": {"state": "processing"}}}})
    assert ">processing<" in visit("shop").get("/returns/R-50001").text
    assert "R-50001" in visit("shop").get("/orders").text


def test_downloads_are_attachments(visit: Visit) -> None:
    answer = visit("shop").get("/orders/O-09871/receipt")
    assert answer.headers["content-disposition"] == 'attachment; filename="receipt-O-09871.txt"'
    assert "Total: 30.98 USD" in answer.text


@pytest.mark.parametrize(
    ("last4", "expiry", "message"),
    [
        ("77", "12/2029", "must be four digits"),
        ("7777", "2029-12", "must look like"),
        ("7777", "13/2029", "must look like"),
        ("7777", "10/2025", "has expired"),
    ],
)
def test_a_card_is_checked_before_it_is_bound(visit: Visit, last4: str, expiry: str, message: str) -> None:
    url = "/account/payment-methods/PM-1/replace"
    assert message in visit("shop").post(url, data={"last4": last4, "expiry": expiry}).text
    assert env(visit)["shop"]["bindings"]["PM-1"]["last4"] == "1234"


def test_a_bound_card_is_replaced(visit: Visit) -> None:
    visit("shop").post("/account/payment-methods/PM-1/replace", data={"last4": "7777", "expiry": "12/2029"})
    binding = env(visit)["shop"]["bindings"]["PM-1"]
    assert (binding["last4"], binding["expiry"], binding["default"]) == ("7777", "12/2029", True)


@pytest.mark.parametrize("path", ["/product/x", "/orders/x", "/returns/x", "/nothing", "/orders/O-09871/return/x"])
def test_what_is_not_there_is_a_404_page(visit: Visit, path: str) -> None:
    answer = visit("shop").get(path)
    assert answer.status_code == 404
    assert 'id="missing-path"' in answer.text


@pytest.mark.parametrize("path", ["/checkout", "/orders", "/account/payment-methods", "/returns/R-1"])
def test_a_world_may_demand_a_login(visit: Visit, path: str) -> None:
    world, shop = visit("world"), visit("shop")
    world.patch("/env", json={"shop": {"settings": {"login": "required"}}})
    assert shop.get("/").status_code == 200
    assert shop.get(path, follow_redirects=False).headers["location"] == f"/login?next={path}"
    shop.post("/login", data={"user": "demo", "secret": "demo-pass"})
    assert "/login" not in shop.get(path, follow_redirects=False).headers.get("location", "")
    world.patch("/env", json={"shop": {"sessions": None}})
    assert shop.get(path).url.path == "/login"


def test_an_order_sent_after_the_session_has_ended_is_not_placed(visit: Visit) -> None:
    visit("world").patch("/env", json={"shop": {"settings": {"login": "required"}}})
    assert "Log in to Shop Local" in buy(visit("shop"))
    assert set(env(visit)["shop"]["orders"]) == {"O-09871"}
