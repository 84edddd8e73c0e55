"""The tables of tests/requirements/tools.md: each row names tests that exist, and says which run only in a full run."""

from __future__ import annotations

import re

from harness.model.tools import ToolState
from harness.tools.exchange import ToolProblem
from harness.tools.verdicts import VERDICTS
from tests.unit.tools.test_agents_page import ROOT, source_of

TABLES = (ROOT / "tests" / "requirements" / "tools.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "tools.md").read_text("utf-8")


def test_each_row_names_tests_that_exist() -> None:
    rows = [line for line in TABLES.splitlines() if line.startswith("| ") and ".py::" in line]
    named = [name.strip() for row in rows for name in row.rstrip(" |").rpartition("|")[2].split(",")]
    assert len(named) >= len(rows) > 40
    assert [name for name in named if not source_of(name.rstrip("*"))] == []
    thorough = [name for name in named if re.match(r"@pytest\.mark\.thorough\n", source_of(name.rstrip("*")))]
    assert thorough == [name for name in named if name.endswith("*")]


def test_all_requirements_of_the_recovery_system_are_there() -> None:
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", TABLES, re.MULTILINE)] == [*range(1, 21)]


def test_all_states_and_codes_are_explained() -> None:
    assert [state for state in ToolState if f"`{state}`" not in PAGE] == []
    assert {*VERDICTS} == {*ToolProblem}
    assert [rule.code for rule in VERDICTS.values() if f"`{rule.code}`" not in PAGE] == []
