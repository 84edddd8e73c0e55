"""The results as Allure is given them: flaky tests marked, traces linked, expected and actual beside the failure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.model.ports import Json
from harness.reporting.allure_results import Results, attachments_of, used_files
from harness.reporting.allure_run import run_of, without_run
from harness.reporting.attachments import ACTUAL, EXPECTED, IN_FULL, TRACE
from harness.reporting.trace_viewer import HERE, TraceFile, link_or_copy

_BAD = ("failed", "broken")
_LONGEST = 100_000
"""Bytes of an expected or actual value that goes into the failure itself."""


def stage(results: Results, folder: Path, traces: Iterable[TraceFile]) -> None:
    """Write them into an empty folder; the originals stay as they are."""
    links = {trace.file: trace.link for trace in traces}
    flaky = flaky_tests(results)
    for name, test in results.tests.items():
        document = _compared(_opened(without_run(test), links), results.folder)
        if name in flaky:
            document = {**document, "statusDetails": {**(document.get("statusDetails") or {}), "flaky": True}}
        (folder / name).write_text(json.dumps(document), "utf-8")
    for name, document in results.fixtures.items():
        (folder / name).write_text(json.dumps(document), "utf-8")
    for name in used_files(results):
        link_or_copy(results.folder / name, folder / name)


def flaky_tests(results: Results) -> set[str]:
    """Files of the tests that passed only when they were run again in the same run."""
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
    found = (each for each in test.get("attachments") or () if each.get("type") == TRACE)
    return {str(each["source"]): str(each.get("name")) for each in found}


def _opened(test: Json, links: dict[str, str]) -> Json:
    """The result with links that open its traces."""
    more = [
        {"type": "link", "name": "Open full trace" if name == IN_FULL else "Open trace", "url": HERE + links[source]}
        for source, name in _traces(test).items()
        if source in links
    ]
    return {**test, "links": [*more, *test.get("links", ())]}


def _compared(test: Json, folder: Path) -> Json:
    """With what was expected and what was found, where Allure 3 looks for them: it shows the difference."""
    if test.get("status") not in _BAD:
        return test
    sources = {each.get("name"): each["source"] for each in attachments_of(test)}
    files = {
        key: folder / sources[name] for key, name in (("expected", EXPECTED), ("actual", ACTUAL)) if name in sources
    }
    if len(files) < 2 or any(file.stat().st_size > _LONGEST for file in files.values()):
        return test
    texts = {key: file.read_text("utf-8", "replace") for key, file in files.items()}
    return {**test, "statusDetails": {**(test.get("statusDetails") or {}), **texts}}
