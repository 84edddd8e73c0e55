"""The broken checkout in a real browser, which repeats some requests by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page

from tests.browser.demo.conftest import Env

SHORT_MS = 700


@contextmanager
def checkout(browser: Browser, world: str) -> Iterator[tuple[Page, list[str]]]:
    """A page at the checkout on connections that have been used, and the failures of its POSTs."""
    context = browser.new_context(user_agent=f"test harness-world/{world}")
    page = context.new_page()
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(f"{request.method} {request.failure}"))
    page.goto("http://shop.local/product/WM-5521")
    page.click("#add-to-cart")
    page.click("#checkout-button")
    page.wait_for_load_state("networkidle")
    yield page, failed
    context.close()


def break_down(env: Env, world: str, **settings: str) -> None:
    env.patch(world, {"shop": {"settings": {"checkout": settings}}})


def orders(env: Env, world: str) -> list[Any]:
    return [number for number in env.get(world)["shop"]["orders"] if number != "O-09871"]


@pytest.mark.parametrize("kind", ["reset", "reset_once"])
@pytest.mark.sampled(1)
def test_one_click_is_one_order_although_chromium_repeats_what_was_reset(browser: Browser, env: Env, kind: str) -> None:
    with checkout(browser, kind) as (page, failed):
        break_down(env, kind, after_commit=kind)
        with page.expect_event("requestfailed"):
            page.click("#place-order", no_wait_after=True)
        assert failed == ["POST net::ERR_CONNECTION_RESET"]
    assert orders(env, kind) == ["O-10001"]


@pytest.mark.thorough
def test_one_click_before_the_commit_is_no_order(browser: Browser, env: Env) -> None:
    with checkout(browser, "before") as (page, failed):
        break_down(env, "before", before_commit="reset")
        with page.expect_event("requestfailed"):
            page.click("#place-order", no_wait_after=True)
        assert failed == ["POST net::ERR_CONNECTION_RESET"]
    assert orders(env, "before") == []


@pytest.mark.thorough
def test_a_hanging_checkout_has_placed_the_order(browser: Browser, env: Env) -> None:
    with checkout(browser, "hang") as (page, failed):
        break_down(env, "hang", after_commit="hang")
        with page.expect_request("**/checkout"):
            page.click("#place-order", no_wait_after=True)
        with pytest.raises(Error, match="Timeout"):
            page.wait_for_url("**/confirmation", timeout=SHORT_MS)
        assert failed == []
    assert orders(env, "hang") == ["O-10001"]
