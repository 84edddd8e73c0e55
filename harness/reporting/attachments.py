"""The attachments of a finished task in a report, with their names and types."""

from __future__ import annotations

import base64
import contextlib
import csv
import html
import io
import json
import mimetypes
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from harness.model.ports import USERS, Json
from harness.reporting.agent_way import way_page
from harness.reporting.comparisons import IMAGE_DIFF, compared_pictures, image_diff
from harness.reporting.files import ARTIFACTS, TRACE_MIME, Artifact, read_json, read_regular
from harness.reporting.still_page import row, still_page
from harness.reporting.story import StoryCall, StoryScore, StoryStep, TaskStory
from harness.reporting.trajectory import FILE
from harness.reporting.trajectory import read as read_trajectory
from harness.reporting.words import shortened
from harness.spec.pictures import COMPARISONS

# A time axis: steps, attempts, the waits between them, and the faults that struck.

_MOST_ATTEMPTS = 300
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


def attempt_page(story: TaskStory) -> str | None:
    """The page; None for a task without retries or faults."""
    if not any(step.extra_attempts or step.failure or step.went_back for step in story.steps):
        return None
    lines = [*attempt_lines(story.steps), *_fault_lines(story)]
    whole = max([story.seconds, *(bar.start + bar.seconds for line in lines for bar in line.bars)]) or 1.0
    lines = sorted(lines, key=lambda line: line.start)[-_MOST_ATTEMPTS:]
    rows = "".join(_row(line, whole) for line in lines)
    keys = "".join(f'<span class="mark {kind}">{name}</span> ' for kind, name in _KEYS)
    head = "".join(f"<th>{name}</th>" for name in ("step", "what", "at", "took", f"0 to {whole:.1f} s"))
    return still_page("Attempts", f"<p>{keys}</p>\n<table><tr>{head}</tr>\n{rows}</table>\n", _ATTEMPT_STYLE)


_KEYS = (("ok", "worked"), ("no", "failed"), ("fault", "injected fault"))


def attempt_lines(steps: Iterable[StoryStep]) -> Iterator[AttemptRow]:
    """A line for each attempt of a step with several, with the wait before it; one line for the steps between."""
    for plain, found in groupby(steps, key=lambda step: step.passed and not step.extra_attempts):
        if plain:
            yield from _plain([step for step in found if step.attempts])
        else:
            for step in found:
                yield from _attempt_rows(step)


def _plain(steps: list[StoryStep]) -> Iterator[AttemptRow]:
    if not steps:
        return
    first, last = steps[0].place, steps[-1].place
    bars = tuple(AttemptBar("ok", each.t, each.seconds or 0.0) for step in steps for each in step.attempts)
    one = f"{steps[0].act} {steps[0].target}"
    name = one if len(steps) == 1 else f"{len(steps)} steps passed at once"
    yield AttemptRow(first if first == last else f"{first} to {last}", name, bars)


def _attempt_rows(step: StoryStep) -> Iterator[AttemptRow]:
    name = f"{step.act} {step.target}: "
    end: float | None = None
    for attempt in step.attempts:
        wait = () if end is None or attempt.t - end < 0.01 else (AttemptBar("wait", end, attempt.t - end),)
        bar = AttemptBar("ok" if attempt.passed else "no", attempt.t, attempt.seconds or 0.0)
        yield AttemptRow(step.place, name + attempt.note, (*wait, bar))
        end, name = attempt.end, ""
    if step.went_back and end is not None:
        yield AttemptRow("", f"went back {step.went_back}", (AttemptBar("wait", end, 0),))


def _fault_lines(story: TaskStory) -> Iterator[AttemptRow]:
    for each in story.faults:
        if each.struck:
            bars = tuple(AttemptBar("fault", at, 0) for at in each.times)
            yield AttemptRow("", f"injected fault {each.text}", bars)


