"""The shop's tools: what they do in a world, and the server of MCP over Streamable HTTP and over stdio."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from starlette.testclient import TestClient

from harness.demo.server import HOSTS, applications
from harness.demo.shop import RefusedError
from harness.demo.tools import NOT_INSTALLED
from harness.demo.tools.shop import TOOLS, BrokenDownError
from harness.demo.worlds import DEFAULT_WORLD, Worlds
from tests.unit.demo.conftest import Visit
from tests.unit.demo.test_server import ROOT, running

MOUSE = {"sku": "WM-5521"}
WORLD = {"pytest-taskspec/world": "w1"}
Mode = Literal["legacy", "2026-07-28"]
ERAS: tuple[Mode, ...] = ("legacy", "2026-07-28")


def act(worlds: Worlds, name: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    (tool,) = (tool for tool in TOOLS if tool.name == name)
    return tool.act(worlds, "w1", arguments or {})


def test_an_order_by_tool_is_an_order_of_the_world(worlds: Worlds, visit: Visit) -> None:
    placed = act(worlds, "place_order", {"items": [MOUSE | {"qty": 2}], "shipping_speed": "same_day", "card": "PM-1"})
    assert (placed["id"], placed["total"], placed["card"]) == ("O-10001", 55.97, "1234")
    assert "O-10001" in visit("shop", "w1").get("/orders").text
    assert act(worlds, "get_order", {"order": "O-10001"}) == placed
    assert worlds.read("w1")["bank"]["transactions"]


def test_without_items_it_orders_the_cart(worlds: Worlds, visit: Visit) -> None:
    visit("shop", "w1").post("/cart/items", data=MOUSE | {"qty": "1"})
    assert act(worlds, "place_order")["items"][0]["sku"] == "WM-5521"
    assert worlds.read("w1")["shop"]["cart"] == {}
    with pytest.raises(RefusedError, match="cart is empty"):
        act(worlds, "place_order")


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("get_order", {"order": "O-1"}, "no order O-1"),
        ("place_order", {"items": [{"sku": "X"}]}, "no product X"),
        ("place_order", {"items": [MOUSE], "card": "PM-9"}, "choose a shipping speed and a card"),
        ("place_order", {"items": [MOUSE], "city": ""}, "whole delivery address"),
        ("cancel_order", {"order": "O-09871"}, "has been delivered"),
        ("set_state", {"state": {"shop": {"settings": {"login": "no"}}}}, "expected one of"),
    ],
)
def test_what_is_refused_has_no_effect(worlds: Worlds, name: str, arguments: dict[str, Any], why: str) -> None:
    before = worlds.read("w1")
    with pytest.raises(RefusedError, match=why):
        act(worlds, name, arguments)
    assert (worlds.read("w1"), worlds.effects("w1")) == (before, {})


def test_effects_are_counted_once_each_and_outlive_the_document(worlds: Worlds, visit: Visit) -> None:
    before = act(worlds, "get_state")
    act(worlds, "place_order", {"items": [MOUSE]})
    for _ in range(2):  # the second one changes nothing
        assert act(worlds, "cancel_order", {"order": "O-10001"})["status"] == "cancelled"
    assert act(worlds, "set_state", {"state": before}) == {"stored": True}
    assert act(worlds, "get_state") == before
    assert act(worlds, "count_effects") == {"place_order": 1, "cancel_order": 1}
    assert visit("world", "w1").get("/effects").json() == {"place_order": 1, "cancel_order": 1}
    assert visit("world").get("/effects").json() == {}


def test_cancelling_refunds_once(worlds: Worlds) -> None:
    balance = worlds.read("w1")["bank"]["accounts"]
    act(worlds, "place_order", {"items": [MOUSE]})
    act(worlds, "cancel_order", {"order": "O-10001"})
    act(worlds, "cancel_order", {"order": "O-10001"})
    assert worlds.read("w1")["bank"]["accounts"] == balance


@pytest.mark.parametrize(("moment", "orders"), [("before_commit", 0), ("after_commit", 1)])
def test_the_breakdowns_of_the_checkout_hold_for_the_tool(worlds: Worlds, moment: str, orders: int) -> None:
    with worlds.change("w1") as document:
        document["shop"]["settings"]["checkout"][moment] = "reset_once"
    with pytest.raises(BrokenDownError):
        act(worlds, "place_order", {"items": [MOUSE]})
    assert worlds.effects("w1").get("place_order", 0) == orders
    act(worlds, "place_order", {"items": [MOUSE]})


def test_the_counts_of_the_default_world_end_with_the_process(tmp_path: Path) -> None:
    for expected in ({}, {}):
        store = Worlds(str(tmp_path / "state"))
        assert store.effects(DEFAULT_WORLD) == expected
        with store.change(DEFAULT_WORLD, effect="place_order") as document:
            document["more"] = 1
        store.close()


async def use(server: str | AbstractAsyncContextManager[Any], mode: Mode) -> None:
    """What a client of that era sees."""
    async with Client(server, mode=mode) as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        read_only = {name for name, each in hints.items() if each is not None and each.read_only_hint}
        assert read_only == {"search_products", "get_order", "count_effects", "get_state"}
        assert {name for name, each in hints.items() if each is not None and not each.idempotent_hint} == {
            "place_order"
        }
        placed = await client.call_tool("place_order", {"items": [MOUSE]}, meta=WORLD)
        order: Any = placed.structured_content
        assert order["status"] == "confirmed"
        counted: Any = (await client.call_tool("count_effects", {}, meta=WORLD)).structured_content
        assert counted["place_order"] >= 1
        wrong = await client.call_tool("get_order", {"number": "O-1"})
        assert (wrong.is_error, "'order' is a required property" in str(wrong.content)) == (True, True)
        other = await client.call_tool("get_order", {"order": order["id"]})
        assert other.is_error, "the default world has no such order"


def test_both_eras_over_http() -> None:
    with running("--port", "0") as (_, ports):
        for mode in ERAS:
            asyncio.run(use(f"http://127.0.0.1:{ports['shop.local']}/mcp", mode))
        asked = urllib.request.Request(
            f"http://127.0.0.1:{ports['world.local']}/effects", headers={"User-Agent": "test harness-world/w1"}
        )
        with urllib.request.urlopen(asked) as answer:
            assert json.load(answer) == {"place_order": len(ERAS)}


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ERAS)
def test_both_eras_over_stdio(mode: Mode) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "harness.demo.tools"], cwd=ROOT)
    asyncio.run(use(stdio_client(server), mode))


def test_without_the_library_it_says_what_to_install(worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "harness.demo.tools.protocol", None)
    shop = TestClient(applications(worlds, dict.fromkeys(HOSTS, 1))["shop.local"])
    answer = shop.post("/mcp", json={})
    assert (answer.status_code, answer.json()) == (501, {"error": NOT_INSTALLED})


def test_a_demo_whose_tools_nobody_uses_does_not_import_the_library() -> None:
    code = "import sys, harness.demo.__main__; print([name for name in sys.modules if name in ('mcp', 'jsonschema')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ended.stdout == "[]\n"
