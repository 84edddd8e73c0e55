"""trace.zip of a failed task: one timeline of the whole task for Playwright's own trace viewer (decision 017).

Playwright records snapshots from the first failure of a step on, since they are costly. What came before is added from
the harness's own records: steps and attempts as actions, the requests of the HAR, the lines of the console. They are
stored next to Playwright's traces like those of its own test runner (`test.trace`), which the viewer merges by their
clocks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
import zipfile
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from harness.model.diagnosis import note
from harness.model.ports import Evidence, Json
from harness.model.record import Attempt, ConsoleLine, StepRecord, TaskResult
from harness.recovery.failure import Failure
from harness.reporting.words import place, step_target

TRACE, HAR = "trace.zip", "network_logs.har"
_VERSION = 8
"""The version of the format if Playwright has written none; every viewer since 1.54 reads it."""
_BEFORE, _CONSOLE, _EVENT = (f'{{"type":"{kind}"'.encode() for kind in ("before", "console", "event"))
_SAME = 1000.0
"""Milliseconds within which a request or line in Playwright's trace and in our records is the same one."""
_LAST_LOOK = "() => document.readyState"
_LEVELS = {"WARNING": "warning", "ERROR": "error", "INFO": "info", "DEBUG": "debug"}


class ContextTrace(Struct):
    """One of Playwright's traces, of one browser context, from the start of its recording."""

    name: str
    """`trace`, or `1-trace` for the first of several."""
    trace: bytes
    network: bytes
    options: Json = field(default_factory=dict)
    """Its first event."""

    @property
    def origin(self) -> float:
        """The zero of its monotonic clock, in milliseconds of the wall clock."""
        return float(self.options.get("wallTime", 0)) - float(self.options.get("monotonicTime", 0))


def write_whole_trace(target: Path, result: TaskResult, evidence: Evidence) -> None:
    """Join Playwright's traces in `evidence.folder`, if there are any, with our own records.

    A trace that cannot be read is left out, and the result says so. Raises OSError if nothing can be written.
    """
    problems: list[str] = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as made:
        parts = list(_parts(evidence.folder, made, problems))
        origin = parts[-1].origin if parts else _ms(result.started)
        writer = _Writer(result, origin, parts)
        har = _har(evidence.folder / HAR)
        made.writestr("test.trace", _lines(writer.trace(evidence.console, problems)))
        made.writestr("test.network", _lines(writer.network(har, made)))
        for part in parts:
            made.writestr(f"{part.name}.trace", b"\n".join(writer.nested(part)))
            made.writestr(f"{part.name}.network", part.network)


def _parts(folder: Path, made: zipfile.ZipFile, problems: list[str]) -> Iterator[ContextTrace]:
    """Playwright's traces in order; their pictures and bodies are copied into `made` at once, each once."""
    earlier = sorted(folder.glob("trace-*.zip"), key=lambda path: int(path.stem.rpartition("-")[2]))
    for number, path in enumerate((*earlier, folder / TRACE), 1):
        if path.is_file():
            try:
                yield _part("trace" if path.name == TRACE else f"{number}-trace", path, made)
            except (zipfile.BadZipFile, zlib.error, OSError, ValueError, KeyError) as error:
                problems.append(f"Playwright's own trace could not be read: {error}")


def _part(name: str, path: Path, made: zipfile.ZipFile) -> ContextTrace:
    with zipfile.ZipFile(path) as old:
        trace = old.read("trace.trace")
        network = old.read("trace.network") if "trace.network" in old.NameToInfo else b""
        part = ContextTrace(name, trace, network, json.loads(trace.partition(b"\n")[0]))
        for info in old.infolist():
            if "/" in info.filename and not info.is_dir() and info.filename not in made.NameToInfo:
                made.writestr(info.filename, old.read(info))
    return part


