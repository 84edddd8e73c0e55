"""docs/error-codes.md is what the catalog says; no code of the catalog is dead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

from pydantic import TypeAdapter

import harness
from harness.cli.explain import examples, excerpt, treatment
from harness.recovery import Rulebook
from harness.recovery.catalog import CATALOG, Row
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


def test_a_code_is_raised_somewhere_and_has_a_test() -> None:
    assert sorted(CATALOG.keys() - named(PACKAGE)) == []
    assert sorted(CATALOG.keys() - named(ROOT / "tests")) == []


def test_a_code_has_a_section_with_an_example() -> None:
    lacking = {row.code: lacks for row in CATALOG.values() if (lacks := list(lacks_of(row)))}
    assert lacking == {}


def lacks_of(row: Row) -> Iterator[str]:
    """What a code's section does not have."""
    text, shown = document([row]), excerpt(row)
    yield from (words for words in (row.cause, row.hint, row.error_type, treatment(row)) if words not in text)
    retryable = "retryable" if row.retryable else "not retryable"
    if f"suspect {row.suspect}, {retryable}, severity {row.severity}, scope {row.scope}" not in text:
        yield "whose fault it is, and how far it reaches"
    if f"## {row.category.capitalize()}: " not in text:
        yield "a category"
    if f"### {row.code}\n" not in text:
        yield "a heading"
    if (shown["code"], shown["error_type"]) != (row.code, row.error_type):
        yield f"an example of its own: {shown['code']}, {shown['error_type']}"
    if f"`{shown['error_message'][:10]}" not in text.replace("`` ", "`"):
        yield "the example's message"
    of_task = "step" in shown and "file" not in shown["step"]  # the step of an ordinary test is a call in its file
    if of_task and STEP.validate_python(shown["step"]).act != shown["step"]["act"]:
        yield "a step that there is"


def test_a_default_answer_is_said_once() -> None:
    text = document()
    assert {words: text.count(words) for words in map(treatment, CATALOG.values()) if text.count(words) != 1} == {}


def test_there_are_examples_of_the_codes_and_of_nothing_else() -> None:
    assert set(examples()) == set(CATALOG)


def test_what_is_done_by_default_names_the_rule_that_answers() -> None:
    said = {row: treatment(row) for row in CATALOG.values()}
    ends = ("with the evidence", "leaves out the task")
    assert {row.code: text for row, text in said.items() if not text.endswith(ends)} == {}
    assert {row.code: text for row, text in said.items() if not text.startswith(begin(row))} == {}


def begin(row: Row) -> str:
    rule = Rulebook().rule(row.family)
    return "no rule applies" if rule is None else f"`{row.family}`, by default `{rule.strategy}`"


def test_retries_are_counted() -> None:
    assert "the step again after 1 s, 3 times" in treatment(CATALOG["NET_CONNECTION_REFUSED"])
    assert "the step again after 1 s, 2 times" in treatment(CATALOG["NET_DNS"])
    assert "in a new browser" in treatment(CATALOG["BROWSER_CRASHED"])
    assert "a page that was freed" in treatment(CATALOG["PAGE_UNRESPONSIVE"])
