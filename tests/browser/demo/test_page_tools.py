"""The tools that the demo shop offers to agents (WebMCP)."""

from __future__ import annotations

from tests.browser.stage import Stage, passed


async def test_the_tools_of_the_demo_shop_buy_a_mouse(stage: Stage, ports: dict[str, int]) -> None:
    session = await stage.session(webmcp=True, hosts=ports, world="webmcp")
    await passed(session, {"act": "open", "url": "https://shop.local/"})
    found = await session.call_page_tool("search_products", {"query": "wireless mouse", "max_price": 30}, 10, "read")
    assert [item["sku"] for item in found.document["items"]] == ["WM-5521"]
    tools = {tool.name: tool for tool in await session.page_tools(10)}
    assert tools["search_products"].hints.read_only
    assert tools["place_order"].hints.consequential
    empty = await session.call_page_tool("place_order", {"shipping_speed": "same_day", "card": "PM-1"}, 10)
    assert (empty.is_error, empty.text) == (True, "Your cart is empty.")
    cart = await session.call_page_tool("add_to_cart", {"sku": "WM-5521"}, 10)
    assert cart.document == {"total": 24.99, "quantity": 1}
    order = await session.call_page_tool("place_order", {"shipping_speed": "same_day", "card": "PM-1"}, 10)
    assert order.document == {"id": "O-10001", "status": "confirmed", "total": 30.98}
