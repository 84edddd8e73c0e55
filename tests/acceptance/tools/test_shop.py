"""The demo shop's own tool server: an order whose answer is lost is one order, by a fault and by the shop's breakdown.

What took effect is counted by the shop, in the world of each task, whatever becomes of the document.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project, Wanted

TABLE = '\n[tool.harness.tools.shop]\nurl = "http://shop.local/mcp"\ntimeout = 3\n'
ORDER = {
    "act": "tool",
    "server": "shop",
    "tool": "place_order",
    "arguments": {"items": [{"sku": "WM-5521"}], "shipping_speed": "same_day"},
}
PLACED = "json('env', 'shop.orders.O-10001.status') == 'confirmed'"
LOST = {"kind": "tool_answer_lost", "server": "shop", "tool": "place_order", "times": 1}
UNKNOWN, DONE = "OUTCOME_UNKNOWN", "effect_already_done"


def breaks(moment: str, how: str) -> dict[str, Any]:
    """A fault that lets the shop's checkout break down by itself, also for the tool."""
    path = f"shop.settings.checkout.{moment}"
    return {"kind": "delayed_state", "path": path, "value": how, "seconds": 0, "step": 0}


@dataclass(frozen=True)
class Case:
    """How the answer is lost, and what must come of it."""

    fault: Mapping[str, Any]
    orders: int
    code: str | None = None
    warnings: tuple[str, ...] = ()
    known: bool = True
    """Whether `done_when` tells whether the order stands."""


CASES = {
    "lost-blind": Case(LOST, 1, UNKNOWN, known=False),
    "lost-known": Case(LOST, 1, None, (DONE,)),
    "reset-blind": Case(breaks("after_commit", "reset"), 1, UNKNOWN, known=False),
    "reset-known": Case(breaks("after_commit", "reset"), 1, None, (DONE,)),
    "silent-blind": Case(breaks("after_commit", "hang"), 1, UNKNOWN, known=False),
    "silent-known": Case(breaks("after_commit", "hang"), 1, None, (DONE,)),
    "undone-blind": Case(breaks("before_commit", "reset_once"), 0, UNKNOWN, known=False),
    "undone-known": Case(breaks("before_commit", "reset_once"), 1, None, ("write_repeated", "network_error_recovered")),
}
ORDINARY = {"lost-blind", "reset-known"}


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int], wanted: Wanted[Case]
) -> tuple[str, dict[str, Any]]:
    """The run's id and the records of its tasks."""
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=tmp_path_factory.mktemp("shop"))), sites)
    settings = project.path / "pyproject.toml"
    settings.write_text(settings.read_text("utf-8") + TABLE, "utf-8")
    for name, case in wanted(CASES, "test_an_order_whose_answer_is_lost_is_one_order").items():
        step = ORDER | ({"done_when": PLACED} if case.known else {})
        project.task(name, steps=[step], faults=[dict(case.fault)])
    project.play("--task-workers", "4")
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    return document["run"], {each["task_id"]: each for each in document["results"]}


def effects(sites: Mapping[str, int], world: str) -> int:
    """How often `place_order` took effect in a world."""
    headers = {"User-Agent": f"harness-world/{world}"}
    request = urllib.request.Request(f"http://127.0.0.1:{sites['world.local']}/effects", headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return int(json.load(answer).get("place_order", 0))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ORDINARY else pytest.mark.thorough) for name in CASES]
)
def test_an_order_whose_answer_is_lost_is_one_order(
    played: tuple[str, dict[str, Any]], sites: dict[str, int], name: str
) -> None:
    (run, records), case = played, CASES[name]
    record = records[name]
    told = f"{record['code']}: {record['message']}; {record['warnings']}"
    assert (record["code"], effects(sites, f"{run}.{name}")) == (case.code, case.orders), told
    assert tuple(warning["type"] for warning in record["warnings"]) == case.warnings, told
