"""docs/what-counts-as-true.md: each rule names a test that exists."""

from __future__ import annotations

import re

from tests.unit.tools.test_agents_page import ROOT, source_of

PAGE = (ROOT / "docs" / "what-counts-as-true.md").read_text("utf-8")


def test_each_rule_names_a_test_that_exists() -> None:
    rules = [line for line in PAGE.splitlines() if line.startswith("- ")]
    named = [name for rule in rules for name in re.findall(r"<!-- (\S+) -->$", rule)]
    assert len(named) == len(rules) > 50
    assert [name for name in named if not source_of(name.rstrip("*"))] == []
    thorough = [name for name in named if re.match(r"@pytest\.mark\.thorough\n", source_of(name.rstrip("*")))]
    assert thorough == [name for name in named if name.endswith("*")]