def _har(path: Path) -> list[Json]:
    """The HAR entries with a start time; empty if the task has no HAR."""
    try:
        return [each for each in json.loads(path.read_text("utf-8"))["log"]["entries"] if "startedDateTime" in each]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _lines(events: Iterable[Json]) -> bytes:
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events).encode()


def _ms(at: datetime) -> float:
    return at.timestamp() * 1000


class _Writer:
    """Writes the events of our own records, on the clock of Playwright's last trace."""

    def __init__(self, result: TaskResult, origin: float, parts: Sequence[ContextTrace]) -> None:
        self._result, self._origin, self._parts = result, origin, parts
        self._tries = [
            (_ms(attempt.started), _ms(attempt.started) + attempt.seconds * 1000, _call(number, record, turn))
            for number, record in enumerate(result.history)
            for turn, attempt in enumerate(record.attempts)
        ]
        self._tries.sort()

    def trace(self, console: Sequence[ConsoleLine], problems: Sequence[str]) -> Iterator[Json]:
        """The task, its steps and attempts, and the console lines from the times that Playwright did not record."""
        options = self._parts[-1].options if self._parts else {}
        began = self._tries[0][0] if self._tries else _ms(self._result.started)
        yield {
            "version": options.get("version", _VERSION), "type": "context-options", "origin": "testRunner",
            "browserName": "", "platform": options.get("platform", ""), "options": {}, "sdkLanguage": "python",
            "playwrightVersion": options.get("playwrightVersion"), "title": self._result.task_id,
            "wallTime": began, "monotonicTime": self._at(began),
        }  # fmt: skip
        for number, record in enumerate(self._result.history):
            yield from self._step(number, record)
        yield from self._console(console)
        failure = self._result.failure
        for message in ([f"{failure.code}: {failure.message}"] if failure else []) + list(problems):
            yield {"type": "error", "message": message}

    def _at(self, wall: float) -> float:
        return round(wall - self._origin, 3)

    def _place(self, index: int) -> str:
        return place(index, self._result.steps_total, self._result.step_numbers.get(index, ""))

    def _step(self, number: int, record: StepRecord) -> Iterator[Json]:
        if not record.attempts:
            return
        first, last = record.attempts[0], record.attempts[-1]
        whole, title = _call(number), f"{self._place(record.index)}  {_title(first)}"
        yield self._before(whole, title, first)
        if len(record.attempts) > 1:
            for turn, attempt in enumerate(record.attempts):
                yield self._before(_call(number, record, turn), note(attempt, record.step), attempt, whole)
                yield self._after(_call(number, record, turn), attempt)
        yield self._after(whole, last)

    def _before(self, call: str, title: str, attempt: Attempt, parent: str | None = None) -> Json:
        """The event at the start of an attempt. The redaction finds typed passwords by its method and selector."""
        step = attempt.step.model_dump(mode="json", exclude_defaults=True, exclude={"t"})
        event = {
            "type": "before", "callId": call, "startTime": self._at(_ms(attempt.started)), "title": title,
            "class": "Test", "method": attempt.step.act, "params": step, "stack": [],
        }  # fmt: skip
        return event | ({"parentId": parent} if parent else {})

    def _after(self, call: str, attempt: Attempt) -> Json:
        event = {"type": "after", "callId": call, "endTime": self._at(_ms(attempt.started) + attempt.seconds * 1000)}
        failed = attempt.outcome
        if isinstance(failed, Failure):
            event["error"] = {"name": failed.code, "message": failed.message}
        return event

    def _console(self, console: Sequence[ConsoleLine]) -> Iterator[Json]:
        heard = [each for part in self._parts for each in _console_entries(part)]
        for line in console:
            at = _ms(line.at)
            if not any(text in line.text and abs(at - when) < _SAME for text, when in heard):
                yield {
                    "type": "console", "messageType": _LEVELS.get(line.level, "log"), "text": line.text, "args": [],
                    "location": _location(line.place), "time": self._at(at),
                }  # fmt: skip

    def network(self, entries: Sequence[Json], made: zipfile.ZipFile) -> Iterator[Json]:
        """The requests of the HAR that Playwright's traces lack; bodies are copied into `made`."""
        known = Counter(each for part in self._parts for each in _requested(part))
        names = set(made.namelist())
        for entry in entries:
            if known[_request(entry)] > 0:
                known[_request(entry)] -= 1
                continue
            snapshot = {key: value for key, value in entry.items() if key != "pageref"}
            snapshot["_monotonicTime"] = self._at(_ms(datetime.fromisoformat(entry["startedDateTime"])))
            snapshot["response"] = _with_file(entry["response"], made, names)
            yield {"type": "resource-snapshot", "snapshot": snapshot}

    def nested(self, part: ContextTrace) -> Iterator[bytes]:
        """Playwright's own lines, with its actions below the attempts that they belong to."""
        for line in part.trace.split(b"\n"):
            yield self._with_parent(part, json.loads(line)) if line.startswith(_BEFORE) else line

    def _with_parent(self, part: ContextTrace, event: Json) -> bytes:
        wall = float(event["startTime"]) + part.origin
        nearest = bisect_right(self._tries, (wall + 1, float("inf"), "")) - 1
        if "parentId" not in event and nearest >= 0 and wall <= self._tries[nearest][1] + 1:
            event = {**event, "parentId": self._tries[nearest][2]}
        if event.get("params", {}).get("expression") == _LAST_LOOK:
            event = {**event, "title": "The page at the end"}
        return json.dumps(event, separators=(",", ":")).encode()


