"""Puts Playwright's own trace viewer beside a report, with a page that lists the traces: all of it works offline."""

from __future__ import annotations

import html
import importlib.util
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

VIEWER = "trace-viewer"
TRACES = "traces"

HERE = "http://report.invalid/"
"""Stands for the report's own address in its links: Allure shows none that is relative."""

HERE_SCRIPT = f"""<script>
document.addEventListener("click", (event) => {{
  const link = event.target.closest?.('a[href^="{HERE}"]');
  if (link) link.href = link.href.replace("{HERE}", new URL(".", location.href.split("#")[0]).href);
}}, true);
</script>
"""
"""Puts the real address in, when such a link is clicked."""


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A trace.zip among the Allure results, and the test it belongs to."""

    test: str
    status: str
    file: str

    @property
    def link(self) -> str:
        """Relative to the report's folder; the viewer resolves `trace` against its own."""
        return f"{VIEWER}/index.html?trace=../{TRACES}/{self.file}"


def add_viewer(report: Path, results: Path, traces: Iterable[TraceFile]) -> bool:
    """Whether a viewer was added: not without traces, nor when the Playwright package has none."""
    found, source = list(traces), viewer_folder()
    if not found or source is None:
        return False
    shutil.copytree(source, report / VIEWER, dirs_exist_ok=True)
    (report / TRACES).mkdir(exist_ok=True)
    for trace in found:
        link_or_copy(results / trace.file, report / TRACES / trace.file)
    (report / TRACES / "index.html").write_text(_page(found), "utf-8")
    return True


def viewer_folder() -> Path | None:
    """Where the installed Playwright keeps its trace viewer (static files)."""
    spec = importlib.util.find_spec("playwright")
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, "driver", "package", "lib", "vite", "traceViewer")
        if (folder / "index.html").is_file():
            return folder
    return None


def link_or_copy(source: Path, target: Path) -> None:
    """A hard link where the disk allows it: traces are large."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _page(traces: list[TraceFile]) -> str:
    rows = "".join(
        f'<tr><td>{html.escape(trace.status)}</td><td><a href="../{html.escape(trace.link)}">{html.escape(trace.test)}'
        f'</a></td><td><a href="{html.escape(trace.file)}" download>trace.zip</a></td></tr>\n'
        for trace in sorted(traces, key=lambda trace: trace.test)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Traces</title>\n'
        "<style>body{font:15px sans-serif;margin:2em}td{padding:.3em 1em .3em 0}</style></head>\n"
        f'<body><h1>Traces</h1><table>\n{rows}</table><p><a href="../index.html">Report</a></p></body></html>\n'
    )
