"""The attachments of a finished task in a report, with their names and types."""

from __future__ import annotations

import base64
import csv
import html
import io
import json
import mimetypes
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from harness.criteria import difference
from harness.model.diagnosis import note, went_back
from harness.model.ports import Json
from harness.model.record import Score, StepRecord, TaskResult
from harness.model.tool_evidence import call_document
from harness.model.tools import ToolCall
from harness.reporting.agent_way import way_page
from harness.reporting.comparisons import IMAGE_DIFF, compared_pictures, image_diff
from harness.reporting.files import ARTIFACTS, TRACE_MIME, Artifact, read_json, read_regular
from harness.reporting.redaction import Redactor, kept_call
from harness.reporting.still_page import row, still_page
from harness.reporting.telling import filled_step
from harness.reporting.trajectory import FILE, TrajectoryError
from harness.reporting.trajectory import read as read_trajectory
from harness.reporting.words import place, shortened, step_target
from harness.spec.pictures import COMPARISONS
from harness.task_secrets import masking

# A time axis: steps, attempts, the waits between them, and the faults that struck.

MOST_ATTEMPTS = 300
"""The number of rows that are shown: the last ones, since the task ended there."""
_TEXT = 140
_ATTEMPT_STYLE = (
    "td{height:20px}.axis{position:relative;width:46%}.axis span{position:absolute;top:5px;height:14px;min-width:3px;"
    "border-radius:2px}.ok{background:#3c9a5f}.no{background:#d3483e}.wait{background:repeating-linear-gradient("
    "45deg,#c3c9d0 0 4px,#eef0f2 4px 8px)}.fault{background:#7a4bc4}.mark{color:#fff;border-radius:3px;padding:0 5px}"
)


class AttemptBar(Struct, frozen=True):
    """A stretch of time: `ok`, `no`, `wait` or `fault`. Seconds since the start of the task."""

    kind: str
    start: float
    seconds: float


class AttemptRow(Struct, frozen=True):
    """One row of the page."""

    place: str
    text: str
    bars: tuple[AttemptBar, ...]

    @property
    def start(self) -> float:
        return self.bars[0].start


def attempt_page(result: TaskResult, redactor: Redactor) -> str | None:
    """The page; None for a task without retries or faults."""
    if not any(record.extra_attempts or record.failure or record.rewound for record in result.history):
        return None
    lines = [*attempt_lines(result.history, result.steps_total), *_fault_lines(result)]
    whole = max([result.elapsed, *(bar.start + bar.seconds for line in lines for bar in line.bars)]) or 1.0
    lines = sorted(lines, key=lambda line: line.start)[-MOST_ATTEMPTS:]
    rows = "".join(_row(line, whole, redactor) for line in lines)
    keys = "".join(f'<span class="mark {kind}">{name}</span> ' for kind, name in _KEYS)
    head = "".join(f"<th>{name}</th>" for name in ("step", "what", "at", "took", f"0 to {whole:.1f} s"))
    return still_page("Attempts", f"<p>{keys}</p>\n<table><tr>{head}</tr>\n{rows}</table>\n", _ATTEMPT_STYLE)


_KEYS = (("ok", "worked"), ("no", "failed"), ("fault", "injected fault"))


def attempt_lines(history: Iterable[StepRecord], total: int) -> Iterator[AttemptRow]:
    """A line for each attempt of a step with several, with the wait before it; one line for the steps between."""
    for plain, records in groupby(history, key=lambda record: record.passed and not record.extra_attempts):
        if plain:
            yield from _plain([record for record in records if record.attempts], total)
        else:
            for record in records:
                yield from _attempt_rows(record, total)


def _plain(records: list[StepRecord], total: int) -> Iterator[AttemptRow]:
    if not records:
        return
    first, last = place(records[0].index, total), place(records[-1].index, total)
    bars = tuple(AttemptBar("ok", each.t, each.seconds) for record in records for each in record.attempts)
    what = step_target(filled_step(records[0])) if len(records) == 1 else f"{len(records)} steps passed at once"
    name = f"{records[0].step.act} {what}" if len(records) == 1 else what
    yield AttemptRow(first if first == last else f"{first} to {last}", name, bars)


