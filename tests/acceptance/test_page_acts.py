"""`back`, `wait` and `patch` in a whole run: what is retried goes to the same page, and no write is done twice."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project

HOME, PRODUCT = "http://shop.local/", "http://shop.local/product/WM-5521"
CART = {"url": "http://shop.local/cart/items", "method": "POST"}
ADD = {"act": "click", "selector": "#add-to-cart", "effect": "write"}
OPEN = [{"act": "open", "url": HOME}, {"act": "open", "url": PRODUCT}]
ROUND = [{"act": "back"}, {"act": "wait", "url": HOME}, {"act": "forward"}, {"act": "wait", "url": "*/product/*"}]


@pytest.mark.thorough
def test_pages_are_shown_again_and_writes_are_not_repeated(project: Project) -> None:
    down = {"kind": "status", "url": HOME, "status": 503, "step": 3, "times": 1}
    cart = {"act": "open", "url": "http://shop.local/cart"}
    there = {"act": "wait", "expr": "exists('#add-to-cart') && url() includes 'product'"}
    project.task(
        "ROUND",
        steps=[cart, *OPEN, *ROUND, there],
        success_criteria=["exists('#add-to-cart')"],
        faults=[down],
        error_recovery={"on_network_error": {"strategy": "retry", "retry_delay_ms": 100}},
    )
    never = {"act": "wait", "expr": "count('#nothing') == 1"}
    project.task("NEVER", steps=[*OPEN, never], success_criteria=["exists('h1')"], step_timeout=1)
    project.task("NOWHERE", steps=[*OPEN[:1], {"act": "back"}], success_criteria=["exists('h1')"])
    patch = [{**CART, "patch": {"status": 503}}]
    project.task("TWICE", steps=[*OPEN[1:], ADD], routes=patch, success_criteria=["exists('h1')"])
    text = project.play("-v")
    assert "3 failed, 1 passed" in text
    assert (found := project.report("NEVER"))["code"] == "ASSERTION_FAILED", found["error_message"]
    assert "EVENTUALLY" not in found["hint"]
    assert (found := project.report("NOWHERE"))["code"] == "INVALID_INPUT", found["error_message"]
    assert "has no history" in found["hint"]
    assert (found := project.report("TWICE"))["code"] == "OUTCOME_UNKNOWN", found["error_message"]
    assert found["routes"][0]["count"] == 1
    assert "-> patch of status (TWICE" in text
