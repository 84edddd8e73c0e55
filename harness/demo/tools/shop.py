"""What the tools of the shop do in a world, without any protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct
from starlette.datastructures import FormData
from starlette.responses import Response

from harness.demo import payment
from harness.demo.control import objection
from harness.demo.shop import ADDRESS_FIELDS, MOST_PER_ITEM, RefusedError, place, search, strike
from harness.demo.worlds import Document, Worlds

_Arguments = Mapping[str, Any]
_CANCELLED: Final = "cancelled"


class BrokenDownError(Exception):
    """There is no answer: the world demands that the checkout breaks down now."""

    def __init__(self, breakdown: Response) -> None:
        super().__init__()
        self.breakdown = breakdown


class ShopTool(Struct, frozen=True):
    """A tool: what it says of itself, and what it does."""

    name: str
    description: str
    effect: Literal["read", "idempotent", "write"]
    act: Callable[[Worlds, str, _Arguments], Document]
    """Takes the store, the id of the world and checked arguments; raises ``RefusedError`` and ``BrokenDownError``."""
    parameters: Mapping[str, Any]
    required: tuple[str, ...] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.parameters),
            "required": list(self.required),
            "additionalProperties": False,
        }


def _search_products(worlds: Worlds, world: str, arguments: _Arguments) -> Document:
    products = worlds.read(world)["shop"]["products"]
    words, category = arguments.get("query", ""), arguments.get("category", "")
    return {"items": search(products, words, category, arguments.get("max_price"))}


def _get_order(worlds: Worlds, world: str, arguments: _Arguments) -> Document:
    return _found(worlds.read(world), arguments["order"])


def _found(document: Document, number: str) -> Document:
    order = document["shop"]["orders"].get(number)
    if order is None:
        raise RefusedError(f"There is no order {number}.")
    return dict(order)


def _place_order(worlds: Worlds, world: str, arguments: _Arguments) -> Document:
    """Place an order; a breakdown comes before it is stored, or right after that, as in the checkout of the page."""
    with worlds.change(world) as document:
        broken = strike(document["shop"], "before_commit")
    if broken is not None:
        raise BrokenDownError(broken)
    with worlds.change(world, effect="place_order") as document:
        order = _ordered(document, arguments)
        broken = strike(document["shop"], "after_commit")
        if broken is None and "items" not in arguments:
            document["shop"]["cart"] = {}
    if broken is not None:
        raise BrokenDownError(broken)
    return order


def _ordered(document: Document, arguments: _Arguments) -> Document:
    shop = document["shop"]
    cart = _cart(shop, arguments["items"]) if "items" in arguments else shop["cart"]
    sent = {name: arguments.get(name, shop["customer"].get(name, "")) for name in ADDRESS_FIELDS}
    sent |= {name: arguments.get(name, usual) for name, usual in _USUAL.items()}
    return dict(shop["orders"][place(document, FormData(sent), cart)])


_USUAL: Final = {"shipping_speed": "standard", "card": "PM-1"}


def _cart(shop: Document, items: list[Document]) -> Document:
    cart: Document = {}
    for item in items:
        sku = item["sku"]
        if sku not in shop["products"]:
            raise RefusedError(f"There is no product {sku}.")
        quantity = cart.get(sku, {"qty": 0})["qty"] + item.get("qty", 1)
        cart[sku] = {"qty": min(MOST_PER_ITEM, quantity)}
    return cart


def _cancel_order(worlds: Worlds, world: str, arguments: _Arguments) -> Document:
    with worlds.change(world, effect="cancel_order") as document:
        order = _found(document, arguments["order"])
        if order["status"] == "delivered":
            raise RefusedError(f"The order {order['id']} has been delivered: return it instead.")
        if order["status"] != _CANCELLED:
            order["status"] = _CANCELLED
            document["shop"]["orders"][order["id"]] = order
            payment.refund(document, order["card"], order["total"], "shop.local")
    return order


def _count_effects(worlds: Worlds, world: str, _arguments: _Arguments) -> Document:
    return {tool.name: 0 for tool in TOOLS if tool.effect != "read" and tool.name != "set_state"} | worlds.effects(
        world
    )


def _set_state(worlds: Worlds, world: str, arguments: _Arguments) -> Document:
    wrong = objection(arguments["state"])
    if wrong:
        raise RefusedError(wrong)
    worlds.replace(world, dict(arguments["state"]))
    return {"stored": True}


_NUMBER: Final = {"type": "string", "description": "The number of the order, such as O-10001."}
_ITEM: Final = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "description": "The article number, such as WM-5521."},
        "qty": {"type": "integer", "minimum": 1, "maximum": MOST_PER_ITEM, "default": 1},
    },
    "required": ["sku"],
    "additionalProperties": False,
}
_ORDER: Final = {
    "items": {
        "type": "array",
        "items": _ITEM,
        "minItems": 1,
        "description": "What to order; without it, what is in the cart.",
    },
    "shipping_speed": {"type": "string", "description": "standard (the default) or same_day."},
    "card": {"type": "string", "description": "The stored card; the default is PM-1."},
    **{
        name: {"type": "string", "description": f"{name.title()} of the recipient; the default is the customer's."}
        for name in ADDRESS_FIELDS
    },
}
TOOLS: Final = (
    ShopTool(
        "search_products",
        "Find products by words, category and price, the cheapest first.",
        "read",
        _search_products,
        {"query": {"type": "string"}, "category": {"type": "string"}, "max_price": {"type": "number"}},
    ),
    ShopTool("get_order", "Look up an order.", "read", _get_order, {"order": _NUMBER}, ("order",)),
    ShopTool("place_order", "Order products and charge the card.", "write", _place_order, _ORDER),
    ShopTool(
        "cancel_order",
        "Cancel an order that has not been delivered, and refund it. To cancel it again changes nothing.",
        "idempotent",
        _cancel_order,
        {"order": _NUMBER},
        ("order",),
    ),
    ShopTool(
        "count_effects",
        "Tell how often each tool has changed this shop. A document that is put back does not change that.",
        "read",
        _count_effects,
        {},
    ),
    ShopTool(
        "get_state", "Read the whole environment document.", "read", lambda worlds, world, _: worlds.read(world), {}
    ),
    ShopTool(
        "set_state",
        "Replace the whole environment document.",
        "idempotent",
        _set_state,
        {"state": {"type": "object"}},
        ("state",),
    ),
)
