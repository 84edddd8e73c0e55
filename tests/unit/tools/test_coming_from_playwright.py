"""The tables of docs/coming-from-playwright.md: tests show their rows, and every name of Playwright has one."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright import async_api

from harness.cli.commands import COMMANDS
from harness.cli.schema import schemas
from harness.criteria.syntax import FUNCTIONS, WAITS
from harness.model.settings import Settings
from harness.pytest_plugin.options import TASK_OPTIONS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "coming-from-playwright.md").read_text("utf-8")
HEAD = "| Playwright Test, pytest-playwright | pytest-taskspec |"
GUIDE, NAMES = PAGE.split("## Every method\n")
SECTIONS = {head: rest for head, _, rest in (part.partition("\n") for part in NAMES.split("\n### ")[1:])}
CLASSES = {name: head for head in SECTIONS for name in re.findall(r"`(\w+)`", head)}


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ") and not re.match(r"\| Playwright\b", line)]


def cells(text: str) -> Iterator[tuple[set[str], str]]:
    """The names of Playwright, and the answer, of each row."""
    for row in rows(text):
        names, answer = row.strip("|").split(" | ")
        yield set(re.findall(r"`(\w+)`", names)), answer


def named_in(head: str) -> set[str]:
    return set().union(*(names for names, _ in cells(SECTIONS[head])))


def public(name: str) -> set[str]:
    return {each for each in dir(getattr(async_api, name)) if not each.startswith(("_", "not_"))}


def events(name: str) -> set[str]:
    overloads = typing.get_overloads(getattr(async_api, name).on)
    return {event for each in overloads for event in typing.get_args(each.__annotations__["event"])}


def test_each_row_of_the_guide_names_tests_that_exist() -> None:
    named = [re.findall(r"[\w/]+\.py", line.partition("<!-- ")[2]) for line in rows(GUIDE)]
    assert len(named) > 30
    assert [row for row, tests in zip(rows(GUIDE), named, strict=True) if not tests] == []
    assert [test for tests in named for test in tests if not (ROOT / "tests" / test).is_file()] == []


def test_the_classes_that_people_look_for_have_a_table() -> None:
    wanted = (
        "Page Locator LocatorAssertions PageAssertions BrowserContext APIRequestContext FrameLocator Keyboard Mouse"
    )
    assert {*wanted.split(), "Dialog", "Download", "Route"} <= CLASSES.keys()


@pytest.mark.parametrize("name", CLASSES)
def test_every_name_of_a_class_of_playwright_has_its_row(name: str) -> None:
    assert public(name) - named_in(CLASSES[name]) == set(), f"new in Playwright, and not on the page: {name}"


def test_every_event_of_pages_and_contexts_has_its_row() -> None:
    assert events("Page") | events("BrowserContext") == named_in("Events")


def test_no_row_is_about_a_name_that_playwright_does_not_have() -> None:
    known = {head: set[str]().union(*(public(each) for each, of in CLASSES.items() if of == head)) for head in SECTIONS}
    assert {head: stray for head in CLASSES.values() if (stray := named_in(head) - known[head])} == {}


def words(node: Any) -> Iterator[str]:
    """The keys of a JSON Schema, and the values that they may have."""
    match node:
        case list():
            for each in node:
                yield from words(each)
        case dict():
            yield from node.get("properties", {})
            yield from map(str, [*node.get("enum", ()), node.get("const", "")])
            for each in node.values():
                yield from words(each)


KEYS = {*words(schemas()), *words(Settings.model_json_schema())}
OPTIONS = {option.name for option in TASK_OPTIONS}


def unknown_in(span: str) -> Iterator[str]:
    """What a code span of an answer names that the project does not have."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\$\{[^}]*\}", "''", span)
    yield from set(re.findall(r"--[\w-]+", text)) - OPTIONS - {"--headed", "--step"}
    yield from set(re.findall(r"^harness (\w+)", text)) - set(COMMANDS)
    yield from set(re.findall(r"(\w+)\(", text)) - {*FUNCTIONS, *WAITS}
    yield from set(re.findall(r"(?<!\w)(\w+):", text)) - KEYS
    yield from set(re.findall(r"^\w+$", text)) - KEYS - {"page", "s", "Control"}


def test_every_answer_names_what_the_project_has() -> None:
    answers = [answer for head in SECTIONS for _, answer in cells(SECTIONS[head])]
    named = {
        span: unknown for each in answers for span in re.findall(r"`([^`]+)`", each) if (unknown := [*unknown_in(span)])
    }
    assert len(answers) > 60
    assert named == {}


def test_an_answer_with_a_name_that_nothing_has_is_found() -> None:
    assert {*unknown_in("clik")} == {"clik"}
    assert {*unknown_in("visibel('#a') && exists('#b')")} == {"visibel"}
    assert {*unknown_in("klick: '#a'")} == {"klick"}
    assert {*unknown_in("--task-film")} == {"--task-film"}
    assert {*unknown_in("harness reply TASK")} == {"reply"}
