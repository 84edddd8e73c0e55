"""docs/error-codes.md is what the catalog says; no code of the catalog is dead."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import harness
from harness.cli.code_facts import examples, excerpt, facts, treatment
from harness.failure import CATALOG, Row
from harness.recovery import Rulebook
from harness.spec.steps import Step
from tools.docs.error_codes import document

PACKAGE = Path(harness.__file__).parent
ROOT = PACKAGE.parent
DOCUMENT = ROOT / "docs" / "error-codes.md"
STEP: TypeAdapter[Step] = TypeAdapter(Step)


@cache
def named(folder: Path) -> frozenset[str]:
    """The codes that Python files name in quotes, outside of the catalog itself and of this file."""
    files = (path for path in folder.rglob("*.py") if path.name not in ("catalog.py", Path(__file__).name))
    words = chain.from_iterable(re.findall(r'"([A-Z][A-Z_]+)"', path.read_text("utf-8")) for path in files)
    return frozenset(words)


def test_the_document_is_what_the_catalog_says() -> None:
    command = "run `python -m tools.docs.error_codes docs/error-codes.md`"
    assert DOCUMENT.read_text("utf-8") == document(), command


@pytest.mark.parametrize("row", CATALOG.values(), ids=CATALOG)
def test_a_code_is_raised_somewhere_and_has_a_test(row: Row) -> None:
    assert row.code in named(PACKAGE)
    assert row.code in named(ROOT / "tests")


@pytest.mark.parametrize("row", CATALOG.values(), ids=CATALOG)
def test_a_code_has_a_section_with_an_example(row: Row) -> None:
    text = document([row])
    assert f"### {row.code}\n" in text
    assert all(words in text for _, words in facts(row))
    shown = excerpt(row)
    assert (shown["code"], shown["error_type"]) == (row.code, row.error_type)
    assert f'"error_message": "{shown["error_message"][:10]}' in text.replace('\\"', '"')
    if "step" in shown:
        assert STEP.validate_python(shown["step"]).act == shown["step"]["act"]


def test_there_are_examples_of_the_codes_and_of_nothing_else() -> None:
    assert set(examples()) == set(CATALOG)


@pytest.mark.parametrize("row", CATALOG.values(), ids=CATALOG)
def test_what_is_done_by_default_names_the_rule_that_answers(row: Row) -> None:
    rule = Rulebook().rule(row.family)
    said = treatment(row)
    assert said.endswith(("with the evidence", "left out"))
    assert said.startswith("none answers" if rule is None else f"`{row.family}`, by default `{rule.strategy}`")


def test_retries_are_counted() -> None:
    assert "the step again after 1 s, 3 times" in treatment(CATALOG["NET_CONNECTION_REFUSED"])
    assert "the step again after 1 s, 2 times" in treatment(CATALOG["NET_DNS"])
    assert "in a new browser" in treatment(CATALOG["BROWSER_CRASHED"])
    assert "a page that was freed" in treatment(CATALOG["PAGE_UNRESPONSIVE"])
