"""The time of `harness report` for 500 results with artifacts of a usual size.

Run as `python -m benchmarks.report [COUNT]`. Half of the tasks failed, each with screenshot, DOM, HAR, trace and the
pages made of them, as the sink attaches them. Exit status 1 if Allure 3 takes more than 30 seconds.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
import uuid
import zipfile
from pathlib import Path
from typing import Any, Final

from harness.reporting.allure.build import ReportError, Wanted, build_report
from harness.reporting.allure.files import write_allure_files
from harness.reporting.attachments import har_page, side_by_side
from harness.reporting.files import TRACE_MIME
from harness.reporting.redact_files import inert

BOUND: Final = 30.0
"""Seconds for 500 results."""
COUNT: Final = 500
CODES: Final = ("ELEMENT_NOT_FOUND", "STEP_TIMEOUT", "CRITERIA_UNMET", "HTTP_UNAVAILABLE", "NET_DNS")


def write_results(folder: Path, count: int) -> None:
    """Write the results of a run of so many tasks."""
    chance = random.Random(7)
    files = artifacts(chance)
    folder.mkdir(parents=True)
    start = 1_777_636_800_000
    for number in range(count):
        attached = attach(folder, files) if number % 2 else []
        document = result(number, start + number * 900, attached)
        (folder / f"{document['uuid']}-result.json").write_text(json.dumps(document), "utf-8")
    write_allure_files(folder, {"Browser": "chromium", "Run": "20260501T120000-1"}, {})


def artifacts(chance: random.Random) -> dict[str, tuple[str, str, bytes]]:
    """Name -> type, extension and content, with the sizes of the demo sites' failures."""
    words = " ".join(f"word{chance.randrange(900)}" for _ in range(2_500))
    picture = b"\x89PNG\r\n\x1a\n" + chance.randbytes(105_000)
    dom = inert(f"<style>p{{color:#333}}</style><h1>shop</h1>{'<p class=x>' + words[:400] + '</p>' * 20}{words}")
    har = {"log": {"version": "1.2", "entries": [entry(number, words) for number in range(40)]}}
    return {
        "page at the failure": ("text/html", "html", (side_by_side(picture, dom) or "").encode()),
        "requests": ("text/html", "html", (har_page(har) or "").encode()),
        "error report": ("application/json", "json", json.dumps({"message": words[:12_000]}).encode()),
        "screenshot": ("image/png", "png", picture),
        "Playwright trace": (TRACE_MIME, "zip", archive(chance)),
        "DOM snapshot": ("text/html", "html", dom.encode()),
        "environment": ("application/json", "json", json.dumps({"env": words[:14_000]}).encode()),
        "console": ("text/plain", "txt", words[:2_000].encode()),
        "network (HAR)": ("application/json", "json", json.dumps(har).encode()),
        "step trace": ("application/json", "json", json.dumps({"steps": words[:3_000]}).encode()),
        "manifest": ("application/json", "json", b'{"run": "20260501T120000-1"}'),
    }


def entry(number: int, words: str) -> dict[str, Any]:
    """A request of a HAR; every eighth failed."""
    response = {
        "status": 200 if number % 8 else 503,
        "content": {"size": 900, "mimeType": "text/html", "text": words[:900]},
    }
    request = {"method": "GET", "url": f"http://shop.local/{number}", "headers": []}
    return {"startedDateTime": "2026-05-01T12:00:00.000Z", "time": 12, "request": request, "response": response}


def archive(chance: random.Random) -> bytes:
    """A trace of a few steps, with pictures."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("trace.trace", '{"type":"context-options","version":8}\n' * 300)
            for number in range(6):
                made.writestr(f"resources/page-{number}.jpeg", chance.randbytes(30_000))
        return Path(file.name).read_bytes()


def attach(folder: Path, files: dict[str, tuple[str, str, bytes]]) -> list[dict[str, str]]:
    """Attach each file under a unique name."""
    attached = []
    for name, (mime, extension, content) in files.items():
        source = f"{uuid.uuid4()}-attachment.{extension}"
        (folder / source).write_bytes(content)
        attached.append({"name": name, "source": source, "type": mime})
    return attached


def result(number: int, start: int, attached: list[dict[str, str]]) -> dict[str, Any]:
    code = CODES[number % len(CODES)]
    steps = [
        {"name": f"{n}. click #element-{n}", "status": "passed", "start": start + n * 40, "stop": start + n * 40 + 30}
        for n in range(12)
    ]
    labels = {
        "epic": f"site{number % 8}.local",
        "feature": f"family {number % 5}",
        "story": f"T-{number}",
        "severity": "normal",
    }
    document: dict[str, Any] = {
        "uuid": str(uuid.uuid4()), "name": f"T-{number}: a task", "fullName": f"tasks.T-{number}.task#T-{number}",
        "historyId": f"h{number}", "testCaseId": f"h{number}", "status": "passed", "start": start, "stop": start + 800,
        "steps": steps, "attachments": attached,
    }  # fmt: skip
    if attached:
        message = f"T-{number} failed: {code} at step 11 (of 0-11)\nsomething was not there"
        document |= {"status": "broken", "statusDetails": {"message": message, "trace": message * 5}}
        labels["code"] = code
    return {**document, "labels": [{"name": name, "value": value} for name, value in labels.items()]}


def measure(results: Path, folder: Path, wanted: Wanted) -> tuple[float, float, str]:
    """Seconds, MB of the report, and the version of Allure."""
    began = time.perf_counter()
    built = build_report(results, folder / f"report-{uuid.uuid4()}", wanted, project=folder)
    seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in built.index.parent.rglob("*") if path.is_file()) / 1e6
    return seconds, size, built.allure


def main(count: int = COUNT) -> int:
    took = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_results(folder / "results", count)
        size = sum(path.stat().st_size for path in (folder / "results").iterdir()) / 1e6
        files = len(list((folder / "results").iterdir()))
        print(f"{count} results, {files} files, {size:.0f} MB")
        print(f"{'allure':8} {'report':9} {'seconds':>8} {'MB':>6}")
        for name, single in (("folder", False), ("one file", True)):
            try:
                seconds, written, version = measure(folder / "results", folder, Wanted(single_file=single))
            except ReportError as error:
                print(f"{name:9} {error}")
                continue
            took[single] = seconds
            print(f"{version:8} {name:9} {seconds:8.1f} {written:6.0f}")
    return int(took.get(False, BOUND + 1) > BOUND)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