def _row(line: AttemptRow, whole: float) -> str:
    own = [bar for bar in line.bars if bar.kind != "wait"] or list(line.bars)
    took = own[-1].start + own[-1].seconds - own[0].start
    text = html.escape(shortened(line.text, _TEXT))
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
    # the frame is sandboxed, and its style sheets affect nothing else
    frame = f'<iframe class="page" sandbox="" title="elements of the page" srcdoc="{html.escape(elements)}"></iframe>'
    body = (
        f'<div class="two"><figure><figcaption>screenshot</figcaption><img class="picture" alt="screenshot" '
        f'src="data:image/png;base64,{data}"></figure>\n<figure><figcaption>elements of the page, without its scripts '
        f"and without what it loaded</figcaption>{frame}</figure></div>\n"
    )
    return still_page("Page at the failure", body, _PAIR_STYLE)


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
        user = f"{path.parent.name}: " if path.parent.parent.name == USERS else ""
        return cls(user + path.name, mime, path.suffix.lstrip(".") or "bin", path)


def on_test(story: TaskStory) -> Iterator[Content]:
    """All attachments, the most helpful first; for a passing task its warnings and its attempts."""
    if attempts := attempt_page(story):
        yield Content("attempts", HTML, "html", data=attempts)
    if story.artifacts:
        folder = Path(story.artifacts)
        yield from _readable_files(folder)
        yield from _existing_artifacts(folder, ARTIFACTS)
        yield from _compared(folder)
        kept = sorted((folder / "files").rglob("*"))
        yield from (Content.of(path) for path in kept if path.is_file() and path.parent.parent.name != COMPARISONS)
    if story.score is not None:
        yield Content("score", CSV, "csv", data=_score(story.score))
    if story.faults:
        yield Content("faults", TEXT, "txt", data="\n".join(each.text for each in story.faults))
    if story.routes:
        yield Content("routes", TEXT, "txt", data="\n".join(_route_lines(story)))
    if story.warnings:
        lines = (f"step {each.get('step_index')}: {each.get('type')}: {each.get('message')}" for each in story.warnings)
        yield Content("warnings", TEXT, "txt", data="\n".join(lines))


def on_call(call: StoryCall) -> Content:
    """A call of a tool with its arguments and its result, as JSON for people."""
    name = f"{call.document.get('server')}.{call.document.get('tool')}"
    return Content(name, JSON, "json", data=json.dumps(call.document, ensure_ascii=False, indent=2, default=str))


def _route_lines(story: TaskStory) -> Iterator[str]:
    """Each route, and below it the requests that it answered."""
    for route in story.routes:
        yield route.text
        for each in route.requests:
            yield f"  step {each.step_index}: {each.method} {each.url} -> {each.what or each.status}"


def on_failing_step(story: TaskStory) -> Iterator[Content]:
    """The attachments of the failing step that explain the failure at a glance."""
    found = story.failure.comparison if story.failure else None
    if found is not None:
        yield Content(EXPECTED, TEXT, "txt", data=found.expected_lines)
        yield Content(ACTUAL, TEXT, "txt", data=found.actual_lines)
        if found.diff:
            yield Content("difference", TEXT, "diff", data=found.diff)
    if story.artifacts:
        folder = Path(story.artifacts)
        yield from _compared(folder, story.failed_index)
        yield from _existing_artifacts(folder, [each for each in ARTIFACTS if each.at_the_step])


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


def _score(score: StoryScore) -> str:
    """The score as a table: metrics, parts with weights, total."""
    rows = [
        ("part", "weight", "value", "required", "why"),
        *((part.name, f"{part.weight:g}", int(part.met), part.required, part.reason) for part in score.parts),
        *((name, "", f"{value:g}", "", "rubric") for name, value in score.rubrics.items()),
        ("score", "", f"{score.total:g}", "", ""),
    ]
    table = io.StringIO()
    csv.writer(table).writerows(rows)
    return table.getvalue()


def _readable_files(folder: Path) -> Iterator[Content]:
    """The kept files in a readable form; they were redacted when they were kept."""
    pages: Mapping[str, Callable[[], str | None]] = {
        "page at the failure": lambda: side_by_side(
            read_regular(folder / "screenshot.png"),
            read_regular(folder / "dom_snapshot.html").decode("utf-8", "replace"),
        ),
        "agent's way": lambda: way_page(read_trajectory(folder / FILE)),
        "requests": lambda: har_page(read_json(folder / "network_logs.har")),
    }
    for name, made in pages.items():
        with contextlib.suppress(OSError, ValueError):  # there is none, or a newer version has written it
            if page := made():
                yield Content(name, HTML, "html", data=page)
