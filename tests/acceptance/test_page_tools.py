"""Tasks that call the tools which the demo shop's pages offer to agents (WebMCP): one run for all of them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project

OPEN = {"act": "open", "url": "https://shop.local/"}
CART = {"act": "tool", "server": "page", "tool": "add_to_cart", "arguments": {"sku": "WM-5521"}, "effect": "write"}
ORDER = {
    "act": "tool",
    "server": "page",
    "tool": "place_order",
    "arguments": {"shipping_speed": "same_day", "card": "PM-1"},
}
SEARCH = {"act": "tool", "server": "page", "tool": "search_products", "arguments": {"query": "wireless mouse"}}
FOUND = {**SEARCH, "effect": "read", "expect": "result('items[0].sku') == 'WM-5521'"}
CUT = {"kind": "delayed_state", "path": "shop.settings.checkout.after_commit", "value": "reset_once", "seconds": 0}
KEEN = {
    "on_network_error": {"strategy": "retry", "max_retries": 3, "retry_delay_ms": 1},
    "on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0.1},
}
ONE_ORDER = ["json('env', 'shop.orders').length == 2", "json('env', 'shop.orders.O-10002') == null"]
TASKS: dict[str, dict[str, Any]] = {
    # The task says `read`, but the page says that its tool is consequential: nothing is ordered twice.
    "CUT": {
        "steps": [OPEN, CART, {**ORDER, "effect": "read"}],
        "faults": [CUT],
        "error_recovery": KEEN,
        "success_criteria": ONE_ORDER,
    },
    "KNOWN": {
        "steps": [OPEN, CART, {**ORDER, "done_when": "json('env', 'shop.orders.O-10001.status') == 'confirmed'"}],
        "faults": [CUT],
        "success_criteria": ONE_ORDER,
        "error_recovery": KEEN,
    },
    "HANGS": {
        "steps": [OPEN, {**FOUND, "timeout": 1}],
        "faults": [{"kind": "tool_hangs", "server": "page", "tool": "search_products", "times": 1}],
        "expect": {"final_state": "completed", "warnings": ["network_error_recovered"]},
        "error_recovery": KEEN,
    },
    "WRONG": {"steps": [OPEN, {**CART, "arguments": {"sku": 5521}}]},
    "MISSPELT": {"steps": [OPEN, {**CART, "tool": "add_to_card", "timeout": 1}]},
    "INSECURE": {"steps": [{**OPEN, "url": "http://shop.local/"}, FOUND]},
}


@pytest.fixture(scope="module")
def played(sites: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which all tasks were run once."""
    folder = tmp_path_factory.mktemp("page-tools")
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
    for name, spec in TASKS.items():
        project.task(name, **spec)
    project.play("--task-workers", "2", ".")
    return folder


def report(folder: Path, name: str) -> dict[str, Any]:
    """The error report of a task; empty if it passed."""
    [*found] = (folder / "errors" / name).glob("error_report.json")
    return json.loads(found[0].read_text("utf-8")) if found else {}


def test_a_consequential_tool_is_not_called_again_even_if_the_task_says_that_it_reads(played: Path) -> None:
    cut = report(played, "CUT")
    assert cut["code"] == "OUTCOME_UNKNOWN"
    assert "TypeError: Failed to fetch; it has no `done_when`, and sent POST" in cut["error_message"]
    assert len(cut["context"]["env_snapshot"]["env"]["shop"]["orders"]) == 2, "one was there before"


def test_a_task_that_knows_its_effect_goes_on(played: Path) -> None:
    assert report(played, "KNOWN") == {}


def test_a_tool_that_reads_is_called_again(played: Path) -> None:
    assert report(played, "HANGS") == {}


@pytest.mark.parametrize(
    ("name", "code", "hint"),
    [
        ("WRONG", "TOOL_INVALID", "Fix `arguments`"),
        ("MISSPELT", "TOOL_UNKNOWN", "Did you mean add_to_cart?"),
        ("INSECURE", "WEBMCP_MISSING", "Open the page over https"),
    ],
)
def test_a_call_that_cannot_be_made_says_what_to_mend(played: Path, name: str, code: str, hint: str) -> None:
    found = report(played, name)
    assert found["code"] == code
    assert found["hint"].startswith(hint)
