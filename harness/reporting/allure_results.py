"""The Allure results in a folder, looked through before Allure sees them; what is broken or foreign is named.

A folder of results is data from elsewhere: a run that was killed while it wrote, an artifact of somebody's branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.model.ports import Json
from harness.reporting.allure_files import OURS, RC
from harness.reporting.chosen_results import ENVIRONMENT, choose, written_run
from harness.reporting.documents import read_json

BESIDE = (ENVIRONMENT, "executor.json", "categories.json")
"""What a run writes once, beside its results."""

_BELOW = ("steps", "befores", "afters")
_ATTACHMENT = re.compile(r"[\w.-]+-attachment(?:\.[\w.-]+)?")


class Link(BaseModel):
    """A reference of a result."""

    model_config = ConfigDict(extra="allow")

    url: str


class Attachment(BaseModel):
    """A file that a result shows."""

    model_config = ConfigDict(extra="allow")

    source: str
    name: str | None = None
    type: str | None = None


class Part(BaseModel):
    """A step of a result."""

    model_config = ConfigDict(extra="allow")

    name: str | None = None
    status: Literal["passed", "failed", "broken", "skipped", "unknown"] | None = None
    statusDetails: dict[str, object] | None = None  # noqa: N815 - Allure's name
    start: int | None = None
    stop: int | None = None
    steps: list[Part] | None = None
    attachments: list[Attachment] | None = None


class Label(BaseModel):
    """What a result is found by."""

    model_config = ConfigDict(extra="allow")

    name: str
    value: str | None = None


class ResultFile(Part):
    """What Allure must be able to read in `<uuid>-result.json`."""

    uuid: str
    name: str
    start: int
    historyId: str | None = None  # noqa: N815 - Allure's name
    labels: list[Label] | None = None
    links: list[Link] | None = None


class ContainerFile(Part):
    """What Allure must be able to read in `<uuid>-container.json`: fixtures of some results."""

    children: list[str] | None = None
    befores: list[Part] | None = None
    afters: list[Part] | None = None


_MODELS: dict[str, type[Part]] = {"-result.json": ResultFile, "-container.json": ContainerFile, "-globals.json": Part}


@dataclass(frozen=True, slots=True)
class Results:
    """What of a folder goes into the report."""

    folder: Path
    tests: dict[str, Json]
    """Name of the file -> its document."""
    fixtures: dict[str, Json]
    """Name of a container, or of what belongs to the whole run -> its document."""
    files: tuple[str, ...] = ()
    """Attachments, and what stands beside the results."""
    left_out: tuple[str, ...] = ()
    """What does not, and why: a line each."""
    notes: tuple[str, ...] = ()
    """What else is to be known of the choice: a line each."""
    run: str = ""
    """The id of the last run; empty when it cannot be told."""


def read_results(folder: Path, *, all_runs: bool = False) -> Results:
    """Those of the last run; `all_runs`: whatever has gathered in the folder."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    wrong = {path.name: why for path in paths if (why := _problem(path))}
    names = [path.name for path in paths if path.name not in wrong and path.name != RC]
    attached = frozenset(name for name in names if _ATTACHMENT.fullmatch(name))
    strays: list[str] = []
    documents = {name: _cleaned(read_json(folder / name), name, attached, strays) for name in names if _model(name)}
    found = Results(
        folder,
        tests={name: document for name, document in documents.items() if name.endswith("-result.json")},
        fixtures={name: document for name, document in documents.items() if not name.endswith("-result.json")},
        files=tuple(name for name in names if name not in documents),
        left_out=(*(f"{name}: {why}" for name, why in wrong.items()), *strays),
    )
    choice = choose(found.tests, written_run(folder), all_runs=all_runs)
    return replace(
        found, tests=choice.tests, left_out=(*found.left_out, *choice.left_out), notes=choice.notes, run=choice.run
    )


def _model(name: str) -> type[Part] | None:
    return next((model for end, model in _MODELS.items() if name.endswith(end)), None)


def _problem(path: Path) -> str:
    """Why a file does not go into the report; empty for one that does."""
    if path.is_symlink() or not path.is_file():
        return "a link to somewhere else" if path.is_symlink() else "not a file"
    if path.name == RC:
        return "" if _is_ours(path) else "a program, which is not run; a project's own stands in its folder"
    if model := _model(path.name):
        return _unreadable(path, model)
    if path.name in ("executor.json", "categories.json"):
        return _unreadable(path, None)
    return "" if path.name == ENVIRONMENT or _ATTACHMENT.fullmatch(path.name) else "not written by Allure"


def _unreadable(path: Path, model: type[Part] | None) -> str:
    try:
        document = read_json(path)
        if model is not None:
            model.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        return f"not what Allure writes: {'.'.join(map(str, first['loc'])) or 'the document'}: {first['msg']}"
    except (OSError, ValueError, RecursionError) as error:
        return f"not JSON, maybe half-written: {error}"
    return ""


def _is_ours(path: Path) -> bool:
    try:
        return path.read_text("utf-8").startswith(OURS)
    except (OSError, ValueError):
        return False


def _cleaned(document: Json, file: str, attached: frozenset[str], strays: list[str]) -> Json:
    """The document without attachments that are not there, and without links that are no web addresses."""

    def kept(part: Json) -> Json:
        own = part.get("attachments") or ()
        gone = [each for each in own if each["source"] not in attached]
        strays.extend(f"{file}: attachment {each.get('name')!r}, {each['source']!r}, is not there" for each in gone)
        parts = {key: [kept(each) for each in part.get(key) or ()] for key in _BELOW if part.get(key)}
        return {**part, **parts, "attachments": [each for each in own if each["source"] in attached]}

    links = [link for link in document.get("links") or () if link["url"].startswith(("http://", "https://"))]
    return {**kept(document), "links": links}


def attachments_of(part: Json) -> Iterator[Json]:
    """Of a result, a container or a step, and of the steps below it."""
    yield from part.get("attachments") or ()
    for key in _BELOW:
        for step in part.get(key) or ():
            yield from attachments_of(step)


def used_files(results: Results) -> Iterator[str]:
    """The files that the chosen results need: attachments of other runs are not copied."""
    documents = (*results.tests.values(), *results.fixtures.values())
    used = {each["source"] for document in documents for each in attachments_of(document)}
    yield from (name for name in results.files if name in used or name in BESIDE)
