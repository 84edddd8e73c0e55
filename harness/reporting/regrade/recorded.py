"""One task as a run has left it: how it ended, the criteria that ran, and the evidence to judge others by."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Struct
from pydantic import BaseModel, TypeAdapter, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from harness.criteria import PageQuery
from harness.criteria.syntax import ACCESSIBLE, STATES, STORED, Happened
from harness.criteria.values import moment_in
from harness.model.ports import Json
from harness.model.report import ErrorReport
from harness.reporting.archive import UNMET
from harness.reporting.files import MANIFEST, PAGE_STATE
from harness.spec.task import FinalState

T = TypeVar("T")

# Reads the files like files of a stranger: bounded in size and depth, with a reason for every refusal.

LARGEST = 32 * 1024 * 1024
_REPORT = "error_report.json"


class UnusableEvidenceError(ValueError):
    """The directory, or a file in it, is no evidence to judge by; the message gives the reason."""


def document(path: Path, of: type[T]) -> T:
    """Load a document. Raises UnusableEvidenceError."""
    if path.is_symlink() or not path.is_file():
        raise UnusableEvidenceError(f"{path.name} was not found")
    if path.stat().st_size > LARGEST:
        raise UnusableEvidenceError(f"{path.name} is larger than {LARGEST // 1024 // 1024} MiB")
    try:
        return TypeAdapter(of).validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise UnusableEvidenceError(f"{path.name} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        why = ": ".join(map(str, (*first["loc"], first["msg"])))
        raise UnusableEvidenceError(f"{path.name} is not as this version writes it: {why}") from None


def _or_none(value: Any, validated: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validated(value)
    except ValidationError:
        return None


_Lenient = WrapValidator(_or_none)
"""A value of another type, because it was redacted, counts as unknown."""


class _Ran(BaseModel):
    text: str
    held: bool | None


class _Grading(BaseModel):
    """The part of the manifest that the archive writes."""

    world_time: str | None = None
    url: str | None = None
    page: str = "the evidence is from an older version"
    success_criteria: tuple[_Ran, ...] | None = None
    score: Annotated[float | None, _Lenient] = None
    attempts: Annotated[dict[str, int] | None, _Lenient] = None
    alternative: str | None = None
    locale: str | None = None
    generated: dict[str, Any] = {}
    skipped: bool = False


class Manifest(BaseModel):
    """The part of `manifest.json` that regrading reads."""

    task_id: str
    final_state: FinalState
    key: str = ""
    run: str = ""
    source: str = ""
    expected: bool = False
    """It failed, and its file declares that."""
    unexpected: bool = False
    """It passed, and its file declares another end."""
    grading: _Grading = _Grading()
    artifacts: tuple[dict[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        return self.final_state in ("completed", "partial_success")


# The sources of criteria (criteria.Sources).


class UndecidedError(Exception):
    """The evidence does not contain the requested value; the message gives the reason, as part of a sentence."""


class _Element(BaseModel):
    """The elements that a selector matched when the task ended: their number, and the first of them.

    `text` is that of the first one that was displayed.
    """

    selector: str
    frame: str | None
    count: int
    visible: bool
    text: str | None
    text_content: str | None
    value: str | None
    attributes: dict[str, str]
    texts: list[str] = []
    states: dict[str, bool] | None = None

    def read(self, function: str, name: str | None) -> Json:
        """Evaluate a page function. Raises UndecidedError if the meaning of the name depends on the page."""
        if function in STATES:
            return None if self.states is None else self.states[function]
        if function == "class":
            return self.attributes.get("class", "").split()
        if function == "css" or function in ACCESSIBLE:
            what = "computed style" if function == "css" else function.replace("_", " ")
            raise UndecidedError(f"the {what} was not recorded")
        if name is None:
            return self.count > 0 if function == "exists" else getattr(self, function)
        if self.count and name not in self.attributes and name != name.lower():
            raise UndecidedError(f"it depends on the page whether capital letters count in the attribute name {name}")
        return self.attributes.get(name)


class RecordedPage(BaseModel):
    """`page_state.json`."""

    version: Literal[3]
    url: str
    title: str
    elements: tuple[_Element, ...]


class RecordedSources(Struct, frozen=True):
    """The state in which a task ended. Each part is what was recorded, or a text with the reason why it is unknown."""

    recorded_page: RecordedPage | str
    entries: Mapping[str, Json] | str
    channels: Mapping[str, Json] | str
    at: datetime | None
    """The world's time."""
    url: str | None = None
    """The URL; it is known even if the page did not answer."""
    locale: str | None = None
    """The locale of the browser context."""

    async def page(self, query: PageQuery, until: float) -> Json:  # noqa: ARG002 (what is recorded answers at once)
        page, (function, selector, name, frame, user) = self.recorded_page, query
        if user is not None:
            raise UndecidedError(f"the page of {user} was not recorded for this")
        if isinstance(page, str):
            if function == "url" and self.url is not None:
                return self.url
            raise UndecidedError(f"the page was not recorded: {page}")
        if function in STORED:
            raise UndecidedError(f"the {function.replace('_', ' ')} was not recorded")
        if selector is None:
            return page.url if function == "url" else page.title
        element = next((each for each in page.elements if (each.selector, each.frame) == (selector, frame)), None)
        if element is None:
            where = selector if frame is None else f"{selector} in the frame {frame}"
            raise UndecidedError(f"{where} was not recorded, because no criterion of the run looked at it")
        return element.read(function, name)

    async def memory(self) -> Mapping[str, Json]:
        if isinstance(self.entries, str):
            raise UndecidedError(f"memory was not recorded: {self.entries}")
        return self.entries

    async def channel(self, name: str) -> Json:
        if isinstance(self.channels, str):
            raise UndecidedError(f"the environment was not recorded: {self.channels}")
        found = self.channels.get(name, {"error": self.channels.get("error", "it was not recorded")})
        if isinstance(found, dict) and found.keys() == {"error"}:
            raise UndecidedError(f"channel `{name}` could not be read in the run: {found['error']}")
        return found

    async def happened(self, function: str, pattern: str, until: float) -> Happened:  # noqa: ARG002 (as `page`)
        what = f"the {function} that match {pattern}" if pattern else f"the {function} of the pages"
        raise UndecidedError(f"{what} are not part of the evidence that is judged")

    async def result(self) -> Json:
        raise UndecidedError("the answer of a step belongs to it, and is not part of the evidence that is judged")

    def of(self, user: str) -> RecordedSources:  # noqa: ARG002 (`page` refuses it)
        return self

    def now(self) -> datetime:
        if self.at is None:
            raise UndecidedError("the time was not recorded")
        return self.at


