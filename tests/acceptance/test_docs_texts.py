"""What README and docs say beside commands: links lead somewhere, blocks are what they seem, quotes are ours."""

from __future__ import annotations

import ast
import functools
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from harness.cli.main import app
from harness.model.settings import Settings, load_settings
from harness.pytest_plugin.foreign import FOREIGN
from harness.pytest_plugin.options import TASK_OPTIONS
from harness.pytest_plugin.parallel import SHARED as ALONE
from harness.pytest_plugin.parallel import STEPPING_IN
from harness.recovery.catalog import CATALOG
from harness.spec.fault_plan import FaultPlan
from harness.spec.load import check_group, load_file
from harness.spec.warnings import WARNINGS
from tests.acceptance.documented import ROOT, blocks, pages
from tests.acceptance.warm import warm

DEEPER = [page for folder in ("design", "decisions") for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
PAGES = [*pages(), *DEEPER, ROOT / "CHANGELOG.md"]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
STEPS = {"task_id": "BLOCK", "goal": "g", "steps": [{"act": "open", "url": "http://shop.local/"}] * 10}
MODELS = ("yaml", "toml", "json", "python")
BLOCKS = [(page, language, text) for page in pages() for language in MODELS for text in blocks(page, language)]


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Of the headings, as GitHub makes them."""
    prose = _FENCED.sub("", page.read_text("utf-8"))
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.append(f"{slug}-{count}" if (count := found.count(slug)) else slug)
    return frozenset(found)


def test_the_prose_of_the_readme_fits_an_editor() -> None:
    prose = _FENCED.sub("", (ROOT / "README.md").read_text("utf-8"))
    assert [line for line in prose.splitlines() if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("file", PAGES, ids=NAMES)
def test_links_lead_somewhere(file: Path) -> None:
    broken = []
    for path, anchor in _LINK.findall(_FENCED.sub("", file.read_text("utf-8"))):
        target = (file.parent / path).resolve() if path else file
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


GROUP = re.compile(r"# (?:\w+/)*(\w+\.steps\.yaml)\n")
"""The first line of a step group."""


@pytest.mark.parametrize(
    ("origin", "language", "text"), BLOCKS, ids=[f"{page.stem}-{language}" for page, language, _ in BLOCKS]
)
def test_a_block_is_what_it_seems(origin: Path, language: str, text: str, tmp_path: Path) -> None:
    match language:
        case "python":
            assert compile(text, origin.name, "exec")
        case "json":
            assert json.loads(text)
        case "toml":
            (tmp_path / "pyproject.toml").write_text(text, "utf-8")
            assert load_settings(tmp_path).root == tmp_path  # which refuses what it does not know
            assert tomllib.loads(text)["tool"]["harness"]
        case _ if group := GROUP.match(text):
            assert check_group(write_group(tmp_path, group[1], text)) == []
        case _:
            for _, _, other in (each for each in BLOCKS if each[0] == origin):
                if group := GROUP.match(other):
                    write_group(tmp_path, group[1], other)
            check_yaml(yaml.safe_load(text), tmp_path / "block.task.yaml")


def write_group(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder / name


def check_yaml(document: Any, file: Path) -> None:
    """Steps of a workflow, a workflow, a fault plan, or a task; of the last two maybe a part."""
    if isinstance(document, list):
        assert all(("run" in step) != ("uses" in step) for step in document)
    elif is_workflow(document):
        assert jobs(document)
    elif "gate" in document or any("tasks" in fault for fault in document.get("faults", ())):
        assert FaultPlan.model_validate({"name": "block", "faults": [{"kind": "page_crash"}], **document})
    else:
        whole = document if "task_id" in document else {**STEPS, **document}
        file.write_text(yaml.safe_dump(whole, sort_keys=False), "utf-8")
        (file.parent / "note.txt").write_text("what tasks upload", "utf-8")
        shutil.copy(ROOT / "examples/customers.csv", file.parent)
        assert load_file(file, needs_steps=False).spec.goal


def is_workflow(document: dict[Any, Any]) -> bool:
    return "jobs" in document or any(isinstance(job, dict) and "script" in job for job in document.values())


def jobs(document: dict[Any, Any]) -> list[Any]:
    """All of them: each runs something."""
    found = document.get("jobs", {name: job for name, job in document.items() if isinstance(job, dict)})
    return [job for job in found.values() if job.get("steps") or job.get("script")]


def test_each_picture_is_shown_and_small() -> None:
    text = "\n".join(page.read_text("utf-8") for page in pages())
    pictures = sorted((ROOT / "docs" / "images").glob("*.png"))
    names = ("allure", "dashboard", "evaluation", "failure", "live", "trace")
    assert {file.stem for file in pictures} == {name + suffix for name in names for suffix in ("", "-dark")}
    assert [file.name for file in pictures if f"images/{file.name}" not in text or file.stat().st_size > 200_000] == []


def test_each_option_and_command_is_spoken_of() -> None:
    text = "\n".join(page.read_text("utf-8") for page in pages())
    silent = [option.name for option in TASK_OPTIONS if not re.search(rf"{option.name}\b", text)]
    assert silent + [command for command in names(typer.main.get_command(app), "harness") if command not in text] == []


def names(command: Any, name: str) -> list[str]:
    """All commands of a group, in full."""
    inner = getattr(command, "commands", {})
    listed = [each for key, value in inner.items() for each in names(value, f"{name} {key}")]
    return listed or [name]


def test_each_setting_is_spoken_of() -> None:
    text = "\n".join(page.read_text("utf-8") for page in pages())
    assert [name for name in Settings.model_fields if name != "root" and not re.search(rf"\b{name}\b", text)] == []


def symptoms() -> list[str]:
    """What stands as code in the first column: messages, codes and names of warnings."""
    rows = (ROOT / "docs" / "red.md").read_text("utf-8").partition("## By symptom")[2].splitlines()
    cells = [row.split(" | ")[0] for row in rows if row.startswith("| ")]
    return [double or single for cell in cells for double, single in re.findall(r"`` (.+?) ``|`([^`]+)`", cell)]


def test_quoted_symptoms_are_our_words() -> None:
    """Between the `…`, each piece stands in a text of the source."""
    source = "\n".join(said for file in sorted((ROOT / "harness").rglob("*.py")) for said in texts(file))
    messages = [each for each in symptoms() if " " in each]
    assert len(messages) > 15
    pieces = [piece.strip() for message in messages for piece in message.split("…") if len(piece.strip()) > 2]
    assert [piece for piece in pieces if piece not in source] == []


def texts(file: Path) -> Iterator[str]:
    """What it may say: its strings, put together where they are written in parts, with `tasks` for a name filled in."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "tasks" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_the_other_symptoms_are_codes_and_warnings() -> None:
    names = [each for each in symptoms() if " " not in each]
    assert len(names) > 8
    assert [name for name in names if name not in {**CATALOG, **WARNINGS}] == []


def test_the_page_knows_what_runs_alone_and_in_its_turn() -> None:
    text = (ROOT / "docs" / "run.md").read_text("utf-8").partition("## Many tasks at once")[2].partition("\n## ")[0]
    assert [name for name in (*ALONE, *STEPPING_IN) if f"`{name}`" not in text] == []


def test_every_option_of_the_installed_playwright_plugin_is_known() -> None:
    shown = warm().run("pytest", "--help", "-p", "no:cacheprovider", cwd=ROOT).stdout
    (theirs,) = re.findall(r"^Playwright:\n(.*?)\n(?=\S)", shown, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"^  (--[\w-]+)", theirs, re.MULTILINE)) == {option.name for option in FOREIGN}
