"""The checkout that breaks its connection off or never answers, before or after the order is placed."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.demo.test_server import running

Process = tuple[subprocess.Popen[str], dict[str, int]]
PATIENCE = 10
SHORT = 0.5
ORDER = {
    "name": "A",
    "address": "1 Main St",
    "city": "S",
    "postcode": "1",
    "shipping_speed": "standard",
    "card": "PM-1",
}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Visitor:
    """A visitor of one world, by plain HTTP; each connection is one it says."""

    def __init__(self, ports: dict[str, int], world: str) -> None:
        self._ports = ports
        self._agent = {"User-Agent": f"test harness-world/{world}"}

    def connect(self, site: str, timeout: float = PATIENCE) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._ports[f"{site}.local"], timeout=timeout)

    def send(self, connection: http.client.HTTPConnection, method: str, path: str, body: str = "") -> tuple[int, bytes]:
        connection.request(method, path, body, {**self._agent, **(FORM if method == "POST" else {})})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def break_down(self, **settings: str) -> None:
        body = json.dumps({"shop": {"settings": {"checkout": settings}}})
        assert self.send(self.connect("world"), "PATCH", "/env", body)[0] == 200

    def fill_cart(self) -> None:
        self.send(self.connect("shop"), "POST", "/cart/items", urlencode({"sku": "WM-5521", "qty": "1"}))

    def order(self, timeout: float = PATIENCE) -> int:
        return self.send(self.connect("shop", timeout), "POST", "/checkout", urlencode(ORDER))[0]

    def shop(self) -> Any:
        return json.loads(self.send(self.connect("world"), "GET", "/env")[1])["shop"]

    def orders(self) -> list[str]:
        return [number for number in self.shop()["orders"] if number != "O-09871"]


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    with running("--port", "0") as process:
        yield process


@pytest.fixture
def visitor(process: Process, request: pytest.FixtureRequest) -> Visitor:
    """A visitor in a world of the test's own, with a mouse in the cart."""
    world = "".join(letter if letter.isalnum() else "." for letter in request.node.name)
    visitor = Visitor(process[1], world)
    visitor.fill_cart()
    return visitor


def test_after_the_order_the_connection_is_reset(visitor: Visitor) -> None:
    visitor.break_down(after_commit="reset")
    with pytest.raises(ConnectionResetError):
        visitor.order()
    assert visitor.orders() == ["O-10001"]


def test_an_order_sent_twice_is_placed_twice(visitor: Visitor) -> None:
    visitor.break_down(after_commit="reset_once")
    with pytest.raises(ConnectionResetError):
        visitor.order()
    assert visitor.shop()["settings"]["checkout"]["after_commit"] == "none"
    assert visitor.order() == 303
    assert visitor.orders() == ["O-10001", "O-10002"]
    assert visitor.shop()["cart"] == {}


def test_after_the_order_nothing_is_answered(visitor: Visitor) -> None:
    visitor.break_down(after_commit="hang")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            visitor.order(SHORT)
    assert visitor.orders() == ["O-10001", "O-10002"]


def test_a_hang_may_be_for_once(visitor: Visitor) -> None:
    visitor.break_down(after_commit="hang_once")
    with pytest.raises(TimeoutError):
        visitor.order(SHORT)
    assert (visitor.order(), visitor.orders()) == (303, ["O-10001", "O-10002"])


@pytest.mark.parametrize(
    ("kind", "error"), [("reset", ConnectionResetError), ("hang", TimeoutError)], ids=["reset", "hang"]
)
def test_before_the_order_nothing_is_committed(visitor: Visitor, kind: str, error: type[OSError]) -> None:
    before = visitor.shop()
    visitor.break_down(before_commit=f"{kind}_once")
    with pytest.raises(error):
        visitor.order(SHORT if kind == "hang" else PATIENCE)
    assert visitor.shop() == before
    assert visitor.order() == 303
    assert visitor.orders() == ["O-10001"]


def test_a_refused_order_is_no_occasion(visitor: Visitor) -> None:
    visitor.break_down(after_commit="reset_once")
    incomplete = urlencode({**ORDER, "address": ""})
    assert visitor.send(visitor.connect("shop"), "POST", "/checkout", incomplete)[0] == 200
    assert visitor.shop()["settings"]["checkout"]["after_commit"] == "reset_once"


def test_a_connection_that_was_used_before_is_reset_as_any_other(visitor: Visitor) -> None:
    visitor.break_down(after_commit="reset_once")
    connection = visitor.connect("shop")
    assert visitor.send(connection, "GET", "/checkout")[0] == 200
    with pytest.raises(ConnectionResetError):
        visitor.send(connection, "POST", "/checkout", urlencode(ORDER))
    assert visitor.orders() == ["O-10001"]


def test_the_other_worlds_notice_nothing(process: Process, visitor: Visitor) -> None:
    visitor.break_down(before_commit="hang", after_commit="hang")
    other = Visitor(process[1], "untouched")
    other.fill_cart()
    assert (other.order(), other.orders()) == (303, ["O-10001"])


def test_the_sites_stop_while_a_request_hangs() -> None:
    with running("--port", "0") as (process, ports):
        visitor = Visitor(ports, "stop")
        visitor.fill_cart()
        visitor.break_down(after_commit="hang")
        connection = visitor.connect("shop")
        connection.request("POST", "/checkout", urlencode(ORDER), {**FORM, "User-Agent": "test harness-world/stop"})
        while not visitor.orders():
            pass
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
