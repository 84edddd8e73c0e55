"""The command as a program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

INTERRUPTED = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from harness.cli import main
main()
"""


@pytest.mark.parametrize("module", ["harness.cli.ending", "harness.cli.chaos"])
def test_ctrl_c_while_it_starts_is_no_error_to_speak_of(module: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", INTERRUPTED.format(module=module), "chaos", "--help"]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")