# One directory of evidence, and the search for such directories.


class Recorded(Struct, frozen=True):
    """The content of one directory of evidence."""

    folder: Path
    manifest: Manifest
    ended: str
    """Where the task ended before its criteria were judged, as a part of a sentence; empty if they were judged."""
    sources: RecordedSources

    @property
    def passed_before(self) -> bool:
        """Whether the task counted as passed in its run."""
        return (self.manifest.passed and not self.manifest.unexpected) or self.manifest.expected

    @property
    def ran(self) -> Mapping[str, bool | None] | None:
        """The criteria that ran, as the file had them, and whether each held; None: not known."""
        ran = self.manifest.grading.success_criteria
        return None if ran is None else {each.text: each.held for each in ran}


def recorded(folder: Path) -> Recorded:
    """Read a directory. Raises UnusableEvidenceError if it is stale, incomplete or not made by the harness."""
    manifest = document(folder / MANIFEST, Manifest)
    report = None if manifest.passed else document(folder / _REPORT, ErrorReport)
    told = manifest.grading
    memory = _snapshot(folder / "memory_snapshot.json", dict[str, dict[str, Any]], manifest)
    return Recorded(
        folder=folder,
        manifest=manifest,
        ended="" if report is None or report.code == UNMET else _ended(report),
        sources=RecordedSources(
            recorded_page=_snapshot(folder / PAGE_STATE, RecordedPage, manifest)
            if told.page == PAGE_STATE
            else told.page,
            entries=memory if isinstance(memory, str) else {key: each.get("value") for key, each in memory.items()},
            channels=_snapshot(folder / "env_snapshot.json", dict[str, Any], manifest),
            at=moment_in(told.world_time),
            url=told.url or (report.context.url if report and not report.context.user else None),
            locale=told.locale,
        ),
    )


def _ended(report: ErrorReport) -> str:
    if report.step_index < 0:
        return f"before its first step ({report.code})"
    done = report.metrics and report.metrics.steps_total + report.metrics.steps_unused
    where = "after its last step" if report.step_index == done else f"in step {report.step_number or report.step_index}"
    return f"{where} ({report.code})"


def _snapshot(path: Path, of: type[T], manifest: Manifest) -> T | str:
    """The document, or the reason why it is unknown."""
    try:
        return document(path, of)
    except UnusableEvidenceError as error:
        reason = next((each.get("reason") for each in manifest.artifacts if each.get("name") == path.name), None)
        return f"{error}" + (f" ({reason})" if reason else "")


def evidence_folders(place: Path) -> Iterator[Path]:
    """The directories of tasks below, or the place itself if it is one. Links and hidden folders are left out."""
    for here, folders, files in os.walk(place):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in files or _REPORT in files:
            folders.clear()
            yield Path(here)
