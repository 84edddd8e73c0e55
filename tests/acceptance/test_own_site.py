"""docs/own-site.md, followed by the letter in an empty folder: its files are written out and run.

The tests and hooks of docs/existing-suite.md run beside them.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.acceptance.documented import ROOT, blocks
from tests.acceptance.warm import warm

PAGE = ROOT / "docs" / "own-site.md"
BESIDE = ROOT / "docs" / "existing-suite.md"
INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:faker -p no:cacheprovider\n"

SECRET = {"TODO_PASSWORD": "s3cret-pass"}
"""What its console exports."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the page: each block that begins with the name of a file, the app, and a test of its own."""
    folder = tmp_path_factory.mktemp("own")
    for text in blocks(PAGE, "toml", "yaml", "python"):
        if name := re.match(r"# ([\w./-]+\.(?:toml|yaml|py))\n", text):
            (folder / name[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / name[1]).write_text(text, "utf-8")
    fixtures = "\n".join(text for text in blocks(BESIDE, "python") if re.search("^def test_", text, re.MULTILINE))
    (hooks,) = (text for text in blocks(BESIDE, "python") if "def pytest_taskspec_repair" in text)
    (folder / "test_site.py").write_text(fixtures, "utf-8")
    (folder / "conftest.py").write_text(hooks, "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    shutil.copy(ROOT / "tests" / "acceptance" / "stranger_app.py", folder / "app.py")
    return folder


def test_its_files_have_neither_errors_nor_warnings(folder: Path) -> None:
    done = warm().run("tests.acceptance.command", "validate", "tasks/", cwd=folder)
    assert done.stdout + done.stderr == "6 task files, 6 loaded, 0 with errors\n"


def test_its_six_tasks_and_the_ordinary_tests_are_green(folder: Path) -> None:
    done = warm().run("pytest", "tasks/", "test_site.py", "--task-workers", "4", cwd=folder, timeout=180, **SECRET)
    assert "8 passed" in done.stdout, done.stdout + done.stderr
    assert "5 completed (1 of them recovered), 1 passed as declared" in done.stdout


@pytest.mark.thorough
def test_what_it_prints_below_works_as_printed(folder: Path) -> None:
    """`harness verify`, too, which reads no conftest.py; one task is enough to know, and the whole page takes long."""
    assert "$ export TODO_PASSWORD=s3cret-pass" in PAGE.read_text("utf-8")
    done = warm().run("tests.acceptance.command", "verify", "tasks/01-login.task.yaml", cwd=folder, **SECRET)
    assert done.stdout == "TODO-LOGIN: sound\n1 task, 1 sound\n", done.stdout + done.stderr
    blind = warm().run("tests.acceptance.command", "verify", "tasks/01-login.task.yaml", cwd=folder)
    assert (
        "the environment variable is not set\n  hint: set it where the command runs; only pytest reads what a conftest"
        in blind.stdout
    )
