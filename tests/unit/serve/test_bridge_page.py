"""The tables of tests/requirements/bridge.md: every requirement has a verdict, and tests that exist."""

from __future__ import annotations

import re

from tests.unit.tools.test_agents_page import ROOT, source_of

PAGE = (ROOT / "tests" / "requirements" / "bridge.md").read_text("utf-8")
REQUIREMENTS = [*(f"000-{number}" for number in range(1, 55)), *(f"001-{number}" for number in range(1, 41))]


def test_each_requirement_has_a_verdict() -> None:
    rows = re.findall(
        r"^\| (00[01]-\d+) \| .+ \| (works|open|n/a, because .+?)(?:; .+?)? \| (.*)\|$", PAGE, re.MULTILINE
    )
    assert [number for number, _, _ in rows] == REQUIREMENTS
    assert [number for number, verdict, named in rows if (verdict == "works") != (".py::" in named)] == []


def test_each_point_of_the_acceptance_list_has_a_test() -> None:
    (table,) = re.findall(r"^## The acceptance list of section 3\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    points = re.findall(r"^\| (\d+) \| .+ \| .+\.py::.+ \|$", table, re.MULTILINE)
    assert points == [str(number) for number in range(1, 11)]


def test_each_row_names_tests_that_exist() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and ".py::" in line]
    named = [name.strip() for row in rows for name in row.rstrip(" |").rpartition("|")[2].split(",")]
    assert [name for name in named if not source_of(name.rstrip("*"))] == []
    thorough = [name for name in named if re.match(r"@pytest\.mark\.thorough\n", source_of(name.rstrip("*")))]
    assert thorough == [name for name in named if name.endswith("*")]
