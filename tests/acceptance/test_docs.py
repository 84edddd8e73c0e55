"""Each command of README, docs and examples has one rule, which runs it, or says why it is not run."""

from __future__ import annotations

import functools
import re

import pytest

from tests.acceptance import test_docs_reports, test_docs_runs, test_docs_sites
from tests.acceptance.documented import ROOT, Command
from tests.acceptance.documented_rules import RULES, Left
from tests.acceptance.documented_tests import COMMANDS, options, rules_of
from tests.acceptance.warm import warm

LEFT = [(each, rule) for each in COMMANDS for rule in rules_of(each) if isinstance(rule, Left)]
MODULES = (test_docs_reports, test_docs_runs, test_docs_sites)


def test_each_command_has_one_rule() -> None:
    rules = {f"{each.place}: {each.text}": len(rules_of(each)) for each in COMMANDS}
    assert {command: number for command, number in rules.items() if number != 1} == {}


def test_each_rule_is_of_a_command() -> None:
    assert [rule.pattern for rule in RULES if not any(rule in rules_of(each) for each in COMMANDS)] == []


def test_each_project_is_that_of_one_module() -> None:
    projects = [project for module in MODULES for project in module.PROJECTS]
    assert sorted(projects) == sorted({rule.folder for rule in RULES if not isinstance(rule, Left)})


@functools.cache
def told(module: str, command: str) -> str:
    done = warm().run(module, command, "--help", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("command", "rule"), LEFT, ids=[command.text for command, _ in LEFT])
def test_what_is_not_run_is_there_at_least(command: Command, rule: Left) -> None:
    assert rule.why
    program, *words = (word for word in command.words if "=" not in word or "[" in word)
    if program == "make":
        assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    if program == "python" and words[0] != "-m":
        assert (ROOT / words[0]).is_file()
    if rule.help:
        assert all(option in told(rule.help, words[0]) for option in options(command.text))
