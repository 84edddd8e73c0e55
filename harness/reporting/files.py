"""Files of an artifact directory: their list (`NAMES`), manifest, copies by kind, safe names and texts."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os.path import relpath
from pathlib import Path
from typing import Any, Literal

from harness.model.ports import Item, Json
from harness.model.report import ErrorReport
from harness.reporting.redact_files import inert, redact_har, redact_trace
from harness.reporting.redaction import Redactor
from harness.spec.names import blanked

KEPT_FOLDERS = ("downloads", "files", "screenshots")
"""The folders of a scratch folder where a session puts what its steps keep."""

_LARGEST = 64 * 1024 * 1024
"""Bytes of a file that a step kept; a larger one is not copied, since it could not be redacted in memory."""

UNREADABLE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, EOFError,
    NotImplementedError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What a broken file can raise while it is redacted: then it is left out, never kept unredacted."""

_VIEWED = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".webm")


def redacted_copy(source: Path, target: Path, redactor: Redactor) -> None:
    """One file by its kind. Raises one of `UNREADABLE` for a broken one."""
    match source.suffix.lower():
        case ".html" | ".htm":
            write_text(target, redactor.text(inert(source.read_text("utf-8", "replace"))))
        case ".har":
            write_json(target, redact_har(json.loads(source.read_text("utf-8")), redactor))
        case ".zip" if source.name == "trace.zip":
            redact_trace(source, target, redactor)
        case suffix if suffix in _VIEWED:
            shutil.copyfile(source, target)
        case ".json":
            write_json(target, redactor.json(json.loads(source.read_text("utf-8"))))
        case _:
            target.write_bytes(redactor.data(source.read_bytes()))


def copy_files(scratch: Path, target: Path, redactor: Redactor) -> list[ManifestEntry]:
    """Named screenshots and downloads: what lies in these folders of the scratch folder."""
    return [_copied(scratch, source, target, redactor) for source in sorted(_kept(scratch))]


def copy_trace(scratch: Path, target: Path, redactor: Redactor) -> None:
    """The trace of a task that passed, where `--tracing on` left one; a broken one is left out."""
    source, path = scratch / "trace.zip", target / "trace.zip"
    if source.is_file():
        try:
            redact_trace(source, path, redactor)
        except UNREADABLE:
            path.unlink(missing_ok=True)


def _kept(scratch: Path) -> Iterator[Path]:
    """Links are left out: they could lead to anywhere."""
    for name in KEPT_FOLDERS:
        for folder, folders, names in os.walk(scratch / name):
            folders[:] = [name for name in folders if not name.startswith(".")]
            paths = (Path(folder, name) for name in names if not name.startswith("."))
            yield from (path for path in paths if not path.is_symlink() and inside(scratch, path))


def _copied(scratch: Path, source: Path, target: Path, redactor: Redactor) -> ManifestEntry:
    parts = source.relative_to(scratch).parts
    name = Path(*(parts[1:] if parts[0] == "files" else parts))
    if source.stat().st_size > _LARGEST:
        return ManifestEntry(str(name), "missed", f"larger than {_LARGEST} bytes")
    path = target / redactor.text(str(name)).replace("\\", "_")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _file_copy(source, path, redactor, pictured=parts[0] == "screenshots")
    except UNREADABLE as error:
        path.unlink(missing_ok=True)
        return ManifestEntry(str(name), "missed", f"could not be redacted: {type(error).__name__}: {error}")
    return ManifestEntry(str(name), "taken", bytes=path.stat().st_size)


def _file_copy(source: Path, target: Path, redactor: Redactor, *, pictured: bool) -> None:
    """A download stays as the site gave it, but for the secrets. `pictured`: the browser itself took the picture."""
    if source.suffix.lower() == ".har":
        redacted_copy(source, target, redactor)
    elif pictured and source.suffix.lower() in _VIEWED:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(redactor.data(source.read_bytes()))


# Reads and writes JSON files; a written file is there whole or not at all.


def write_json(path: Path, document: Json) -> None:
    """Indented, UTF-8; what JSON has no word for becomes text."""
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """By a temporary file beside it and a rename. Lone surrogates become `?`. OSError, which names the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text.encode("utf-8", "replace"))
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names none


def read_json(path: Path) -> Json:
    """OSError when it cannot be read, ValueError when it is not JSON."""
    try:
        return json.loads(read_regular(path).decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply") from error


def read_regular(path: Path) -> bytes:
    """Of a file that may come from elsewhere: a pipe or a device would never end. OSError when it cannot be read."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()


