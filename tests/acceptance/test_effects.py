"""A hostile shop: however its checkout breaks down and whatever the task declares, nothing is ordered twice.

The order is the last of the first six steps. All tasks are run once, by one pytest; the worlds in which they ran tell
how many orders were placed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project

ORDERED = "json('env', 'shop.orders.O-10001.status') == 'confirmed'"
BUY: tuple[dict[str, Any], ...] = (
    {"act": "open", "url": "http://shop.local/product/WM-5521"},
    {
        "act": "click",
        "selector": "#add-to-cart",
        "effect": "write",
        "done_when": "json('env', 'shop.cart.WM-5521.qty') == 1",
    },
    {"act": "click", "selector": "#checkout-button"},
    {"act": "type", "selector": "#address", "value": "1 Test Road"},
)
ORDER = len(BUY)
"""Number of the step that orders."""
LATE = 3
"""Seconds after which the order is late."""
RETRY = {"strategy": "retry", "retry_delay_ms": 100}
BACKOFF = {"strategy": "exponential_backoff", "max_retries": 2, "retry_delay_ms": 100}

KILLS = """
import json, os, threading, urllib.request, psutil, pytest
from harness.pytest_plugin.state import STATE

def orders(world):
    request = urllib.request.Request(
        "http://127.0.0.1:{port}/env", headers={{"Host": "world.local", "User-Agent": f"harness-world/{{world}}"}}
    )
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)["shop"]["orders"]

def kill_after_the_order(world, over):
    # The browser is the process of Chromium that is no part of another one.
    while "O-10001" not in orders(world):
        if over.wait(0.02):
            return
    for process in psutil.Process(os.getpid()).children(recursive=True):
        if "--headless" in " ".join(process.cmdline()) and "--type=" not in " ".join(process.cmdline()):
            process.kill()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not item.name.startswith("KILL"):
        return (yield)
    over = threading.Event()
    watcher = threading.Thread(target=kill_after_the_order, args=(item.config.stash[STATE].run_id + "." + item.name, over))
    watcher.start()
    try:
        return (yield)
    finally:
        over.set()
        watcher.join()
"""
"""A conftest.py: kills the browser once the order stands in the world of a task whose name begins with KILL."""


@dataclass(frozen=True)
class Case:
    """A task that orders while the shop breaks down, and what must come of it."""

    orders: int
    state: str
    code: str | None = None
    warnings: frozenset[str] = frozenset()
    breaks: Mapping[str, str] = field(default_factory=dict)
    """The checkout's switches, set just before the order."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    step: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the step that orders."""
    after: tuple[Mapping[str, Any], ...] = ({"act": "open", "url": "http://shop.local/orders"},)
    """Steps after the order."""


def case(orders: int, state: str, code: str | None = None, *warnings: str, known: bool = True, **keys: Any) -> Case:
    """`known`: the order has a `done_when`."""
    step = {"act": "submit", "selector": "#checkout-form", "effect": "write", "timeout": LATE}
    step |= {"done_when": ORDERED} if known else {}
    return Case(orders, state, code, frozenset(warnings), step=step | keys.pop("step", {}), **keys)
