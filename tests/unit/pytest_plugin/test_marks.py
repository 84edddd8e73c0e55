"""Tags become marks that pytest knows."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pytest_plugin.items import register_mark


class Config:
    """What of pytest's is used."""

    def __init__(self) -> None:
        self.stash = pytest.Stash()
        self.lines = ["slow(seconds): takes long", "shop: tasks of the shop"]
        self.looks = 0

    def getini(self, name: str) -> list[str]:
        assert name == "markers"
        self.looks += 1
        return self.lines

    def addinivalue_line(self, name: str, line: str) -> None:
        assert name == "markers"
        self.lines.append(line)


def test_what_is_declared_is_left_as_it_is_and_what_is_not_is_declared_once() -> None:
    config: Any = Config()
    for name in ("slow", "shop", "bank", "bank"):
        register_mark(config, name)
    assert config.lines[2:] == ["bank: tag or family of TaskSpec files"]


def test_a_tag_of_very_many_tasks_is_looked_up_once() -> None:
    config: Any = Config()
    for _ in range(1000):
        register_mark(config, "bank")
    assert config.looks == 1
