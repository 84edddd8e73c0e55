"""Home, search and product pages."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from harness.demo.rows import Document
from harness.demo.visit import document, page

FEATURED = 4
SAME_DAY = "same-day"
"""A word of a search: only products that the warehouse can send today."""
WAREHOUSE_SECONDS = 2.5
"""How long the warehouse takes to answer; it is not asked again when the price is limited afterwards."""


async def home(request: Request) -> HTMLResponse:
    """The page with the search box and a few products."""
    shop = document(request)["shop"]
    featured = search(shop["products"], "", "", None)[:FEATURED]
    return page(request, "shop/home.html", {"featured": featured, "cart": shop["cart"]})


async def results(request: Request) -> HTMLResponse:
    """The page of results: its script fetches the products."""
    shop = document(request)["shop"]
    categories = sorted({product["category"] for product in shop["products"].values()})
    return page(request, "shop/search.html", {"categories": categories, "cart": shop["cart"]})


async def found(request: Request) -> JSONResponse:
    """GET /api/search: the matching products, the cheapest first."""
    query = request.query_params
    try:
        limit = float(query["max_price"]) if query.get("max_price") else None
    except ValueError:
        return JSONResponse({"error": "max_price is no number"}, status_code=400)
    products = document(request)["shop"]["products"]
    words = query.get("q", "").lower().split()
    if SAME_DAY in words:
        await asyncio.sleep(WAREHOUSE_SECONDS if limit is None else 0)
        products = {sku: product for sku, product in products.items() if product["stock"] > 0}
    items = search(products, " ".join(word for word in words if word != SAME_DAY), query.get("category", ""), limit)
    return JSONResponse({"items": items})


async def product(request: Request) -> HTMLResponse:
    """The page of one product, with its "add to cart" form."""
    shop = document(request)["shop"]
    sku = request.path_params["sku"]
    if sku not in shop["products"]:
        raise HTTPException(404)
    return page(request, "shop/product.html", {"sku": sku, "product": shop["products"][sku], "cart": shop["cart"]})


def search(products: Document, words: str, category: str, limit: float | None) -> list[dict[str, Any]]:
    """Return the products with every word, the category and at most the price; empty means any."""
    wanted = words.lower().split()
    matching = [
        {"sku": sku, **product}
        for sku, product in products.items()
        if (not category or product["category"] == category)
        and (limit is None or product["price"] <= limit)
        and all(word in f"{product['name']} {product['kind']} {product['category']}".lower() for word in wanted)
    ]
    return sorted(matching, key=lambda product: (product["price"], product["sku"]))


ROUTES = [Route("/", home), Route("/search", results), Route("/api/search", found), Route("/product/{sku}", product)]
