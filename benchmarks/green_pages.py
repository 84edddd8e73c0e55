"""What `page_tests` costs a green suite of ordinary Playwright tests: the ratio of processor time, with and without."""

from __future__ import annotations

from benchmarks.figures import Spread, paired_ratio
from benchmarks.ground import CONFTEST, Ground
from benchmarks.playing import ALONE, UNUSED, PytestRun, play
from benchmarks.programs import in_turns
from benchmarks.table import Bound, Row

TESTS = 40
SUITE = """\
import pytest
from playwright.sync_api import expect

PAGE = "<input id=q><button onclick='n.textContent++'>Buy</button><b id=n>0</b><script>console.log('hi')</script>"


@pytest.mark.parametrize("number", range({tests}))
def test_green(page, number):
    page.goto("data:text/html," + PAGE)
    for count in range(5):
        page.fill("#q", "some text")
        page.click("button")
        expect(page.locator("#n")).to_have_text(str(count + 1))
"""
BOUND = Bound(1.05)
OFF = tuple(part for name in (*UNUSED, "allure_pytest") for part in ("-p", f"no:{name}"))


def measure(ground: Ground, rounds: int) -> Row:
    """The row of the table. One run of each, which compiles Python files, does not count."""
    folder = ground.folder("pages")
    (folder / "test_green.py").write_text(SUITE.format(tests=TESTS), "utf-8")
    own = CONFTEST.format(executable=str(ground.executable), args=ground.args, agent=ground.agent)
    (folder / "conftest.py").write_text(own, "utf-8")

    def run(*more: str) -> PytestRun:
        return play(("-m", "pytest", "-q", *OFF, *ALONE, *more), folder)

    runs = {"ours": lambda: run("--task-page-tests"), "rival": run}
    in_turns(runs, 1)
    played = in_turns(runs, rounds)
    each = [one for side in played.values() for one in side]
    wrong = next((one.output[-300:] for one in each if one.code or f"{TESTS} passed" not in one.output), "")
    mine, theirs = ([one.cpu for one in played[side]] for side in ("ours", "rival"))
    what, of = f"{TESTS} green Playwright tests with `page_tests`, over without", Spread.of
    return Row("light: processor time", what, "s", of(mine), of(theirs), paired_ratio(mine, theirs), BOUND, wrong)
