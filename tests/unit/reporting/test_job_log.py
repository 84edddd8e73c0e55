"""No text of a page commands GitHub's runner."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.terminal import write_summary
from harness.recovery.failure import Failure
from harness.spec.names import commandless
from harness.values import replace
from tests.unit.reporting import sample
from tests.unit.reporting.sample import brief, failure_text, headline

COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)
NASTY = f"{'x' * 80} ::stop-commands::x ##[error]fake"


@pytest.mark.parametrize("text", ["::error::no", "  ::error::no", "a\n\t::x", "a\r::x", "a ##[error]no", "\u2003::x"])
def test_a_line_is_no_command(text: str) -> None:
    found = commandless(text, {"GITHUB_ACTIONS": "true"})
    assert not COMMAND.search(found.replace("\r", "\n"))
    assert found.replace("\u200b", "") == text
    assert commandless(text, {}) == text


@pytest.mark.parametrize("text", ["tests/test_a.py::test_b", "a :: b", "## [x]", ": :x"])
def test_what_is_no_command_stays(text: str) -> None:
    assert commandless(text, {"GITHUB_ACTIONS": "true"}) == text


@pytest.mark.parametrize("shown", [failure_text, brief, headline])
def test_what_a_failed_task_prints(monkeypatch: pytest.MonkeyPatch, shown: Callable[..., str]) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    plan = replace(sample.plan(), task_id="##[error]T")
    result = replace(sample.failed(plan, Failure("STEP_TIMEOUT", NASTY)), task_id="##[error]T")
    assert "##\u200b[error]" in shown(plan, result)
    assert not COMMAND.search(shown(plan, result))


def test_the_summary_of_the_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    lines: list[str] = []
    terminal: Any = SimpleNamespace(section=lines.append, write_line=lines.append)
    write_summary(terminal, (), [("T-1", "##[error]no")], Settings(root=tmp_path), None, ["::error::more"])
    assert any("more" in line for line in lines)
    assert not COMMAND.search("\n".join(lines))
