"""The demo sites in this process, without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from harness.demo.server import HOSTS, applications
from harness.demo.worlds import SEED, Worlds

Visit = Callable[..., TestClient]


@pytest.fixture
def seed() -> dict[str, Any]:
    """The document that every world starts with."""
    document: dict[str, Any] = json.loads(SEED.read_text(encoding="utf-8"))
    return document


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    """An empty store."""
    store = Worlds()
    yield store
    store.close()


@pytest.fixture
def visit(worlds: Worlds) -> Visit:
    """Open a client of one site: ``visit("shop")``, in another world with ``visit("shop", "w2")``."""
    sites = applications(worlds, dict.fromkeys(HOSTS, 1))

    def client(site: str, world: str = "") -> TestClient:
        agent = f"test harness-world/{world}" if world else "test"
        return TestClient(sites[f"{site}.local"], f"http://{site}.local", headers={"User-Agent": agent})

    return client
