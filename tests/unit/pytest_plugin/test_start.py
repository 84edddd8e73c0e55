"""What a session loads before it knows that it runs a task."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LATER = ("playwright", "harness.browser", "harness.engine", "harness.reporting.triage", "harness.runner.harness")


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    code = "import sys, harness.pytest_plugin.plugin; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    return set(found.stdout.split())


@pytest.mark.parametrize("name", LATER)
def test_collecting_needs_no_engine_and_no_browser(loaded: set[str], name: str) -> None:
    assert "harness.pytest_plugin.collect" in loaded
    assert name not in loaded
