"""Every command of README, docs and examples is run, in projects that have the files they speak of."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.acceptance.documented import ROOT, Command, commands
from tests.acceptance.documented_rules import FILLED, RULES, Left, Ran, Rule, Served
from tests.acceptance.documented_runs import Sandbox
from tests.acceptance.supervised import free_base

COMMANDS = commands()


def rules_of(command: Command) -> list[Rule]:
    return [rule for rule in RULES if re.fullmatch(rule.pattern, command.text)]


RUN = [(each, rule) for each in COMMANDS for rule in rules_of(each) if isinstance(rule, Ran | Served)]
LEFT = [(each, rule) for each in COMMANDS for rule in rules_of(each) if isinstance(rule, Left)]


@pytest.fixture(scope="module")
def sandbox(sites: dict[str, int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path_factory.mktemp("documented"), sites)
    yield sandbox
    sandbox.close()


def test_each_command_has_one_rule() -> None:
    rules = {f"{each.place}: {each.text}": len(rules_of(each)) for each in COMMANDS}
    assert {command: number for command, number in rules.items() if number != 1} == {}


def test_each_rule_is_of_a_command() -> None:
    assert [rule.pattern for rule in RULES if not any(rule in rules_of(each) for each in COMMANDS)] == []


@pytest.mark.parametrize(("command", "rule"), RUN, ids=[command.text for command, _ in RUN])
def test_the_command_does_what_its_page_says(sandbox: Sandbox, command: Command, rule: Ran | Served) -> None:
    line = filled(rule.line or command.text, command)
    assert options(command.text) <= options(line)
    served = isinstance(rule, Served)
    done = sandbox.serve(line, rule.says, rule.folder) if served else sandbox.run(line, rule.folder)
    assert done.code in rule.codes, f"{command.place}: {line}\n{done.said}"
    assert re.search(rule.says, done.said), f"{command.place}: {line}\n{done.said}"


def filled(line: str, command: Command) -> str:
    """With what its placeholders stand for."""
    line = line.replace("{text}", command.text).replace("{base}", str(free_base()))
    return re.sub(r"\b[A-Z_]{3,}\b", lambda word: FILLED.get(word[0], word[0]), line)


def options(line: str) -> set[str]:
    return set(re.findall(r"(?<=\s)\[?(--?[a-z][\w-]*)", line))


@pytest.mark.parametrize(("command", "rule"), LEFT, ids=[command.text for command, _ in LEFT])
def test_what_is_not_run_is_there_at_least(command: Command, rule: Left) -> None:
    assert rule.why
    program, *words = (word for word in command.words if "=" not in word or "[" in word)
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    if program == "python" and words[0] != "-m":
        assert (ROOT / words[0]).is_file()
    if rule.help:
        command_line = [sys.executable, "-m", rule.help, words[0], "--help"]
        told = subprocess.run(command_line, capture_output=True, text=True, check=True, timeout=60).stdout
        assert all(option in told for option in options(command.text))
