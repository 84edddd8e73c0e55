"""The files of an artifact directory: their table (`ARTIFACTS`), manifest, safe names and texts."""

from __future__ import annotations

import errno
import json
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from harness.model.ports import Item, Json
from harness.model.report import ErrorReport
from harness.resilience.replaced import replaced
from harness.spec.names import blank_unprintable, commandless

# Reads and writes JSON files; a written file is complete or absent.


def write_json(path: Path, document: Json) -> None:
    """Write indented JSON in UTF-8; values without a JSON form become texts."""
    write_text(path, json_text(document) + "\n")


def json_text(document: Json) -> str:
    """Indented JSON; values without a JSON form become texts."""
    return json.dumps(document, indent=2, ensure_ascii=False, default=str)


def write_text(path: Path, text: str | Iterable[str]) -> None:
    """Write a text, or its parts one after the other, through a temporary file and a rename.

    Lone surrogates become `?`. Raises OSError that names the file.
    """
    try:
        with replaced(path) as made, made.open("wb") as file:
            file.writelines(part.encode("utf-8", "replace") for part in ([text] if isinstance(text, str) else text))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the error of a full disk names no file


def read_json(path: Path) -> Json:
    """Parse a file. Raises OSError if it cannot be read, ValueError if it is not JSON."""
    try:
        return json.loads(read_regular(path).decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply") from error


def read_regular(path: Path) -> bytes:
    """Read a file of foreign origin: a pipe or a device would never end. Raises OSError if it cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()


# manifest.json: each artifact taken, skipped or missed, with reason and time (docs/design/evidence.md).

MANIFEST = "manifest.json"
PAGE_STATE = "page_state.json"
VIDEO = "video.webm"
VIDEOS = "video-*.webm"
"""The videos of the other pages of a task."""
TRACE_MIME = "application/vnd.allure.playwright-trace"
IN_FULL = "Playwright trace of the second run, in full"


class Artifact(Struct, frozen=True):
    """One file in the folder of a failed task, with the facts about it for every list of artifacts."""

    name: str
    origin: Literal["report", "state", "browser", "beside"]
    """Written for every failure; about memory and environment; about the page; or listed only if there is one."""
    title: str
    """The name of the attachment in a report."""
    mime: str
    extension: str
    opened_elsewhere: bool = False
    """Whether another program opens it: then people look at it last."""
    at_the_step: bool = False
    """Whether a report shows it at the failing step too."""
    hint_words: str = ""
    """The words for it in hints of the catalog, left out if it is missing; empty: its hints are always shown."""
    functions: frozenset[str] = frozenset()
    """Functions of criteria that read what it shows: if such a criterion fails, it is looked at first."""


_JSON = "application/json"
ARTIFACTS = (
    Artifact("error_report.json", "report", "error report", _JSON, "json"),
    Artifact("screenshot.png", "browser", "screenshot", "image/png", "png", at_the_step=True, hint_words="screenshot"),
    Artifact(VIDEO, "beside", "video", "video/webm", "webm"),
    Artifact("trace.zip", "browser", "Playwright trace", TRACE_MIME, "zip", opened_elsewhere=True),
    Artifact("trace_full.zip", "beside", IN_FULL, TRACE_MIME, "zip"),
    Artifact("dom_snapshot.html", "browser", "DOM snapshot", "text/html", "html", hint_words="dom_snapshot.html"),
    Artifact(
        "memory_snapshot.json", "state", "memory", _JSON, "json",
        functions=frozenset({"mem", "time_since", "time_until"}),
    ),
    Artifact(
        "env_snapshot.json", "state", "environment", _JSON, "json",
        hint_words="env_snapshot.json", functions=frozenset({"json"}),
    ),
    Artifact("console_logs.txt", "browser", "console", "text/plain", "txt", hint_words="console log"),
    Artifact("network_logs.har", "browser", "network (HAR)", _JSON, "json", hint_words="network log"),
    Artifact("partial_trace.json", "report", "step trace", _JSON, "json"),
    Artifact("trajectory.jsonl", "beside", "agent trajectory", "text/plain", "jsonl"),
    Artifact(MANIFEST, "beside", "manifest", _JSON, "json"),
)  # fmt: skip
"""All artifacts of a failure, the most helpful first. Every other list of them is made from this one.

`page_state.json` is the evidence for `harness regrade`.
"""

NAMES = tuple(
    each.name for each in sorted(ARTIFACTS, key=lambda artifact: artifact.opened_elsewhere) if each.origin != "beside"
)
"""The artifacts in the manifest, in the order in which people look at them."""


def names_of(origin: Literal["report", "state", "browser"]) -> tuple[str, ...]:
    """The names in `NAMES` with that origin."""
    found = {each.name for each in ARTIFACTS if each.origin == origin}
    return tuple(name for name in NAMES if name in found)


class ManifestEntry(Struct, frozen=True):
    """The result for one artifact."""

    name: str
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    """Why it is absent; for an artifact that was taken: a remark about it."""
    seconds: float = 0.0
    """Seconds that it took, redaction included."""
    bytes: int = 0
    at: datetime | None = None
    """The time when it was taken, or tried; None: never."""

    def as_json(self) -> dict[str, Json]:
        found = {"name": self.name, "status": self.status, "seconds": round(self.seconds, 3), "bytes": self.bytes}
        when = {"at": self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")} if self.at else {}
        return found | when | ({"reason": self.reason} if self.reason else {})


def taken_entry(path: Path, seconds: float, item: Item | None = None) -> ManifestEntry:
    """The entry of an existing file. `item`: the evidence about it; without one it was made as it was written."""
    state = path.stat()
    spent, reason, at = (item.seconds, item.reason, item.at) if item else (0.0, "", None)
    at = at or datetime.fromtimestamp(state.st_mtime, UTC)
    return ManifestEntry(path.name, "taken", reason, spent + seconds, state.st_size, at)


def absent_entry(name: str, item: Item | None, why: str) -> ManifestEntry:
    """The entry of a missing artifact, with the reason from the evidence, or else `why`."""
    if item is None:
        return ManifestEntry(name, "missed", why)
    if item.status == "taken":
        return ManifestEntry(
            name, "missed", "the manifest says that it was taken, but the file is missing", item.seconds, at=item.at
        )
    return ManifestEntry(name, item.status, item.reason or "no reason known", item.seconds, at=item.at)


def manifest(
    report: ErrorReport, key: str, run: str, entries: Sequence[ManifestEntry], files: Sequence[ManifestEntry]
) -> dict[str, Json]:
    """The manifest; `run` is the run that wrote the directory."""
    order = {name: place for place, name in enumerate(NAMES)}
    return {
        "task_id": report.task_id,
        "key": key,
        "run": run,
        "source": report.source,
        "final_state": report.final_state,
        "code": report.code,
        "expected": report.expected,
        "artifacts": [
            entry.as_json() for entry in sorted(entries, key=lambda entry: order.get(entry.name, len(order)))
        ],
        "files": [entry.as_json() for entry in files],
    }


# The entry that `harness merge` adds to a manifest.json: the merged run of the directory (`run` is who wrote it).

_KEY = "merged"


def mark(folder: Path, run: str, *, counts: bool) -> None:
    """Mark a directory as part of a merged run. `counts`: False for an execution that a later one of its task replaced.

    Without a manifest it does nothing. Raises OSError if the disk does not allow it.
    """
    file = folder / MANIFEST
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return
    if isinstance(found, dict):
        write_json(file, {**found, _KEY: {"run": run, "counts": counts}})


def run_of(manifest: Mapping[str, Any]) -> str:
    """The merged run; else the run that wrote the directory."""
    return str(_mark(manifest).get("run") or manifest.get("run", "unknown"))


def counts(manifest: Mapping[str, Any]) -> bool:
    """Return whether the directory belongs to the last execution of its task in its run."""
    return _mark(manifest).get("counts") is not False


def _mark(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = manifest.get(_KEY)
    return found if isinstance(found, dict) else {}


# Names of files and folders: a name from data is never a path; a path as people see it.

_SAFE = re.compile(r"[A-Za-z0-9_][^/\\\x00-\x1f:*?\"<>|]*")


def safe_name(name: str) -> str:
    """Return the name. Raises ValueError for one that is a path, hidden, empty, or too long."""
    if not _SAFE.fullmatch(name) or len(name.encode()) > 200 or name.endswith((".", " ")):
        raise ValueError(f"not a safe directory name: {name!r}")
    return name


def is_inside(folder: Path, path: Path) -> bool:
    """Return whether a file really lies in the folder: links are followed first."""
    return path.resolve().is_relative_to(folder.resolve())


def shown_path(path: Path) -> str:
    """A path relative to the current folder; absolute for a path outside of it."""
    relative = relpath(path)
    return str(path.absolute()) if Path(relative).parts[:1] == ("..",) else relative


# Text of pages, tasks and files as people may see it: nothing in it steers a terminal.


def visible(text: str) -> str:
    """The text with spaces for control characters and those that change the direction of writing; lines stay."""
    return "\n".join(map(blank_unprintable, text.split("\n")))


def printable(text: str) -> str:
    """The same in one line."""
    return " ".join(visible(text).split())


_UNTOLD = re.compile(r"\[(?:STARTGROUP(?:COLLAPSED)?|ENDGROUP|TABLE|CLEAR|DIRXML|PROFILE(?:END)?)\] ")


def told_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a browser's console that tell something: not those that group or draw, which the files have."""
    return (line for line in lines if not _UNTOLD.match(line))


# GitHub's workflow commands: `::error file=...,line=...::message`, which it shows next to the line.


def workflow_command(name: str, message: str, properties: Mapping[str, object]) -> str:
    """A workflow command in one line, without empty properties; no text can end the command or begin another."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{name} {commandless(given)}::{_data(commandless(message))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
