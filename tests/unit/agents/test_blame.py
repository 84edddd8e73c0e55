"""Which line of an agent's own code an error is shown with."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.agents.python import AgentSource, scene

MODULE = """import json


class Mine:
    def propose(self, plan, history, observe):
        return self.asked("{")

    def asked(self, answer):
        return json.loads(answer)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "blamed_agent.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("blamed_agent", None)


def raised(root: Path) -> str:
    try:
        importlib.import_module("blamed_agent").Mine().propose(None, None, None)
    except ValueError as error:
        return scene(error, AgentSource("mine", "blamed_agent", "Mine", root, 1))
    return "nothing was raised"


def test_the_innermost_line_of_the_project_is_named_not_the_librarys(folder: Path) -> None:
    assert raised(folder) == "blamed_agent.py:9, in asked: return json.loads(answer)"
    assert raised(folder.parent) == f"{folder.name}/blamed_agent.py:9, in asked: return json.loads(answer)"


def test_of_an_agent_from_elsewhere_its_own_folder_counts(folder: Path) -> None:
    assert raised(folder / "project") == "blamed_agent.py:9, in asked: return json.loads(answer)"


def test_without_a_line_of_its_own_nothing_is_said(tmp_path: Path) -> None:
    assert scene(ValueError("x"), AgentSource("mine", "not_imported", "Mine", tmp_path, 1)) == ""
