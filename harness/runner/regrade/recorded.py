"""One task as a run has left it: how it ended, the criteria that ran, and what there is to judge others by."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from harness.criteria.values import moment_in
from harness.model.ports import Json
from harness.reporting.grading import PAGE_STATE, UNMET
from harness.reporting.redaction import MARK
from harness.runner.regrade.page import RecordedPage, UndecidedError, recorded_page

# Reads JSON that nobody vouches for: bounded in size and depth, and every refusal has a reason.

LARGEST = 32 * 1024 * 1024
DEEPEST = 100


class UnusableEvidenceError(ValueError):
    """A directory, or a file in it, that nothing can be judged by; the message says why."""


def document(path: Path) -> Json:
    """Raises UnusableEvidenceError."""
    if path.is_symlink() or not path.is_file():
        raise UnusableEvidenceError(f"{path.name} is not there")
    if path.stat().st_size > LARGEST:
        raise UnusableEvidenceError(f"{path.name} is larger than {LARGEST // 1024 // 1024} MiB")
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnusableEvidenceError(f"{path.name} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise UnusableEvidenceError(f"{path.name} is no JSON: half-written, or not ours") from None
    except (RecursionError, ValueError):  # a number of too many digits
        raise UnusableEvidenceError(f"{path.name} is nested too deeply, or holds too long a number") from None
    if _deeper(found, DEEPEST):
        raise UnusableEvidenceError(f"{path.name} is nested more than {DEEPEST} deep")
    return found


def table(path: Path) -> dict[str, Json]:
    """A document that is an object. Raises UnusableEvidenceError."""
    found = document(path)
    if not isinstance(found, dict):
        raise UnusableEvidenceError(f"{path.name} is not an object")
    return found


def _deeper(value: Json, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            item
            for each in level
            if isinstance(each, dict | list)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


# Where there is evidence below a folder.

MARKS = ("manifest.json", "error_report.json")
DEEPEST_FOLDER = 6


def evidence_folders(place: Path) -> Iterator[Path]:
    """The directories below that are, or look like, one task's; itself, when it is one. Links are not followed.

    A folder of files directly in `place` looks like one: what it is worth is seen when it is read.
    """
    for here, folders, files in os.walk(place):
        path = Path(here)
        depth = len(path.relative_to(place).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and depth < DEEPEST_FOLDER)
        seen = [name for name in files if not name.startswith(".")]
        if any(mark in seen for mark in MARKS):
            folders.clear()
            yield path
        elif seen and not folders and depth == 1:
            yield path


# What was recorded, where criteria read from it (criteria.Sources).


@dataclass(frozen=True, slots=True)
class RecordedSources:
    """Each part is what was recorded, or a text that says why it is not known."""

    recorded_page: RecordedPage | str
    entries: Mapping[str, Json] | str
    channels: Mapping[str, Json] | str
    at: datetime | None
    """The world's time; known to a second or two."""
    url: str | None = None
    """Known also of a page that did not answer."""

    async def page(self, function: str, selector: str | None, name: str | None) -> Json:
        if not isinstance(self.recorded_page, str):
            return self.recorded_page.read(function, selector, name)
        if function == "url" and self.url is not None:
            return self.url
        raise UndecidedError(f"the page was not recorded: {self.recorded_page}")

    async def memory(self) -> Mapping[str, Json]:
        if isinstance(self.entries, str):
            raise UndecidedError(f"memory was not recorded: {self.entries}")
        return self.entries

    async def channel(self, name: str) -> Json:
        if isinstance(self.channels, str):
            raise UndecidedError(f"the environment was not recorded: {self.channels}")
        if name not in self.channels:
            told = self.channels.get("error")
            raise UndecidedError(f"channel `{name}` was not recorded" + (f": {told}" if isinstance(told, str) else ""))
        document = self.channels[name]
        if isinstance(document, dict) and document.keys() == {"error"}:
            raise UndecidedError(f"channel `{name}` could not be read then: {document['error']}")
        return document

    def now(self) -> datetime:
        if self.at is None:
            raise UndecidedError("the time was not recorded")
        return self.at

    def later(self, seconds: float) -> RecordedSources:
        """The same, at another time."""
        return replace(self, at=self.at and self.at + timedelta(seconds=seconds))


def redacted(value: Json) -> bool:
    """Whether anything in it, names included, is redacted."""
    return any(MARK in text for text in _texts(value))


def redacted_names(value: Json) -> bool:
    """Whether the name of anything in it is redacted, so that a path may miss what is there."""
    return any(MARK in text for text in _texts(value, values=False))


