"""world.local: health and the environment API."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.unit.demo.conftest import Visit


def test_health_identifies_the_service(visit: Visit) -> None:
    health = visit("world").get("/health").json()
    assert health["service"] == "taskspec-demo"
    assert health["pid"] == os.getpid()
    sites = ("world", "shop", "bank", "gov", "util", "food", "transport", "stream", "travel", "models")
    assert list(health["hosts"]) == [f"{site}.local" for site in sites]


def test_the_world_is_named_by_the_user_agent(visit: Visit, seed: dict[str, Any]) -> None:
    visit("world", "a:1.x-y").patch("/env", json={"world": {"now": "2030-01-01T00:00:00Z"}})
    assert visit("world", "a:1.x-y").get("/env").json()["world"]["now"] == "2030-01-01T00:00:00Z"
    assert visit("world", "other").get("/env").json() == seed
    assert visit("world").get("/env").json() == seed


def test_put_replaces_and_reset_restores(visit: Visit, seed: dict[str, Any]) -> None:
    world = visit("world")
    assert world.put("/env", json={"only": {"this": 1}}).json() == {"only": {"this": 1}}
    assert world.get("/env").json() == {"only": {"this": 1}}
    assert world.post("/env/reset").json() == seed


def test_patch_merges_and_null_removes(visit: Visit) -> None:
    patch = {"shop": {"returns": {"R-50001": {"state": "processing"}}, "orders": {"O-09871": None}}}
    shop = visit("world").patch("/env", json=patch).json()["shop"]
    assert shop["returns"] == {"R-50001": {"state": "processing"}}
    assert shop["orders"] == {}
    assert shop["products"]["WM-5521"]["price"] == 24.99


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[1]", b"null", b'{"a": NaN}', b"\xff", b'{"\\ud800": {"a": 1}}', b'{"a":' * 100_000],
    ids=["empty", "cut", "list", "null", "nan", "not-utf8", "lone-surrogate", "deep"],
)
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_what_is_no_json_object_is_refused(visit: Visit, seed: dict[str, Any], method: str, body: bytes) -> None:
    world = visit("world")
    answer = world.request(method, "/env", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("not ")
    assert world.get("/env").json() == seed


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        (
            {"shop": {"settings": {"checkout": {"after_commit": "no"}}}},
            "shop.settings.checkout.after_commit: expected one of none, reset, reset_once, hang, hang_once; found 'no'",
        ),
        (
            {"shop": {"settings": {"login": True}}},
            "shop.settings.login: expected one of optional, required; found True",
        ),
    ],
)
def test_a_switch_that_is_none_is_refused(
    visit: Visit, seed: dict[str, Any], patch: dict[str, Any], error: str
) -> None:
    world = visit("world")
    for answer in (world.patch("/env", json=patch), world.put("/env", json=patch)):
        assert (answer.status_code, answer.json()) == (400, {"error": error})
    assert world.get("/env").json() == seed


def test_each_listener_serves_its_own_site_only(visit: Visit) -> None:
    assert visit("shop").get("/env").status_code == 404
    assert visit("world").get("/cart").json()["error"] == "not found"
    assert "Local Bank" in visit("bank").get("/login", headers={"Host": "shop.local"}).text