def _attempt_rows(record: StepRecord, total: int) -> Iterator[AttemptRow]:
    name = f"{record.step.act} {step_target(filled_step(record))}: "
    end: float | None = None
    for attempt in record.attempts:
        wait = () if end is None or attempt.t - end < 0.01 else (AttemptBar("wait", end, attempt.t - end),)
        bar = AttemptBar("ok" if attempt.passed else "no", attempt.t, attempt.seconds)
        yield AttemptRow(place(record.index, total), name + note(attempt, record.step), (*wait, bar))
        end, name = attempt.t + attempt.seconds, ""
    if record.rewound and end is not None:
        yield AttemptRow("", f"went back {went_back(record)}", (AttemptBar("wait", end, 0),))


def _fault_lines(result: TaskResult) -> Iterator[AttemptRow]:
    for met in result.faults:
        if met.count:
            yield AttemptRow(
                "", f"injected fault {met.describe()}", tuple(AttemptBar("fault", at, 0) for at in met.strikes)
            )


def _row(line: AttemptRow, whole: float, redactor: Redactor) -> str:
    own = [bar for bar in line.bars if bar.kind != "wait"] or list(line.bars)
    took = own[-1].start + own[-1].seconds - own[0].start
    text = html.escape(redactor.text(shortened(line.text, _TEXT)))
    bars = "".join(
        f'<span class="{bar.kind}" style="left:{100 * bar.start / whole:.2f}%;'
        f'width:{100 * bar.seconds / whole:.2f}%"></span>'
        for bar in line.bars
    )
    return (
        f'<tr><td class="s">{html.escape(line.place)}</td><td class="u">{text}</td>'
        f'<td class="n">{own[0].start:.2f} s</td><td class="n">{took:.2f} s</td><td class="axis">{bars}</td></tr>\n'
    )


# A HAR as a table for people: failed requests first, the others in their order.

MOST_REQUESTS = 1000
"""The number of requests that are shown; the HAR has all."""


class HarRequest(Struct, frozen=True):
    """One request of a HAR, with its result."""

    method: str
    url: str
    status: int
    """The status; 0: there was no answer."""
    milliseconds: float
    bytes: int
    """The size; -1: unknown."""
    type: str = ""
    why: str = ""
    at: str = ""
    """The start as the HAR writes it."""

    @property
    def failed(self) -> bool:
        """Whether there was no answer, or one with an error status."""
        return self.status < 100 or self.status >= 400