def _texts(value: Json, *, values: bool = True) -> Iterator[str]:
    """Without recursion: a document may be nested deeper than Python's stack is."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text) if values:
                yield text
            case dict(items):
                yield from map(str, items)
                waiting += items.values()
            case list(items):
                waiting += items
            case _:
                pass


OLDER = "the evidence is of an older version"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one directory of evidence says."""

    folder: Path
    task_id: str
    key: str
    run: str
    source: str
    passed: bool
    expected: bool
    """It failed, and its file declared that."""
    code: str | None
    ended: str
    """Where it ended before its criteria were judged, as a part of a sentence; empty: they were."""
    ran: Mapping[str, bool | None] | None
    """The criteria that ran, as the file had them, and whether each held; None: not known."""
    relaxed: tuple[str, ...]
    score: float | None
    attempts: Mapping[str, int] | None
    """`planned`, `made`, `passed`."""
    alternative: str | None
    """The task that passed in its place."""
    sources: RecordedSources
    partial: bool = False
    """It ended as `partial_success`."""
    unexpected: bool = False
    """It ended well, and its file declared otherwise."""

    @property
    def before(self) -> bool:
        """Whether it counted as passed in its run."""
        return (self.passed and not self.unexpected) or self.expected


def recorded(folder: Path) -> Recorded:
    """Raises UnusableEvidenceError for a directory that is stale, half-written or somebody else's."""
    manifest = table(folder / "manifest.json")
    task_id = manifest.get("task_id")
    state = manifest.get("final_state")
    if not isinstance(task_id, str) or state not in ("completed", "partial_success", "failed", "aborted"):
        raise UnusableEvidenceError("manifest.json is not one of ours: it has no task_id or final_state")
    passed = state in ("completed", "partial_success")
    report = {} if passed else table(folder / "error_report.json")
    grading = manifest.get("grading")
    grading = grading if isinstance(grading, dict) else {}
    code = report.get("code")
    return Recorded(
        folder=folder,
        task_id=task_id,
        key=_text(manifest.get("key")) or folder.name,
        run=_text(manifest.get("run")),
        source=_text(manifest.get("source")),
        passed=passed,
        partial=state == "partial_success",
        expected=manifest.get("expected") is True,
        unexpected=manifest.get("unexpected") is True,
        code=code if isinstance(code, str) else None,
        ended="" if passed or code == UNMET else _ended(report),
        ran=_ran(grading.get("success_criteria")),
        relaxed=tuple(_ran(grading.get("relaxed_success_criteria")) or ()),
        score=_number(grading.get("score")),
        attempts=_attempts(grading.get("attempts")),
        alternative=_text(grading.get("alternative")) or None,
        sources=_sources(folder, manifest, report, grading),
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _ended(report: Mapping[str, Json]) -> str:
    index, code = report.get("step_index"), report.get("code", "UNKNOWN")
    metrics = report.get("metrics")
    steps = metrics.get("steps_total") if isinstance(metrics, dict) else None
    if not isinstance(index, int) or index < 0:
        return f"before its first step ({code})"
    return f"{'after its last step' if index == steps else f'in step {index}'} ({code})"


def _ran(found: Json) -> dict[str, bool | None] | None:
    if not isinstance(found, list):
        return None
    entries = (each for each in found if isinstance(each, dict) and isinstance(each.get("text"), str))
    return {each["text"]: each["held"] if isinstance(each.get("held"), bool) else None for each in entries}


def _attempts(found: Json) -> dict[str, int] | None:
    names = ("planned", "made", "passed")
    if not isinstance(found, dict) or any(type(found.get(name)) is not int for name in names):
        return None
    return {name: found[name] for name in names}


def _sources(
    folder: Path, manifest: Mapping[str, Json], report: Mapping[str, Json], grading: Mapping[str, Json]
) -> RecordedSources:
    memory = _snapshot(folder / "memory_snapshot.json", manifest)
    context = report.get("context")
    url = grading.get("url") or (context.get("url") if isinstance(context, dict) else None)
    return RecordedSources(
        recorded_page=_page(folder, grading),
        entries=memory if isinstance(memory, str) else _values(memory),
        channels=_snapshot(folder / "env_snapshot.json", manifest),
        at=moment_in(grading.get("world_time")),
        url=url if isinstance(url, str) else None,
    )


def _snapshot(path: Path, manifest: Mapping[str, Json]) -> dict[str, Json] | str:
    """The document, or why it is not known."""
    try:
        return table(path)
    except UnusableEvidenceError as error:
        entries: Any = manifest.get("artifacts")
        known = entries if isinstance(entries, list) else []
        why = (e.get("reason") for e in known if isinstance(e, dict) and e.get("name") == path.name)
        reason = next(why, None)
        return f"{error}" + (f" ({reason})" if isinstance(reason, str) else "")


def _values(entries: Mapping[str, Json]) -> dict[str, Json]:
    """MemoryKV entries by key."""
    return {key: entry["value"] for key, entry in entries.items() if isinstance(entry, dict) and "value" in entry}


def _page(folder: Path, grading: Mapping[str, Json]) -> RecordedPage | str:
    told = grading.get("page")
    if told is None:
        return OLDER
    if told != PAGE_STATE:
        return _text(told) or OLDER
    try:
        return recorded_page(document(folder / PAGE_STATE))
    except UnusableEvidenceError as error:
        return str(error)
    except ValueError as error:
        return f"{PAGE_STATE}: {error}"
