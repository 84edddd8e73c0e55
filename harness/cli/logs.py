"""`harness services logs` and `harness tools logs`: the ends of log files, and what is written to them from then on."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.ending import JSON_LINES, fail
from harness.environment.status import follow, last_lines
from harness.reporting.files import shown_path, visible
from harness.resilience import SystemClock

Count = Annotated[int, typer.Option("-n", "--lines", min=0, help="Lines to show, from the end.")]
Wait = Annotated[bool, typer.Option("--follow", "-f", help="Show new lines until Ctrl-C.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help=JSON_LINES)]

_STEERING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?)")
"""What colours a text, moves the cursor or sets the title of a terminal."""


def show_logs(
    files: Mapping[str, Path],
    kind: str,
    count: int,
    *,
    wait: bool,
    as_json: bool,
    clean: Callable[[str], str] = str,
) -> None:
    """Print the last lines of each file. `kind`: the key of a name in JSON; `clean`: of a line.

    What would steer a terminal is shown as text: a log holds what a site, and so a stranger, wrote.
    """
    if not wait and not any(file.is_file() for file in files.values()):
        fail(f"no log yet: {', '.join(shown_path(file) for file in files.values())}")

    def tell(name: str, line: str) -> None:
        found = clean(line)
        told = _STEERING.sub("", found)
        text = visible(f"{name} | {told}" if len(files) > 1 else told)
        print(json.dumps({kind: name, "line": found}) if as_json else text, flush=True)

    async def tell_new() -> None:
        async for name, line in follow(files, SystemClock()):
            tell(name, line)

    for name, file in files.items():
        for line in last_lines(file, count):
            tell(name, line)
    if wait:
        asyncio.run(tell_new())
