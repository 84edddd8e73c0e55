"""Hosts of a task against those of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cli.validate import address_advice
from harness.model.settings import Settings
from tests.unit.spec.files import loaded

HEAD = "task_id: T\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n"


def settings(**more: Any) -> Settings:
    hosts = {"shop.local": 1, "bank.local": 2, "node1.test": 3}
    service = {"command": ["x"], "hosts": hosts, "health": "http://shop.local/health"}
    return Settings.model_validate({"services": {"demo": service}, **more})


def told(folder: Path, text: str, around: Settings | None = None) -> list[str]:
    found = list(address_advice(loaded(folder, text), around or settings()))
    assert all(problem.severity == "warning" for problem in found)
    return [f"{problem.line} {problem.path}: {problem.message}; {problem.hint}" for problem in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  - {act: open, url: 'http://shop.locl/'}",
            "4 steps[1].url: shop.locl is not a host of [tool.harness.services]",
        ),
        ("  - {act: api, url: 'http://shoplocal/'}", "; did you mean `shop.local`?"),
        ("  - {act: open, url: shop.local/}", "steps[1].url: a URL without `http://` is relative"),
        ("  - {act: open, url: shop.local/}", "; did you mean http://shop.local/ ?"),
    ],
)
def test_a_host_that_is_nearly_one_of_the_services_is_told(tmp_path: Path, text: str, expected: str) -> None:
    (line,) = told(tmp_path, HEAD + text + "\n")
    assert expected in line


@pytest.mark.parametrize(
    "text",
    [
        "  - {act: open, url: 'http://example.test/'}\n  - {act: open, url: 'http://node2.test/'}",
        "  - {act: open, url: /cart}\n  - {act: open, url: 'http://${memory.host}/'}",
    ],
)
def test_what_is_in_order_or_not_known_is_left_alone(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, HEAD + text + "\n") == []


def test_without_services_and_with_a_base_url_nothing_is_known(tmp_path: Path) -> None:
    text = HEAD + "  - {act: open, url: shop.locl/}\n"
    assert told(tmp_path, text, Settings(base_url="http://shop.local/")) == []
