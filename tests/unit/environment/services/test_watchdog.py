"""A service does not outlive the harness, however that ends."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.ports import listens
from tests.unit.environment.services.conftest import PROGRAM, alive, eventually, programs

HARNESS = """
import asyncio, os, sys
from pathlib import Path
from harness.resilience import SystemClock
from harness.environment.services import Services
from harness.model.service_settings import ServiceSettings

port, folder, mode, end = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
program = os.environ["PROGRAM"]
site = ServiceSettings(command=("{python}", program, str(port), "site", mode), hosts={"a.local": port},
                       health="http://a.local/", ready_timeout=20)
services = Services({"site": site}, root=folder, logs=folder, clock=SystemClock())
asyncio.run(services.start())
print("ready", flush=True)
if end == "exit":
    os._exit(0)
if end == "fork" and os.fork() == 0:
    os.close(1)
sys.stdin.read()
"""

HERE: dict[str, Any] = {"cwd": Path(__file__).parents[4], "env": {**os.environ, "PROGRAM": str(PROGRAM)}}


@pytest.mark.parametrize("mode", ["family", "stubborn"])
@pytest.mark.parametrize("end", [signal.SIGKILL, "exit", "fork"])
@pytest.mark.sampled(1)
def test_no_service_survives_the_harness(run: Any, port: int, tmp_path: Path, mode: str, end: Any) -> None:
    arguments = [str(port), str(tmp_path), mode, str(end)]
    harness = run("-c", HARNESS, *arguments, stdin=-1, stdout=-1, **HERE)
    assert harness.stdout.readline() == b"ready\n"
    if end != "exit":
        harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert eventually(lambda: not programs(port))
    grandchild = int(re.findall(r"child (\d+)", (tmp_path / "site.log").read_text())[0])
    assert eventually(lambda: not alive(grandchild))
    assert not listens(port)