# The log of a job on GitHub, where a line can be a command: text of pages, tasks and files gives none.

_NOTHING = "\u200b"
"""A blank without width."""
_COMMAND = re.compile(r"((?:^|\r)[^\S\n]*:)(?=:)", re.MULTILINE)
"""`::error::`, at the beginning of a line or behind blanks."""
_OLD_COMMAND = re.compile(r"##(?=\[)")
"""`##[error]`, anywhere."""


def commandless(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text, which looks the same and commands nothing; as it is where no GitHub runner reads it."""
    if not environment.get("GITHUB_ACTIONS"):
        return text
    return _OLD_COMMAND.sub(f"##{_NOTHING}", _COMMAND.sub(rf"\1{_NOTHING}", text))


# manifest.json: each artifact taken, skipped or missed, why, and when (docs/design/evidence.md).

MANIFEST = "manifest.json"
TRACE_MIME = "application/vnd.allure.playwright-trace"
IN_FULL = "Playwright trace of the second run, in full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """One file of the folder of a failed task, and what is to be known of it wherever artifacts are listed."""

    name: str
    origin: Literal["report", "state", "browser", "beside"]
    """Written whenever a task fails; of memory and environment; of its page; or beside what the manifest lists."""
    title: str
    """How an attachment of a report names it."""
    mime: str
    extension: str
    opened_elsewhere: bool = False
    """In a program of its own: people look at it last."""
    at_the_step: bool = False
    """Whether a report shows it at the failing step too."""
    hint_words: str = ""
    """How hints of the catalog call it, which are left out where it is missing; empty: its hints are always shown."""
    functions: frozenset[str] = frozenset()
    """Functions of criteria that read what it shows: of one of them that does not hold it is looked at first."""


ARTIFACTS = (
    Artifact(
        name="error_report.json", origin="report", title="error report", mime="application/json", extension="json"
    ),
    Artifact(
        name="screenshot.png",
        origin="browser",
        title="screenshot",
        mime="image/png",
        extension="png",
        at_the_step=True,
        hint_words="screenshot",
    ),
    Artifact(
        name="trace.zip",
        origin="browser",
        title="Playwright trace",
        mime=TRACE_MIME,
        extension="zip",
        opened_elsewhere=True,
    ),
    Artifact(name="trace_full.zip", origin="beside", title=IN_FULL, mime=TRACE_MIME, extension="zip"),
    Artifact(
        name="dom_snapshot.html",
        origin="browser",
        title="DOM snapshot",
        mime="text/html",
        extension="html",
        hint_words="dom_snapshot.html",
    ),
    Artifact(
        name="memory_snapshot.json",
        origin="state",
        title="memory",
        mime="application/json",
        extension="json",
        functions=frozenset({"mem", "time_since", "time_until"}),
    ),
    Artifact(
        name="env_snapshot.json",
        origin="state",
        title="environment",
        mime="application/json",
        extension="json",
        hint_words="env_snapshot.json",
        functions=frozenset({"json"}),
    ),
    Artifact(
        name="console_logs.txt",
        origin="browser",
        title="console",
        mime="text/plain",
        extension="txt",
        hint_words="console log",
    ),
    Artifact(
        name="network_logs.har",
        origin="browser",
        title="network (HAR)",
        mime="application/json",
        extension="json",
        hint_words="network log",
    ),
    Artifact(name="partial_trace.json", origin="report", title="step trace", mime="application/json", extension="json"),
    Artifact(name=MANIFEST, origin="beside", title="manifest", mime="application/json", extension="json"),
)
"""All of them, what explains most first. Every other list of artifacts is made from this one."""

NAMES = tuple(
    each.name for each in sorted(ARTIFACTS, key=lambda artifact: artifact.opened_elsewhere) if each.origin != "beside"
)
"""Those that the manifest lists, in the order in which people look at them."""


def names_of(origin: Literal["report", "state", "browser"]) -> tuple[str, ...]:
    """Those of `NAMES` that come from there."""
    found = {each.name for each in ARTIFACTS if each.origin == origin}
    return tuple(name for name in NAMES if name in found)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """What became of one artifact."""

    name: str
    status: Literal["taken", "skipped", "missed"]
    reason: str = ""
    """Why not; of one that was taken: what is special about it."""
    seconds: float = 0.0
    """How long it took, redaction included."""
    bytes: int = 0
    at: datetime | None = None
    """When it was taken, or tried; None: it never was."""

    def as_json(self) -> dict[str, Json]:
        found = {"name": self.name, "status": self.status, "seconds": round(self.seconds, 3), "bytes": self.bytes}
        when = {"at": self.at.astimezone(UTC).isoformat().replace("+00:00", "Z")} if self.at else {}
        return found | when | ({"reason": self.reason} if self.reason else {})


def taken(path: Path, seconds: float, item: Item | None = None) -> ManifestEntry:
    """A file that is there. `item`: what the evidence says of it; without one it was made as it was written."""
    state = path.stat()
    spent, reason, at = (item.seconds, item.reason, item.at) if item else (0.0, "", None)
    at = at or datetime.fromtimestamp(state.st_mtime, UTC)
    return ManifestEntry(path.name, "taken", reason, spent + seconds, state.st_size, at)


def absent(name: str, item: Item | None, why: str) -> ManifestEntry:
    """An artifact that is not there, with the reason the evidence gives; `why` where it names none."""
    if item is None:
        return ManifestEntry(name, "missed", why)
    if item.status == "taken":
        return ManifestEntry(name, "missed", "said to be taken, but its file is not there", item.seconds, at=item.at)
    return ManifestEntry(name, item.status, item.reason or "no reason known", item.seconds, at=item.at)


def manifest(
    report: ErrorReport, key: str, run: str, entries: Sequence[ManifestEntry], files: Sequence[ManifestEntry]
) -> dict[str, Json]:
    """The document; `run` is the run that wrote the directory."""
    order = {name: place for place, name in enumerate(NAMES)}
    return {
        "task_id": report.task_id,
        "key": key,
        "run": run,
        "source": report.source,
        "final_state": report.final_state,
        "code": report.code,
        "expected": report.expected,
        "artifacts": [entry.as_json() for entry in sorted(entries, key=lambda entry: order[entry.name])],
        "files": [entry.as_json() for entry in files],
    }


# What `harness merge` adds to a manifest.json: of which merged run the directory is now (`run` stays who wrote it).

_KEY = "merged"


def mark(folder: Path, run: str, *, counts: bool) -> None:
    """`counts`: false for an execution that a later one of its task has replaced. Without a manifest nothing is done.

    Raises OSError for a disk that does not take it.
    """
    file = folder / MANIFEST
    try:
        found = read_json(file)
    except (OSError, ValueError):
        return
    if isinstance(found, dict):
        write_json(file, {**found, _KEY: {"run": run, "counts": counts}})


def run_of(manifest: Mapping[str, Any]) -> str:
    """The merged run; else the one that wrote the directory."""
    return str(_mark(manifest).get("run") or manifest.get("run", "unknown"))


def counts(manifest: Mapping[str, Any]) -> bool:
    """Whether the directory is of the last execution of its task in its run."""
    return _mark(manifest).get("counts") is not False


def _mark(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    found = manifest.get(_KEY)
    return found if isinstance(found, dict) else {}


# Names of files and folders: those that come from data are never a path; how a path is shown to people.

_SAFE = re.compile(r"[A-Za-z0-9_][^/\\\x00-\x1f:*?\"<>|]*")


def safe_name(name: str) -> str:
    """The name itself. ValueError for one that is a path, hidden, empty, or too long."""
    if not _SAFE.fullmatch(name) or len(name.encode()) > 200 or name.endswith((".", " ")):
        raise ValueError(f"not a safe directory name: {name!r}")
    return name


def inside(folder: Path, path: Path) -> bool:
    """Whether a file really lies in the folder: links are followed first."""
    return path.resolve().is_relative_to(folder.resolve())


def shown_path(path: Path) -> str:
    """Relative to the current folder; absolute for a path outside of it."""
    relative = relpath(path)
    return str(path.absolute()) if Path(relative).parts[:1] == ("..",) else relative


# Text of pages, tasks and files as people may see it: nothing in it steers a terminal.


def visible(text: str) -> str:
    """Lines as they are; control characters, and those that turn writing round, become blanks."""
    return "\n".join(map(blanked, text.split("\n")))


def printable(text: str) -> str:
    """The same in one line."""
    return " ".join(visible(text).split())


# GitHub's workflow commands: `::error file=...,line=...::message`, which it shows beside the line.


def workflow_command(name: str, message: str, properties: Mapping[str, object]) -> str:
    """One line; what is empty is left out, and no text ends the command or begins another one."""
    given = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items() if value)
    return f"::{name} {given}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
