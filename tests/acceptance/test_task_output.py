"""What foreign code prints and logs while its task runs ahead stands with that task (`--task-workers`)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.acceptance.conftest import Project

CHANNEL = """
import logging, sys, time
from pathlib import Path

def read(world):
    until = time.monotonic() + 30
    while not Path(__file__).with_name("listening").exists() and time.monotonic() < until:
        time.sleep(0.02)
    name = Path(__file__).with_name("spoken")
    print(f"[{world}] printed")
    print(f"[{world}] complained", file=sys.stderr)
    logging.getLogger("project").warning("[%s] logged", world)
    name.touch()
    return {"ready": "no"}
"""
TEST = """
import time
from pathlib import Path

def test_a_neighbour(capsys):
    Path("listening").touch()
    until = time.monotonic() + 30
    while not Path("spoken").exists() and time.monotonic() < until:
        time.sleep(0.05)
    print("mine")
    assert capsys.readouterr() == ("mine\\\\n", "")
"""


@pytest.fixture
def spoken(project: Project) -> Project:
    """A is quick; B speaks while a test of Python's own waits for that, and fails."""
    pyproject = project.path / "pyproject.toml"
    text = pyproject.read_text("utf-8") + '\n[tool.harness.channels.spoken]\npython = "speaking:read"\n'
    pyproject.write_text(text, "utf-8")
    (project.path / "speaking.py").write_text(CHANNEL, "utf-8")
    (project.path / "test_between.py").write_text(TEST.replace("\\\\", "\\"), "utf-8")
    wait = [{"act": "wait", "value": 0.01}]
    project.task("A", steps=wait)
    project.task("B", steps=wait, success_criteria=["json('spoken', 'ready') == 'yes'"])
    (project.path / "A.task.json").rename(project.path / "a_first.task.json")
    (project.path / "B.task.json").rename(project.path / "z_last.task.json")
    return project


def sections(path: Path) -> dict[str, tuple[str, str]]:
    """Test -> what junit.xml says that it has printed, logged and complained."""
    return {
        str(case.get("name")): (case.findtext("system-out", ""), case.findtext("system-err", ""))
        for case in ET.parse(path).iter("testcase")
    }


def test_it_stands_with_the_task_that_said_it(spoken: Project) -> None:
    result = spoken.run("a_first.task.json", "test_between.py", "z_last.task.json", "--task-workers", "3",
                        "--junitxml=out.xml", "-o", "junit_logging=all")  # fmt: skip
    result.assert_outcomes(passed=2, failed=1)
    found = sections(spoken.path / "out.xml")
    out, err = found.pop("B")
    assert "printed" in out
    assert "logged" in out
    assert "complained" in err
    assert not any("[" in text for texts in found.values() for text in texts)
    result.stdout.fnmatch_lines(["*Captured stdout call*", "*printed", "*Captured stderr call*", "*complained",
                                 "*Captured log call*", "WARNING * logged"])  # fmt: skip


@pytest.mark.thorough
def test_without_capture_it_goes_straight_through(spoken: Project) -> None:
    """Past the test between, which waits for it, and captures what it says itself."""
    result = spoken.run("a_first.task.json", "test_between.py", "z_last.task.json", "--task-workers", "3", "-s", "-v")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*printed*", "*PASSED*", "z_last.task.json::B*"])


@pytest.mark.thorough
def test_live_logs_come_with_their_task(spoken: Project) -> None:
    result = spoken.run("a_first.task.json", "test_between.py", "z_last.task.json", "--task-workers", "3",
                        "-o", "log_cli=true", "-o", "log_cli_level=WARNING")  # fmt: skip
    result.stdout.fnmatch_lines(["test_between.py::test_a_neighbour*PASSED*", "z_last.task.json::B*", "*live log call*",
                                 "WARNING * logged", "FAILED*"])  # fmt: skip
