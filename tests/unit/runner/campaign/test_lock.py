"""Campaigns that end services run alone; the lock is let go of with the process that holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.runner.campaign.trials import BusyError, reserved

HOLDS = """
import sys
from pathlib import Path
from harness.runner.campaign.trials import reserved
with reserved(Path(sys.argv[1]), "other.faults.yaml", alone=True):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_that_ends_services_tolerates_no_other(tmp_path: Path) -> None:
    file = tmp_path / "chaos" / "lock"
    with reserved(file, "first.faults.yaml", alone=True):
        for alone in (True, False):
            with (
                pytest.raises(BusyError, match=rf"another campaign .*\(pid {os.getpid()}, first\.faults\.yaml\)"),
                reserved(file, "second", alone=alone),
            ):
                pass
    with reserved(file, "second", alone=True):
        assert file.read_text("utf-8") == f"{os.getpid()} second\n"


def test_the_others_run_beside_each_other_and_keep_it_out(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with (
        reserved(file, "a", alone=False),
        reserved(file, "b", alone=False),
        pytest.raises(BusyError, match=r", a; pid \d+, b\)"),
        reserved(file, "c", alone=True),
    ):
        pass
    with reserved(file, "c", alone=True):
        pass


def test_a_process_that_is_killed_holds_it_no_more(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDS, str(file)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(BusyError, match=f"pid {process.pid}, other"), reserved(file, "mine", alone=True):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    with reserved(file, "mine", alone=True):
        assert file.read_text("utf-8") == f"{os.getpid()} mine\n"
