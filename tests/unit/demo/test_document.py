"""docs/demo.md names what is there: selectors, pages, parts of the document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.unit.demo.conftest import Visit

ROOT = Path(__file__).parents[3]
DEMO = ROOT / "harness" / "demo"
SECTION = (ROOT / "docs" / "demo.md").read_text("utf-8").partition("## What to write tasks on")[2].partition("\n## ")[0]
OF_THE_SEED = re.compile(r"(?:account|binding|permit)-[A-Z].*")
"""Ids that a page makes of those of the document."""


def test_every_selector_that_is_named_is_in_a_page() -> None:
    files = [path for kind in ("html", "js", "py") for path in DEMO.rglob(f"*.{kind}")]
    text = "\n".join(path.read_text("utf-8") for path in files)
    selectors = re.findall(r"`([#.][^`]+)`", SECTION)
    names = {name for selector in selectors for name in re.findall(r"[#.]([A-Za-z][\w-]+)", selector)}
    assert len(names) > 50
    own = {name for name in names if not OF_THE_SEED.fullmatch(name)}
    assert {name for name in own if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)} == set()


def test_every_page_that_is_named_answers(visit: Visit) -> None:
    logins = {"bank": ("demo", "demo-pass"), "gov": ("C-204815", "2468")}
    for site in ("shop", "bank", "gov"):
        client = visit(site)
        if site in logins:
            client.post("/login", data=dict(zip(("user", "secret"), logins[site], strict=True)))
        rows = re.findall(rf"(?m)^\| `{site}\.local` \|.*(?:\n\| \| `/.*)*", SECTION)
        pages = [
            page for row in rows for line in row.splitlines() for page in re.findall(r"`(/[^`]*)`", line.split("|")[2])
        ]
        assert pages
        assert {page: client.get(page).status_code for page in pages} == dict.fromkeys(pages, 200)


def test_every_part_of_the_document_that_is_named_is_in_the_seed(seed: dict[str, Any]) -> None:
    told = SECTION.partition("The document has")[2].partition("In criteria")[0]
    parts = re.findall(r"`(shop|bank|gov)`\s\(([^)]*)\)", told)
    assert len(parts) == 3
    for site, names in parts:
        assert set(re.findall(r"`(\w+)`", names)) <= set(seed[site])
    for site in ("util", "food", "transport", "stream", "travel"):
        assert {"payment", "offers", "purchases"} <= set(seed[site])
