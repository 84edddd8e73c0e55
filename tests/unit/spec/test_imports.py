"""A task file costs what it uses: loading one imports neither the libraries of a run nor what other files declare."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.spec.files import HEAD, write

FAULT = "\nfaults: [{kind: page_crash, step: 0}]"
LOAD = """
import sys
from pathlib import Path
from harness.model.settings import load_settings
from harness.spec.load import load_file
load_settings(Path())
print(*(found := set(sys.modules)))
load_file(Path(sys.argv[1]))
print(*(set(sys.modules) - found))
"""
OF_A_RUN = {
    "allure_commons", "asyncio", "cryptography", "httpx2", "jinja2", "lark", "playwright", "psutil", "pygal",
    "pytest", "regex", "rich", "sqlite3", "ssl", "tenacity", "typer", "uvicorn",
}  # fmt: skip
OF_FAULTS = {"harness.spec.faults", "harness.spec.fault_checks", "harness.spec.warnings"}
OF_OTHER_FILES = {"harness.spec.documents", "harness.spec.fault_plan"}
OF_DATA = {"faker", "harness.spec.data_file", "harness.spec.moments"}
OF_FAILURES = {"harness.recovery.failure", "harness.resilience.clock", "harness.criteria.patterns"}


def imported(file: Path) -> set[str]:
    """The modules that a fresh interpreter has after it loaded settings and a file."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(file)], capture_output=True, text=True, check=True, cwd=file.parent
    )
    return set(done.stdout.split())


def test_a_file_without_faults_imports_no_library_of_a_run_and_no_faults(tmp_path: Path) -> None:
    found = imported(write(tmp_path, HEAD + "\nsuccess_criteria: [\"text('#a') == 'b'\"]"))
    assert "harness.criteria.lalr" in found, "its criterion was parsed"
    assert found & (OF_A_RUN | OF_FAULTS | OF_OTHER_FILES | OF_DATA | OF_FAILURES) == set()
    assert len([each for each in found if each.startswith("harness")]) <= 68


def test_a_file_with_faults_imports_them(tmp_path: Path) -> None:
    assert imported(write(tmp_path, HEAD + FAULT)) >= OF_FAULTS
