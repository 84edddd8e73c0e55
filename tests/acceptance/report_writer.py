"""Writes reports without end, as a task's end does; to be killed. Arguments: root, run id, log of what is done."""

from __future__ import annotations

import json
import random
import sys
import zipfile
from pathlib import Path

from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import ConsoleLine
from harness.reporting.archive import DirectoryArchive
from harness.reporting.redaction import Redactor
from harness.values import replace
from tests.unit.reporting import sample

KEY = "B1-2025-001"
NAMES = ("screenshot.png", "dom_snapshot.html", "network_logs.har", "trace.zip", "console_logs.txt")


def prepare(folder: Path) -> None:
    """Evidence of a usual size: a picture, a page, a HAR, a trace with pictures."""
    chance = random.Random(7)
    words = " ".join(f"word{chance.randrange(900)}" for _ in range(8_000))
    (folder / "screenshot.png").write_bytes(b"\x89PNG" + chance.randbytes(150_000))
    (folder / "dom_snapshot.html").write_text(f"<h1>shop</h1><p>{words}</p>")
    request = {"method": "GET", "url": "http://shop.local/", "headers": []}
    response = {"status": 200, "headers": [], "content": {"mimeType": "text/html", "text": words[:20_000]}}
    log = {"version": "1.2", "entries": [{"request": request, "response": response} for _ in range(30)]}
    (folder / "network_logs.har").write_text(json.dumps({"log": log}))
    with zipfile.ZipFile(folder / "trace.zip", "w") as made:
        lines = [
            {"type": "before", "callId": f"c{n}", "method": "click", "params": {"selector": "#x"}} for n in range(400)
        ]
        made.writestr("trace.trace", "".join(json.dumps(line) + "\n" for line in lines))
        made.writestr("trace.network", "")
        for number in range(8):
            made.writestr(f"screencast/p-{number}.jpeg", chance.randbytes(40_000))


def main(root: Path, run: str, log: Path) -> None:
    archive = DirectoryArchive(root, run, Redactor(["hunter2-secret"]), keep_previous=3)
    plan = sample.plan(KEY)
    number = 0
    while True:
        number += 1
        folder = archive.scratch(plan)
        prepare(folder)
        result = sample.failed(plan)
        assert result.error is not None
        report = result.error.model_copy(update={"error_message": f"{run}/{number}"})
        items, said = tuple(Item(name, "taken") for name in NAMES), (ConsoleLine(sample.START, "ERROR", "x"),)
        evidence = Evidence(folder, items, "http://shop.local/", said)
        archive.keep(plan, replace(result, error=report), report, evidence, Snapshot({"a": 1}, {"b": 2}))
        with log.open("a") as done:
            done.write(f"{run}/{number}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
