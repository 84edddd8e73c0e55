"""The reasons are in the clone: no file cites a document that is not in the repository."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = ("harness", "tests", "docs", "benchmarks", "bootstrap", "tools/docs", "tasks", "schemas", "examples", "errors")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "AGENTS.md", "pyproject.toml", "Makefile")
TEXTS = (".py", ".md", ".lark", ".js", ".json", ".yaml", ".yml", ".toml", ".txt", "")
ABSENT = re.compile(
    r"\bDESIGN\b|\bspecs?/\d{3}|/findings\b|\bthe findings\b"
    r"|(?<![,\d])00[0-4] (?:\d|FAQ)|(?<!\w)\(findings, \d|(?<!\()\b[Ff]indings,? \d|\b[Ii]ssue \d"
)
"""Documents from which the project was made; they are not in the repository."""
DECISION = re.compile(r"\bdocs/decisions/(\d{3})(?![\w-])")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
SOURCE = re.compile(r"(?<![.\w])(?:harness|tests|benchmarks|bootstrap|tools/docs)/[\w/]+\.(?:py|js|lark|json)\b")
MODULE = re.compile(r"(?<![\w./-])harness((?:\.[a-z_]+)+)")


def written(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from (
            path
            for path in sorted((ROOT / folder).rglob("*"))
            if path.is_file()
            and path.suffix in TEXTS
            and not any(part[0] in "._" for part in path.parts[len(ROOT.parts) : -1])
        )


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Name and text of every file but this one."""
    paths = (*written(*PLACES), *(ROOT / page for page in PAGES if (ROOT / page).exists()))
    return tuple(
        (str(path.relative_to(ROOT)), path.read_text("utf-8", "replace")) for path in paths if path != Path(__file__)
    )


def test_no_file_cites_a_document_that_is_not_in_the_repository() -> None:
    found = {f"{name}: {cited[0]}" for name, text in texts() for cited in ABSENT.finditer(text)}
    assert found == set(), "say it in docs/design or docs/decisions, and refer to that"


def test_every_page_that_is_cited_exists() -> None:
    decisions = {path.name[:3] for path in (ROOT / "docs/decisions").glob("*.md")}
    pages = {f"{name}: {page[0]}" for name, text in texts() for page in PAGE.finditer(text) if not lies(page[0])}
    numbers = {f"{name}: {n[1]}" for name, text in texts() for n in DECISION.finditer(text) if n[1] not in decisions}
    assert pages | numbers == set()


def lies(place: str) -> bool:
    return (ROOT / place).exists()


def test_every_source_file_that_documents_name_exists() -> None:
    found = {f"{name}: {file[0]}" for name, text in documents() for file in SOURCE.finditer(text) if not lies(file[0])}
    assert found == set()


def test_every_module_that_documents_name_exists() -> None:
    named = ((name, module[1]) for name, text in documents() for module in MODULE.finditer(text))
    assert {f"{name}: harness{module}" for name, module in named if not is_module(module.split(".")[1:])} == set()


def documents() -> Iterator[tuple[str, str]]:
    """Without what says how things were."""
    return ((name, text) for name, text in texts() if name.endswith(".md") and name != "CHANGELOG.md")


def is_module(parts: list[str]) -> bool:
    """Whether `parts` lead to a module, or to a name in one."""
    if len(parts) > 1 and is_module(parts[:-1]):
        return True
    place = ROOT.joinpath("harness", *parts)
    return place.is_dir() or place.with_suffix(".py").exists() or (len(parts) == 1 and is_public(parts[0]))


def is_public(name: str) -> bool:
    import harness

    return name in harness.__all__