def _call(number: int, record: StepRecord | None = None, turn: int = 0) -> str:
    """The id of a step, or of one of several attempts at it."""
    return f"step@{number}" if record is None or len(record.attempts) == 1 else f"step@{number}.{turn}"


def _title(attempt: Attempt) -> str:
    return f"{attempt.step.act} {step_target(attempt.step)}".strip()


def _location(where: str) -> Json:
    """`http://shop.local/a.js:12` as Playwright writes it."""
    url, _, line = where.rpartition(":")
    return {"url": url, "lineNumber": int(line) if line.isdecimal() else 0, "columnNumber": 0}


def _console_entries(part: ContextTrace) -> Iterator[tuple[str, float]]:
    """The console lines and uncaught errors in Playwright's trace: the text, and its time on the wall clock."""
    for line in part.trace.split(b"\n"):
        if line.startswith(_CONSOLE):
            event = json.loads(line)
            yield str(event.get("text", "")), float(event.get("time", 0)) + part.origin
        elif line.startswith(_EVENT) and b'"pageError"' in line:
            event = json.loads(line)
            error = event.get("params", {}).get("error", {}).get("error", {})
            yield str(error.get("message", "")), float(event.get("time", 0)) + part.origin


def _requested(part: ContextTrace) -> Iterator[tuple[str, str, str]]:
    for line in part.network.split(b"\n"):
        if line.strip():
            yield _request(json.loads(line)["snapshot"])


def _request(entry: Json) -> tuple[str, str, str]:
    return entry["request"]["method"], entry["request"]["url"], entry["startedDateTime"]


def _with_file(response: Json, made: zipfile.ZipFile, names: set[str]) -> Json:
    """The answer with its body as a separate file, where the viewer looks for it."""
    content = dict(response.get("content", {}))
    text = content.pop("text", None)
    if text is None:
        return response
    data = _decode_base64(text) if content.pop("encoding", "") == "base64" else str(text).encode("utf-8", "replace")
    mime = str(content.get("mimeType", "")).partition(";")[0].strip()
    name = hashlib.sha1(data, usedforsecurity=False).hexdigest() + (mimetypes.guess_extension(mime) or ".dat")
    if f"resources/{name}" not in names:
        names.add(f"resources/{name}")
        made.writestr(f"resources/{name}", data)
    return {**response, "content": {**content, "_file": f"resources/{name}", "_sha1": name}}


def _decode_base64(text: Any) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, TypeError, ValueError):
        return b""
