"""The test of a documented command, for the modules that divide the commands between them.

A worker of xdist takes whole modules: modules are what runs side by side. The commands are divided by project and not
by page: most pages speak of the one run in `done`, which takes longer to make than all commands that look at it.
"""

from __future__ import annotations

import re

import pytest

from tests.acceptance.documented import Command, commands
from tests.acceptance.documented_rules import FILLED, RULES, Left, Ran, Rule, Served
from tests.acceptance.documented_runs import Sandbox
from tests.acceptance.supervised import free_base

COMMANDS = commands()


def rules_of(command: Command) -> list[Rule]:
    return [rule for rule in RULES if re.fullmatch(rule.pattern, command.text)]


def options(line: str) -> set[str]:
    return set(re.findall(r"(?<=\s)\[?(--?[a-z][\w-]*)", line))


def filled(line: str, command: Command) -> str:
    """With what its placeholders stand for."""
    line = line.replace("{text}", command.text).replace("{base}", str(free_base()))
    return re.sub(r"\b[A-Z_]{3,}\b", lambda word: FILLED.get(word[0], word[0]), line)


def commands_in(*projects: str) -> pytest.MarkDecorator:
    """Give a test each command that is run in these projects, with its rule."""
    ruled = [(command, rule) for command in COMMANDS for rule in rules_of(command)]
    here = [(command, rule) for command, rule in ruled if not isinstance(rule, Left) and rule.folder in projects]
    return pytest.mark.parametrize(("command", "rule"), here, ids=[command.text for command, _ in here])


def does_what_its_page_says(sandbox: Sandbox, command: Command, rule: Ran | Served) -> None:
    line = filled(rule.line or command.text, command)
    assert options(command.text) <= options(line)
    served = isinstance(rule, Served)
    done = sandbox.serve(line, rule.says, rule.folder) if served else sandbox.run(line, rule.folder)
    assert done.code in rule.codes, f"{command.place}: {line}\n{done.said}"
    assert re.search(rule.says, done.said), f"{command.place}: {line}\n{done.said}"
