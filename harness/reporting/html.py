"""`harness report`: the HTML report of Allure results, complete offline."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.ports import Json
from harness.reporting.allure_files import RC, allurerc
from harness.reporting.attachments import TRACE
from harness.reporting.documents import read_json
from harness.reporting.npm import ReportError, allure_command
from harness.reporting.trace_viewer import HERE, HERE_SCRIPT, TraceFile, add_viewer, link_or_copy, viewer_folder

BUILD_LIMIT = 600
"""Seconds for Allure's own work."""

_ANALYTICS = re.compile(
    r"<script[^>]*googletagmanager[^>]*>\s*</script>|<script>(?:(?!</script>).)*?gtag\('config'(?:(?!</script>).)*</script>",
    re.DOTALL,
)


def build_report(
    results: Path,
    output: Path,
    *,
    single_file: bool = False,
    project: Path = Path(),
    say: Callable[[str], None] = print,
) -> Path:
    """The report's index.html. ReportError when there are no results, or Allure is missing or fails."""
    if not any(results.glob("*-result.json")):
        raise ReportError(f"no Allure results in {results}: run pytest with --alluredir={results}")
    _check_output(results, output)
    command = allure_command(project, say)
    traces = [] if single_file or viewer_folder() is None else list(trace_files(results))
    with tempfile.TemporaryDirectory(prefix="taskspec-report-") as folder:
        staged = _staged(results, Path(folder), traces, single_file)
        shutil.rmtree(output, ignore_errors=True)
        _generate(command, staged, output.absolute())
    index = output / "index.html"
    page = _ANALYTICS.sub("", index.read_text("utf-8"))
    if add_viewer(output, results, traces):
        page = page.replace("<head>", f"<head>\n{HERE_SCRIPT}", 1)
    index.write_text(page, "utf-8")
    return index


def trace_files(results: Path) -> Iterator[TraceFile]:
    """The Playwright traces among the results' attachments."""
    for path in sorted(results.glob("*-result.json")):
        document = _result(path)
        for source in dict.fromkeys(_trace_sources(document)):
            if source == Path(source).name and (results / source).is_file():
                yield TraceFile(str(document.get("name", "")), str(document.get("status", "")), source)


def _result(path: Path) -> Json:
    """An empty document for a file that is no result: Allure says what it thinks of it."""
    try:
        document = read_json(path)
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def _trace_sources(result: Json) -> Iterator[str]:
    for attachment in result.get("attachments", ()):
        if attachment.get("type") == TRACE:
            yield str(attachment.get("source"))


def _check_output(results: Path, output: Path) -> None:
    """The output folder is deleted first, so it must be one that a report was in, or none."""
    if results.resolve().is_relative_to(output.resolve()):
        raise ReportError(f"{output} holds the results themselves: choose another output folder")
    if output.is_dir() and any(output.iterdir()) and not (output / "index.html").is_file():
        raise ReportError(f"{output} is not empty and holds no report: choose another output folder")


def _staged(results: Path, folder: Path, traces: list[TraceFile], single_file: bool) -> Path:
    """The results with a link to each trace; the originals stay as they are."""
    staged = folder / "results"
    staged.mkdir()
    links = {trace.file: trace.link for trace in traces}
    for path in (path for path in results.iterdir() if path.is_file() and path.name != RC):
        opened = _opened(path, links) if path.name.endswith("-result.json") else None
        if opened is not None:
            (staged / path.name).write_text(json.dumps(opened), "utf-8")
        else:
            link_or_copy(path, staged / path.name)
    own = results / RC
    text = own.read_text("utf-8") if own.is_file() and not single_file else allurerc(single_file=single_file)
    (folder / RC).write_text(text, "utf-8")
    return staged


def _opened(path: Path, links: dict[str, str]) -> Json | None:
    """The result with links that open its traces; None when it has no trace."""
    document = _result(path)
    urls = [links[source] for source in dict.fromkeys(_trace_sources(document)) if source in links]
    more = [{"type": "link", "name": "Open trace", "url": HERE + url} for url in urls]
    return {**document, "links": [*document.get("links", ()), *more]} if more else None


def _generate(command: Path, staged: Path, output: Path) -> None:
    environment = {**os.environ, "ALLURE_NO_ANALYTICS": "true", "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            [command, "generate", str(staged), "-c", str(staged.parent / RC), "-o", str(output)], cwd=staged.parent,
            env=environment, capture_output=True, text=True, timeout=BUILD_LIMIT, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"Allure could not be run: {error}") from error
    if done.returncode != 0 or not (output / "index.html").is_file():
        raise ReportError(f"Allure wrote no report: {' '.join((done.stderr or done.stdout).split())[:300]}")
