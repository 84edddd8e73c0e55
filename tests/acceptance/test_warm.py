"""The forks in which tests run commands (warm.py): they end as any Python does, and leave nothing to the next one."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from harness.browser.os_process import runs
from tests.acceptance.conftest import Project, becomes
from tests.acceptance.warm import warm

ENDING = """
import atexit, sys, threading, time
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
print("main")
{end}
"""
ENDS = {
    "": (0, ""),
    "sys.exit(3)": (3, ""),
    "sys.exit('no way')": (1, "no way\n"),
    "sys.exit()": (0, ""),
    "raise KeyError('why')": (1, "KeyError: 'why'\n"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.sampled(2)
def test_an_end_is_that_of_python(tmp_path: Path, end: str) -> None:
    """Threads are awaited, what is registered is called, everything is written, and the exit code is the same."""
    (tmp_path / "ending.py").write_text(ENDING.format(end=end))
    ended = warm().run("ending", cwd=tmp_path)
    code, said = ENDS[end]
    assert ended.stdout == "main\nthread\nat exit\n"
    assert ended.returncode == code
    assert ended.stderr.endswith(said)
    assert bool(ended.stderr) == bool(said)


LONG = """
def test_long(page):
    open("opened", "w").close()
    page.wait_for_timeout(60_000)
"""


def shared_drivers() -> list[psutil.Process]:
    children = [each for each in psutil.Process().children() if runs(each.pid)]
    return [each for each in children if any("shared_driver" in word for word in each.cmdline())]


def browsers() -> list[psutil.Process]:
    """What the shared driver has started."""
    return [each for driver in shared_drivers() for each in driver.children(recursive=True)]


@pytest.mark.thorough
def test_the_browsers_of_a_killed_run_end(project: Project, tmp_path: Path) -> None:
    """Of one without tasks: those of tasks have a reaper of their own."""
    (project.path / "test_long.py").write_text(LONG)
    with (tmp_path / "output").open("w+") as output:
        run = warm().start("pytest", stdout=output, cwd=project.path)
        assert becomes((project.path / "opened").exists), (tmp_path / "output").read_text()
        assert browsers()
        run.kill()
        run.wait()
        assert becomes(lambda: not browsers())


@pytest.mark.thorough
def test_a_driver_that_has_died_is_replaced(project: Project) -> None:
    project.task("T-1")
    project.run().assert_outcomes(passed=1)
    (before,) = shared_drivers()
    project.run().assert_outcomes(passed=1)
    assert shared_drivers() == [before]
    before.kill()
    assert becomes(lambda: not runs(before.pid))
    project.run().assert_outcomes(passed=1)
    (after,) = shared_drivers()
    assert after != before


DRIVERS = """
import psutil, pytest

def is_driver(process):
    try:
        return "run-driver" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False

@pytest.fixture(autouse=True)
def drivers():
    yield
    with open("drivers", "w") as file:
        file.write(str(sum(map(is_driver, psutil.Process().children(recursive=True)))))
"""


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.own_driver)])
@pytest.mark.thorough
def test_a_run_starts_a_driver_of_its_own_only_if_its_test_says_so(project: Project, number: int) -> None:
    (project.path / "conftest.py").write_text(DRIVERS)
    project.task("T-1")
    project.run().assert_outcomes(passed=1)
    assert (project.path / "drivers").read_text() == str(number)
