"""What the commands import: each its own needs, and the list of all of them nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.cli.commands import COMMANDS, Imported

STARTED = """
import atexit, sys
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
