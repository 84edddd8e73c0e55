"""What the commands import: each its own needs, and the list of all of them nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.commands import COMMANDS, Imported
from harness.reporting.history.writing import save_run
from tests.unit.reporting.history.runs import run

STARTED = """
import atexit, os, sys
os.execv = lambda *_: None  # `harness run` would become pytest
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from harness.cli import main
main()
"""
HEAVY = frozenset({"pydantic", "lark", "playwright", "rich", "psutil", "httpx2", "jinja2", "pytest", "asyncio", "yaml"})
"""What takes long to import, among what we need."""


def imported_by(*arguments: str) -> frozenset[str]:
    """The modules that a command has imported when it ends."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STARTED, *arguments]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return frozenset(found.stderr.split())


def ours(modules: frozenset[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "harness"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_of_the_list_is_the_first_sentence_of_the_command_itself(name: str) -> None:
    command = Imported()[name]
    own = " ".join(command.help.partition("\n\n")[0].split())
    assert COMMANDS[name].help == own.partition(". ")[0].removesuffix(".") + "."


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_list_of_commands_imports_none_of_them(option: str) -> None:
    modules = imported_by(option)
    assert len(ours(modules)) <= 6
    assert HEAVY & modules == set()


COSTLY = ("playwright", "harness.browser", "harness.environment", "harness.pytest_plugin", "pytest", "httpx2", "rich")
OF_MODELS = frozenset({"harness.models", "harness.agents.llm", "pydantic_ai", "openai", "anthropic", "genai_prices"})
"""What only an agent that asks a model needs."""
OF_TOOLS = frozenset({"harness.tools.server", "harness.tools.session", "mcp", "mcp_types"})
"""What only a call of a tool needs."""
NEEDLESS = {
    ("run", "tasks/first.task.yaml", "-x"): (*COSTLY, "harness.runner", "harness.reporting", "harness.spec", "lark"),
    ("explain", "TASK_TIMEOUT"): (*COSTLY, "harness.runner", "harness.reporting", "harness.spec.task", "lark", "yaml"),
    ("validate", "tasks/first.task.yaml"): (
        *COSTLY, "harness.runner", "harness.reporting", "harness.agents", "harness.faults.network", "psutil",
    ),
    ("schema",): (*COSTLY, "harness.runner.compile", "harness.runner.campaign.trials", "harness.reporting", "psutil"),
    ("show",): (*COSTLY, "harness.runner", "harness.faults", "harness.reporting.allure"),
    ("history", "--json"): (*COSTLY, "harness.runner", "harness.faults", "harness.reporting.allure"),
}  # fmt: skip
"""For each call the rooms and libraries that it does without."""


@pytest.mark.parametrize("call", NEEDLESS, ids=lambda call: call[0])
def test_a_command_imports_only_what_it_needs(
    call: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = tmp_path / "tasks" / "first.task.yaml"
    task.parent.mkdir()
    task.write_text("task_id: T\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n", "utf-8")
    save_run(tmp_path, run())
    modules = imported_by(*call)
    assert f"harness.cli.{COMMANDS[call[0]].place.partition(':')[0]}" in modules
    assert [name for name in NEEDLESS[call] if name in modules] == []
    assert OF_MODELS & modules == set()
    assert OF_TOOLS & modules == set()
