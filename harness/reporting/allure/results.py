"""Prepares Allure's results for the report: those of the last run, checked, linked, with the trends of earlier runs."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, ValidationError

from harness.model.ports import Json
from harness.reporting.allure.files import OURS, RC
from harness.reporting.allure.labels import began_of, run_of, without_run
from harness.reporting.allure.serve import HERE, TraceFile, link_or_copy
from harness.reporting.attachments import ACTUAL, EXPECTED
from harness.reporting.files import IN_FULL, TRACE_MIME, read_json, read_regular, write_text
from harness.values import replace

_ENVIRONMENT = "environment.properties"
_MERGED = "-merged-"
"""A part of the id of a merged run: all results belong to that one run."""

_RUN = re.compile(r"^Run=(\d{8}T\d{6}-[\w-]+)\s*$", re.MULTILINE)
"""The line in Allure's environment table; the id of a run begins with its start time (UTC)."""

_Tests = dict[str, Json]
"""Name of the file -> its document."""


class ChosenResults(Struct, frozen=True):
    """The results of a folder that go into the report."""

    tests: _Tests
    left_out: tuple[str, ...] = ()
    """A line about the results that are left out."""
    notes: tuple[str, ...] = ()
    """A line of further notes."""
    run: str = ""
    """The id of the last run; empty if it is unknown."""


def written_run(folder: Path) -> str:
    """The run in the environment table: it is the only trace of a run that was killed before its first test ended."""
    try:
        found = _RUN.search(read_regular(folder / _ENVIRONMENT).decode("utf-8"))
    except (OSError, ValueError):
        return ""
    return found[1] if found and began_of(found[1]) else ""


def _choose(tests: _Tests, written: str, *, all_runs: bool) -> ChosenResults:
    """Choose the results of the last run; `written` is the run in the environment table."""
    if _MERGED in written:
        return ChosenResults({name: without_run(test) for name, test in tests.items()})
    last = max(written, *map(run_of, tests.values()), "")
    return ChosenResults(tests) if all_runs or not last else _of_last_run(tests, last)


def _of_last_run(tests: _Tests, last: str) -> ChosenResults:
    """Leave out the results of earlier runs if the last run repeated one of their tests.

    Folders of merged shards contain different tests, and all are kept; of a test its latest run.
    """
    runs = {name: _run_of(test, last) for name, test in tests.items()}
    latest = _latest(tests, runs)
    again = any(run != last == latest[_key(tests[name], name)] for name, run in runs.items())
    wanted = dict.fromkeys(latest, last) if again else latest
    kept = {name: test for name, test in tests.items() if runs[name] == wanted[_key(test, name)]}
    gone = len(tests) - len(kept)
    line = f"{gone} of {len(tests)} results, which are from earlier runs (--all-runs keeps them)"
    own = sum(run == last for run in runs.values())
    return ChosenResults(kept, (line,) if gone else (), _notes(last, own, len(kept)), last)


def _latest(tests: _Tests, runs: dict[str, str]) -> dict[str, str]:
    """Test -> the id of its last run."""
    found: dict[str, str] = {}
    for name, test in tests.items():
        key = _key(test, name)
        found[key] = max(found.get(key, ""), runs[name])
    return found


def _key(test: Json, name: str) -> str:
    return str(test.get("historyId") or name)


def _notes(last: str, own: int, kept: int) -> tuple[str, ...]:
    if not own:
        return (f"the last run, {last}, left no results of tests here; these are from earlier runs",)
    if own == kept:
        return ()
    return (f"{kept - own} of {kept} results are from other runs than the last one, {last}, which ran other tests",)


def _run_of(test: Json, last: str) -> str:
    """The run of a result; one without a label belongs to the last run if it began during that run."""
    began = began_of(last)
    return run_of(test) or (last if began is not None and _start(test) >= began else "")


