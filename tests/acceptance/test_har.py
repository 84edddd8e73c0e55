"""network_logs.har has each request once, whatever happened to the browser and to the request."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.acceptance.conftest import Project

STEPS: list[dict[str, Any]] = [
    {"act": "open", "url": "http://shop.local/?first"},
    {"act": "open", "url": "http://shop.local/checkout"},  # the empty cart: a redirect
    {"act": "open", "url": "http://shop.local/search?q=mouse"},  # retried, and its script comes from the cache
    {"act": "click", "selector": "#nowhere"},
]
FAULTS = [
    {"kind": "browser_kill", "step": 1},
    {"kind": "reset", "url": "http://shop.local/search*", "times": 1},
    {"kind": "page_crash", "step": 3},
]


@pytest.mark.thorough  # tests/browser/test_lost_evidence.py
def test_each_request_is_there_once_also_after_a_restart_of_the_browser(project: Project) -> None:
    project.task("T", steps=STEPS, faults=FAULTS, checkpoints=[0, 1])
    project.run().assert_outcomes(failed=1)
    log = json.loads((project.path / "errors/T/network_logs.har").read_text("utf-8"))["log"]
    told = [(each["startedDateTime"], each["request"]["method"], each["request"]["url"]) for each in log["entries"]]
    assert [each for each, count in Counter(told).items() if count > 1] == []
    urls = Counter(url for _, _, url in told)
    assert urls["http://shop.local/?first"] >= 1, "the browser that was killed has left what was seen of it"
    assert urls["http://shop.local/checkout"] >= 1
    failed = [each for each in log["entries"] if each["response"].get("_failureText")]
    assert any("search" in each["request"]["url"] for each in failed), "the request that was reset"