def requests_of(har: Json) -> Iterator[HarRequest]:
    """The requests in the order of the file; entries that cannot be read are left out."""
    log = har.get("log") if isinstance(har, dict) else None
    entries = log.get("entries") if isinstance(log, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield _request(entry)


def har_page(har: Json) -> str | None:
    """The table of requests as a page; None for a HAR without requests."""
    found = sorted(requests_of(har), key=lambda request: request.at)
    if not found:
        return None
    begun = _moment(found[0].at)
    rows = sorted(found, key=lambda request: not request.failed)[:MOST_REQUESTS]
    failed = sum(request.failed for request in found)
    more = f", the first {MOST_REQUESTS} of them shown" if len(found) > MOST_REQUESTS else ""
    head = "".join(f"<th>{name}</th>" for name in ("status", "method", "url", "at", "ms", "size", "type", "why"))
    told = (
        f"{len(found)} requests{more}; {failed} failed, shown first"
        if failed
        else f"{len(found)} requests{more}; none failed"
    )
    body = "".join(row(_cells(request, begun), "bad" if request.failed else "") for request in rows)
    return still_page("Requests", f"<p>{html.escape(told)}</p>\n<table><tr>{head}</tr>\n{body}</table>\n")


def _cells(request: HarRequest, begun: datetime | None) -> list[tuple[str, object]]:
    now = _moment(request.at)
    at = f"{(now - begun).total_seconds():.2f} s" if now and begun else ""
    return [
        ("s", request.status or "no answer"),
        ("s", request.method),
        ("u", request.url),
        ("n m", at),
        ("n", f"{request.milliseconds:.0f}"),
        ("n", size(request.bytes)),
        ("m s", request.type),
        ("", request.why),
    ]


def _request(entry: Mapping[str, Json]) -> HarRequest:
    request, response = _table(entry, "request"), _table(entry, "response")
    content = _table(response, "content")
    return HarRequest(
        method=str(request.get("method", "")),
        url=str(request.get("url", "")),
        status=max(0, int(_number(response.get("status")))),
        milliseconds=max(0.0, _number(entry.get("time"))),
        bytes=int(_number(content.get("size"), -1)),
        type=str(content.get("mimeType") or "").partition(";")[0],
        why=str(response.get("_failureText") or response.get("statusText") or ""),
        at=str(entry.get("startedDateTime") or ""),
    )


def _table(of: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = of.get(key)
    return found if isinstance(found, dict) else {}


def _number(value: Json, otherwise: float = 0) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e15 else otherwise


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


# The page when the task failed: its picture, and its elements next to it, inert.

LARGEST_PICTURE, LARGEST_PAGE = 1_500_000, 1_000_000
"""The largest picture and page in bytes; a larger one is only an attachment of its own."""

_PAIR_STYLE = (
    ".two{display:flex;gap:16px;align-items:flex-start}.two>*{flex:1 1 50%;min-width:0;margin:0}"
    ".two img.picture{width:100%;border:1px solid #c3c9d0}figcaption{color:#5a646e;margin-bottom:4px}"
    ".page{border:1px solid #c3c9d0;box-sizing:border-box;width:100%;height:560px;background:#fff}"
)


def side_by_side(picture: bytes | None, snapshot: str | None) -> str | None:
    """A page with picture and snapshot next to each other; None if one is missing. `snapshot` is inert already."""
    shown = picture if picture and len(picture) <= LARGEST_PICTURE else None
    elements = snapshot if snapshot and len(snapshot) <= LARGEST_PAGE else None
    if shown is None or elements is None:
        return None
    data = base64.b64encode(shown).decode()
    body = (
        f'<div class="two"><figure><figcaption>screenshot</figcaption><img class="picture" alt="screenshot" '
        f'src="data:image/png;base64,{data}"></figure>\n<figure><figcaption>elements of the page, without its scripts '
        f"and without what it loaded</figcaption>{_in_frame(elements)}</figure></div>\n"
    )
    return still_page("Page at the failure", body, _PAIR_STYLE)


def _in_frame(snapshot: str) -> str:
    """The snapshot in a sandboxed frame, so that its style sheets affect nothing else."""
    return f'<iframe class="page" sandbox="" title="elements of the page" srcdoc="{html.escape(snapshot)}"></iframe>'


def size(count: float) -> str:
    """A size in bytes in a readable unit."""
    if count < 0:
        return ""
    return (
        f"{count:.0f} B"
        if count < 1024
        else f"{count / 1024:.1f} KiB"
        if count < 1 << 20
        else f"{count / (1 << 20):.1f} MiB"
    )


TEXT, CSV, HTML, PNG, JSON = "text/plain", "text/csv", "text/html", "image/png", "application/json"
EXPECTED, ACTUAL = "expected", "actual"


class Content(Struct, frozen=True):
    """One attachment: a file, or a text."""

    name: str
    mime: str
    extension: str
    path: Path | None = None
    data: str = ""

    @classmethod
    def of(cls, path: Path) -> Content:
        """A file that a step kept, under its own name."""
        guessed = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        mime = TRACE_MIME if path.name == "trace.zip" else guessed
        return cls(path.name, mime, path.suffix.lstrip(".") or "bin", path)


def on_test(result: TaskResult, redactor: Redactor) -> Iterator[Content]:
    """All attachments, the most helpful first; for a passing task its warnings and its attempts."""
    folder = result.artifacts
    if attempts := attempt_page(result, redactor):
        yield Content("attempts", HTML, "html", data=attempts)
    if folder is not None:
        yield from _readable_files(folder)
        yield from _existing_artifacts(folder, ARTIFACTS)
        yield from _compared(folder)
        kept = sorted((folder / "files").rglob("*"))
        yield from (Content.of(path) for path in kept if path.is_file() and path.parent.parent.name != COMPARISONS)
    if result.score is not None:
        yield Content("score", CSV, "csv", data=_score(result.score, redactor))
    if result.faults:
        yield Content("faults", TEXT, "txt", data=redactor.text("\n".join(met.describe() for met in result.faults)))
    if result.routes:
        yield Content("routes", TEXT, "txt", data=redactor.text("\n".join(_route_lines(result))))
    if result.warnings:
        lines = (f"step {w.step_index}: {w.type}: {w.message}" for w in result.warnings)
        yield Content("warnings", TEXT, "txt", data=redactor.text("\n".join(lines)))


def on_call(call: ToolCall, redactor: Redactor) -> Content:
    """A call of a tool with its arguments and its result, as JSON for people."""
    document = kept_call(call_document(call), redactor)
    name = redactor.text(f"{call.server}.{call.tool}")
    return Content(name, JSON, "json", data=json.dumps(document, ensure_ascii=False, indent=2, default=str))


def _route_lines(result: TaskResult) -> Iterator[str]:
    """Each route, and below it the requests that it answered."""
    for met in result.routes:
        yield met.describe()
        yield from (f"  step {each.step}: {each.method} {each.url} -> {each.status}" for each in met.answered)


def on_failing_step(result: TaskResult, redactor: Redactor) -> Iterator[Content]:
    """The attachments of the failing step that explain the failure at a glance."""
    assertion = result.failure.assertion if result.failure else None
    if assertion is not None:
        yield Content(EXPECTED, TEXT, "txt", data=redactor.text(_value_text(assertion.expected)))
        yield Content(ACTUAL, TEXT, "txt", data=redactor.text(_value_text(assertion.actual)))
        if assertion.diff:
            with masking(redactor.text):
                diff = difference(assertion.expected, assertion.actual)
            yield Content("difference", TEXT, "diff", data=redactor.text(diff))
    if result.artifacts is not None:
        yield from _compared(result.artifacts, result.failed_index)
        yield from _existing_artifacts(result.artifacts, [each for each in ARTIFACTS if each.at_the_step])


def _compared(folder: Path, step: int | None = None) -> Iterator[Content]:
    """The pictures of comparisons that failed: all of them, or those of one step."""
    for each in compared_pictures(folder):
        if step is None or each.step == step:
            baseline = each.name.partition("-")[2] if each.step is not None else each.name
            if found := image_diff(each):
                yield Content(f"{baseline}: expected and actual", IMAGE_DIFF, "imagediff", data=found)
            else:
                yield from (Content(f"{baseline} {name}", PNG, "png", path) for name, path in each.files.items())


def _existing_artifacts(folder: Path, artifacts: Iterable[Artifact]) -> Iterator[Content]:
    for each in artifacts:
        if (folder / each.name).is_file():
            yield Content(each.title, each.mime, each.extension, folder / each.name)


def _score(score: Score, redactor: Redactor) -> str:
    """The score as a table: metrics, parts with weights, total. It is redacted before CSV doubles the quotes."""
    rows = [
        ("part", "weight", "value", "required", "why"),
        *((part.name, f"{part.weight:g}", int(part.met), part.required, part.reason) for part in score.parts),
        *((name, "", f"{value:g}", "", "rubric") for name, value in score.rubrics.items()),
        ("score", "", f"{score.total:g}", "", ""),
    ]
    table = io.StringIO()
    csv.writer(table).writerows([redactor.text(str(cell)) for cell in row] for row in rows)
    return table.getvalue()


def _value_text(value: Json) -> str:
    """A text unchanged, else JSON with one line for each entry, so that two values can be compared."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _readable_files(folder: Path) -> Iterator[Content]:
    """The kept files in a readable form; they were redacted when they were kept."""
    if page := side_by_side(_bytes(folder / "screenshot.png"), _text(folder / "dom_snapshot.html")):
        yield Content("page at the failure", HTML, "html", data=page)
    if way := _way_of_agent(folder / FILE):
        yield Content("agent's way", HTML, "html", data=way)
    try:
        table = har_page(read_json(folder / "network_logs.har"))
    except (OSError, ValueError):
        return
    if table:
        yield Content("requests", HTML, "html", data=table)


def _way_of_agent(file: Path) -> str | None:
    try:
        return way_page(read_trajectory(file))
    except (OSError, TrajectoryError):  # there is none, or a newer version has written it
        return None


def _bytes(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _text(path: Path) -> str | None:
    found = _bytes(path)
    return None if found is None else found.decode("utf-8", "replace")