def _start(test: Json) -> datetime:
    try:
        return datetime.fromtimestamp(test["start"] / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.min.replace(tzinfo=UTC)


# The Allure results in a folder, checked before Allure reads them; broken or foreign files are named.

_BESIDE = (_ENVIRONMENT, "executor.json", "categories.json")
"""Files that a run writes once, next to its results."""

_BELOW = ("steps", "befores", "afters")
_ATTACHMENT = re.compile(r"[\w.-]+-attachment(?:\.[\w.-]+)?")


class ResultLink(BaseModel):
    """A link in a result."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    url: str


class Attachment(BaseModel):
    """A file that a result shows."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    source: str
    name: str | None = None
    type: str | None = None


class ResultStep(BaseModel):
    """A step of a result."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str | None = None
    status: Literal["passed", "failed", "broken", "skipped", "unknown"] | None = None
    statusDetails: dict[str, object] | None = None  # noqa: N815 - Allure's name
    start: int | None = None
    stop: int | None = None
    steps: list[ResultStep] | None = None
    attachments: list[Attachment] | None = None


class Label(BaseModel):
    """A label of a result."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    name: str
    value: str | None = None


class ResultFile(ResultStep):
    """The fields of `<uuid>-result.json` that Allure must be able to read."""

    uuid: str
    name: str
    start: int
    historyId: str | None = None  # noqa: N815 - Allure's name
    labels: list[Label] | None = None
    links: list[ResultLink] | None = None


class ContainerFile(ResultStep):
    """The fields of `<uuid>-container.json` that Allure must be able to read: fixtures of some results."""

    children: list[str] | None = None
    befores: list[ResultStep] | None = None
    afters: list[ResultStep] | None = None


_MODELS: dict[str, type[ResultStep]] = {
    "-result.json": ResultFile,
    "-container.json": ContainerFile,
    "-globals.json": ResultStep,
}


class Results(Struct, frozen=True):
    """The files of a folder that go into the report."""

    folder: Path
    tests: dict[str, Json]
    """Name of the file -> its document."""
    fixtures: dict[str, Json]
    """Name of a container, or of a file about the whole run -> its document."""
    files: tuple[str, ...] = ()
    """Attachments, and the files next to the results."""
    left_out: tuple[str, ...] = ()
    """The files that are left out, and why: a line each."""
    notes: tuple[str, ...] = ()
    """Notes on the choice: a line each."""
    run: str = ""
    """The id of the last run; empty if it is unknown."""


def read_results(folder: Path, *, all_runs: bool = False) -> Results:
    """Read the results of the last run; `all_runs`: all results in the folder."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    wrong = {path.name: why for path in paths if (why := _problem(path))}
    names = [path.name for path in paths if path.name not in wrong and path.name != RC]
    attached = frozenset(name for name in names if _ATTACHMENT.fullmatch(name))
    strays: list[str] = []
    documents = {
        name: _clean_document(read_json(folder / name), name, attached, strays) for name in names if _model(name)
    }
    found = Results(
        folder,
        tests={name: document for name, document in documents.items() if name.endswith("-result.json")},
        fixtures={name: document for name, document in documents.items() if not name.endswith("-result.json")},
        files=tuple(name for name in names if name not in documents),
        left_out=(*(f"{name}: {why}" for name, why in wrong.items()), *strays),
    )
    choice = _choose(found.tests, written_run(folder), all_runs=all_runs)
    return replace(
        found, tests=choice.tests, left_out=(*found.left_out, *choice.left_out), notes=choice.notes, run=choice.run
    )


def _model(name: str) -> type[ResultStep] | None:
    return next((model for end, model in _MODELS.items() if name.endswith(end)), None)


def _problem(path: Path) -> str:
    """The reason why a file is left out; empty for one that goes into the report."""
    if path.is_symlink() or not path.is_file():
        return "a link to somewhere else" if path.is_symlink() else "not a file"
    if path.name == RC:
        return (
            ""
            if _is_ours(path)
            else "a program, which is not run; the project's own configuration belongs into its folder"
        )
    if model := _model(path.name):
        return _unreadable(path, model)
    if path.name in ("executor.json", "categories.json"):
        return _unreadable(path, None)
    return "" if path.name == _ENVIRONMENT or _ATTACHMENT.fullmatch(path.name) else "not written by Allure"


def _unreadable(path: Path, model: type[ResultStep] | None) -> str:
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


def _clean_document(document: Json, file: str, attached: frozenset[str], strays: list[str]) -> Json:
    """The document without missing attachments, and without links that are no web addresses."""

    def kept(part: Json) -> Json:
        own = part.get("attachments") or ()
        gone = [each for each in own if each["source"] not in attached]
        strays.extend(f"{file}: attachment {each.get('name')!r}, {each['source']!r}, was not found" for each in gone)
        parts = {key: [kept(each) for each in part.get(key) or ()] for key in _BELOW if part.get(key)}
        return {**part, **parts, "attachments": [each for each in own if each["source"] in attached]}

    links = [link for link in document.get("links") or () if link["url"].startswith(("http://", "https://"))]
    return {**kept(document), "links": links}


def _attachments_of(part: Json) -> Iterator[Json]:
    """The attachments of a result, a container or a step, and of the steps below it."""
    yield from part.get("attachments") or ()
    for key in _BELOW:
        for step in part.get(key) or ():
            yield from _attachments_of(step)


def used_files(results: Results) -> Iterator[str]:
    """The files that the chosen results need: attachments of other runs are not copied."""
    documents = (*results.tests.values(), *results.fixtures.values())
    used = {each["source"] for document in documents for each in _attachments_of(document)}
    yield from (name for name in results.files if name in used or name in _BESIDE)


# The results as Allure gets them: flaky tests marked, traces linked, expected and actual next to the failure.

_BAD = ("failed", "broken")
_LONGEST = 100_000
"""The largest expected or actual value, in bytes, that is copied into the failure itself."""


def stage(results: Results, folder: Path, traces: Iterable[TraceFile]) -> None:
    """Write the results into an empty folder; the originals are not changed."""
    links = {trace.file: trace.link for trace in traces}
    flaky = flaky_tests(results)
    for name, test in results.tests.items():
        document = _add_comparison(_link_traces(without_run(test), links), results.folder)
        if name in flaky:
            document = {**document, "statusDetails": {**(document.get("statusDetails") or {}), "flaky": True}}
        (folder / name).write_text(json.dumps(document), "utf-8")
    for name, document in results.fixtures.items():
        (folder / name).write_text(json.dumps(document), "utf-8")
    for name in used_files(results):
        link_or_copy(results.folder / name, folder / name)


def flaky_tests(results: Results) -> set[str]:
    """The files of tests that passed only in a rerun within the same run."""
    runs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, test in sorted(results.tests.items(), key=lambda pair: int(pair[1]["start"])):
        if test.get("historyId"):
            runs[run_of(test), test["historyId"]].append(name)
    return {
        names[-1]
        for names in runs.values()
        if results.tests[names[-1]].get("status") == "passed"
        and any(results.tests[name].get("status") in _BAD for name in names)
    }


def trace_files(results: Results) -> Iterator[TraceFile]:
    """The Playwright traces among the results' attachments."""
    for test in results.tests.values():
        for source, name in _traces(test).items():
            run = " (second run, in full)" if name == IN_FULL else ""
            yield TraceFile(f"{test['name']}{run}", str(test.get("status")), source)


def _traces(test: Json) -> dict[str, str]:
    """Source -> name of the attachment."""
    found = (each for each in test.get("attachments") or () if each.get("type") == TRACE_MIME)
    return {str(each["source"]): str(each.get("name")) for each in found}


def _link_traces(test: Json, links: dict[str, str]) -> Json:
    """The result with links that open its traces."""
    more = [
        {"type": "link", "name": "Open full trace" if name == IN_FULL else "Open trace", "url": HERE + links[source]}
        for source, name in _traces(test).items()
        if source in links
    ]
    return {**test, "links": [*more, *test.get("links", ())]}


def _add_comparison(test: Json, folder: Path) -> Json:
    """Add expected and actual value where Allure looks for them, so that it shows the difference."""
    if test.get("status") not in _BAD:
        return test
    sources = {each.get("name"): each["source"] for each in _attachments_of(test)}
    files = {
        key: folder / sources[name] for key, name in (("expected", EXPECTED), ("actual", ACTUAL)) if name in sources
    }
    if len(files) < 2 or any(file.stat().st_size > _LONGEST for file in files.values()):
        return test
    texts = {key: file.read_text("utf-8", "replace") for key, file in files.items()}
    return {**test, "statusDetails": {**(test.get("statusDetails") or {}), **texts}}


# Allure's knowledge of earlier runs, kept in `.harness/`: trends continue when the folder of results is emptied.

HISTORY = Path(".harness/allure-history.jsonl")
KEPT = 50
"""The number of runs in Allure's history."""

_Starts = frozenset[tuple[str, int]]
"""(full name of a test, start in milliseconds since 1970), since Allure makes history ids of its own."""


def starts_of(results: Results) -> _Starts:
    return frozenset((str(test.get("fullName")), int(test["start"])) for test in results.tests.values())


def earlier_points(history: Path, starts: _Starts) -> tuple[list[str], list[str]]:
    """The lines of Allure's history about other runs; and notes on what was left out, a line each."""
    lines = history.read_text("utf-8", "replace").splitlines() if history.is_file() else []
    kept, left_out = [], []
    for number, line in enumerate(lines, 1):
        point = _point(line)
        if point is None:
            left_out.append(f"{history.name}:{number}: not a run, maybe half-written")
        elif not _is_part(point, starts):
            kept.append(line)
    return kept[-KEPT:], left_out


def keep_points(built: Path, history: Path) -> None:
    """Keep the history that Allure wrote with a report, if it wrote one."""
    if built.is_file():
        write_text(history, built.read_text("utf-8", "replace"))


def _point(line: str) -> Json | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("testResults"), dict) else None


def _is_part(point: Json, starts: _Starts) -> bool:
    """Return whether the line is about this run. Allure keeps the last result of a test, so it may have fewer."""
    items = (item for item in point["testResults"].values() if isinstance(item, dict))
    found = {(item.get("fullName"), item.get("start")) for item in items}
    return bool(found) and found <= starts
