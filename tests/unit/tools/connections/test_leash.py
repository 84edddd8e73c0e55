"""A tool server does not outlive the harness, however that ends, and although its standard input is not the leash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.unit.tools.connections.conftest import RAW

HARNESS = """
import asyncio, os, sys
from pathlib import Path
from harness.resilience import SystemClock
from harness.resilience.process import Program
from harness.tools.exchange import ConnectionEvents
from harness.tools.stdio import over_stdio

folder, *servers = sys.argv[1:]

async def main():
    for habit in servers:
        program = Program((sys.executable, "-I", "-S", os.environ["RAW"], "new", habit), {}, Path(folder))
        connect = over_stdio(program, Path(folder) / "tool.log", SystemClock())
        await connect(ConnectionEvents(print, print)).open(20)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    os._exit(0)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", ["kill", pytest.param("exit", marks=pytest.mark.thorough)])
def test_no_server_outlives_the_harness(tmp_path: Path, end: str) -> None:
    here = {"cwd": Path(__file__).parents[4], "env": {**os.environ, "RAW": str(RAW)}}
    command = [sys.executable, "-c", HARNESS, str(tmp_path), "plain", "ignores_eof", "stubborn"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **here) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "ready\n"
        mine = psutil.Process(harness.pid).children(recursive=True)
        assert len(mine) == 6  # a watchdog and a server each
        if end == "kill":
            harness.kill()
        else:
            harness.communicate("\n", timeout=10)
    _, left = psutil.wait_procs(mine, timeout=10)
    assert not left
