"""`routes:`, `expect_request:` and `requests(...)` in whole runs: what is reported, what is repeated, what is not."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import NamedTuple, cast

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import warm

CART = {"url": "http://shop.local/cart/items", "method": "POST"}
OPEN = {"act": "open", "url": "http://shop.local/product/WM-5521"}
ADD = {"act": "click", "selector": "#add-to-cart", "effect": "write"}
ONCE = "json('env', 'shop.cart.WM-5521.qty') == 1"


class Played(NamedTuple):
    """The one run that both tests look at, and what the terminal showed."""

    project: Project
    text: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Played:
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("routes"))), sites)
    answered_by_routes(project)
    expecting_requests(project)
    return Played(project, project.play("-v"))


def answered_by_routes(project: Project) -> None:
    late = [{**CART, "status": 200, "delay": 60, "times": 1}]
    project.task("AGAIN", routes=late, steps=[OPEN, ADD], success_criteria=[ONCE], step_timeout=1)
    idle = {"url": "http://shop.local/none", "status": 204}
    down = [{**CART, "status": 503}, idle, {**idle, "optional": True}, {**idle, "steps": 1}]
    project.task("DOWN", routes=down, steps=[OPEN, ADD], error_recovery={"on_network_error": "abort"})


def test_a_write_that_a_route_answered_never_left(played: Played) -> None:
    """Without routes both tasks would end with OUTCOME_UNKNOWN, because the write has no `done_when`."""
    project, text = played
    assert "2 failed, 3 passed" in text
    found = project.report("DOWN")
    assert found["code"] == "HTTP_UNAVAILABLE", found["error_message"]
    assert found["context"]["routed"] is True
    assert [each["count"] for each in found["routes"]] == [1, 0, 0, 0]
    assert found["routes"][0]["where"].startswith("DOWN.task.")
    assert found["routes"][0]["requests"] == [
        {"step_index": 1, "method": "POST", "url": CART["url"], "status": 503, "what": ""},
    ]
    unused = [each["route"] for each in found["warnings"] if each["type"] == "route_unused"]
    assert unused == [1, 3]
    assert re.search(r"answered by routes:\n *POST http://shop\.local/cart/items -> 503 \(DOWN\.task\.", text)
    shown = warm().run("tests.acceptance.command", "show", "DOWN", cwd=project.path).stdout
    assert "answered by routes:\n    POST http://shop.local/cart/items -> 503" in shown
    assert "A route of the task gave this answer" in found["hint"]


def expecting_requests(project: Project) -> None:
    expected = {**CART, "json": {"sku": "WM-0000"}, "within": 0.5}
    rules = {"on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0.1}}
    steps = [OPEN, {**ADD, "expect_request": expected, "done_when": ONCE}]
    project.task("OTHER", steps=steps, error_recovery=rules, success_criteria=[ONCE])
    late = [OPEN, {**ADD, "expect_request": {**CART, "status": 303, "within": 0}}]
    slow = [{"kind": "slow", "url": "http://shop.local/cart/items", "seconds": 0.5}]
    hasty = {"act": "press", "selector": "#add-to-cart", "value": "Enter", "expect_request": {"url": "*/none"}}
    project.task("LATE", steps=late, faults=slow, error_recovery=rules, success_criteria=[ONCE])
    once = "requests('POST http://shop.local/cart/items').length == 1"
    project.task("NONE", steps=[OPEN, {**hasty, "optional": True, "timeout": 1}], success_criteria=[once])


def test_a_request_that_was_not_sent_fails_the_step_whose_act_is_not_repeated(played: Played) -> None:
    project, _ = played
    found = project.report("OTHER")
    assert found["code"] == "REQUEST_EXPECTED"
    assert "sku is 'WM-5521', expected 'WM-0000'" in found["error_message"]
    assert len(found["tried"]) == 2
    assert found["context"]["assertion"]["expected"] == "WM-0000"
    assert [each["type"] for each in found["warnings"]] == []
