"""`--task-workers`: several tasks at once in one process, reported in pytest's order."""

from __future__ import annotations

import json
import signal
import time
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from harness.runner.capacity import allowed, cores, usable
from tests.acceptance.conftest import Project
from tests.browser.processes import words

SHOP = {"act": "open", "url": "http://shop.local/"}
WRONG = ["title() == 'Nothing'"]


def pause(seconds: float) -> dict[str, Any]:
    return {"act": "wait", "value": seconds}


def suite(project: Project) -> None:
    """Tasks that pass, fail, heal, depend on each other, share an episode, strike what is shared; in this order."""
    note = {"act": "wait", "value": 0.3, "remember": {"seen": "'yes'"}}
    project.task("A-SLOW", steps=[SHOP, pause(1.5)])
    project.task("B-FAILS", steps=[SHOP, pause(0.3)], success_criteria=WRONG)
    project.task("C-WANTS-B", dependencies=["B-FAILS"])
    project.task("D-FIRST", episode_id="E-1", steps=[note])
    project.task("E-SECOND", episode_id="E-1", steps=[pause(0.1)], success_criteria=["mem('seen') == 'yes'"])
    project.task("F-WANTS-A", dependencies=["A-SLOW"], steps=[pause(0.1)])
    project.task(
        "G-HEALS",
        error_recovery={
            "on_element_not_found": {
                "strategy": "try_fallback_selector", "wait_seconds": 1,
                "fallback_selectors": {"#gone": ["#search-box"]},
            }
        },
        steps=[SHOP, {"act": "click", "selector": "#gone"}],
    )  # fmt: skip
    project.task("H-KILLS", faults=[{"kind": "browser_kill", "step": 1}], steps=[SHOP, SHOP])
    project.task("I-LAST", steps=[SHOP, pause(0.2)])
    for name in ("J-NO-EPISODE", "K-NO-EPISODE"):
        project.task(name, episode_id="", steps=[pause(0.1)])


class Run:
    """A whole run, and what it left."""

    def __init__(self, folder: Any, sites: dict[str, int], *args: str) -> None:
        self.project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
        suite(self.project)
        self.text = self.project.play("-v", "-rs", "--junitxml=out.xml", "--alluredir=allure", *args)
        document = json.loads((folder / ".harness" / "last-run.json").read_text("utf-8"))
        self.records: dict[str, dict[str, Any]] = {each["task_id"]: each for each in document["results"]}

    @property
    def told(self) -> list[tuple[str, str]]:
        """Name and outcome of each task, in the order of the terminal."""
        lines = [line.split() for line in self.text.splitlines() if ".task.json::" in line and "%]" in line]
        return [(words[0].partition("::")[2], words[1]) for words in lines]

    def facts(self) -> dict[str, tuple[Any, ...]]:
        """What must not depend on how many run at once."""
        names = ("final_state", "code", "step_index", "steps_completed", "retries")
        return {
            task: (*(record[name] for name in names), tuple(w["type"] for w in record["warnings"]))
            for task, record in self.records.items()
        }

    def span(self, task: str) -> tuple[datetime, datetime]:
        record = self.records[task]
        start = datetime.fromisoformat(record["started"])
        return start, start + timedelta(seconds=record["seconds"])

    def overlap(self, one: str, other: str) -> bool:
        first, second = sorted((self.span(one), self.span(other)))
        return second[0] < first[1]


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Run:
    return Run(tmp_path_factory.mktemp("serial"), sites)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Run:
    return Run(tmp_path_factory.mktemp("many"), sites, "--task-workers", "4")


@pytest.mark.thorough
def test_the_results_are_those_of_a_serial_run(serial: Run, many: Run) -> None:
    assert many.facts() == serial.facts()
    assert many.told == serial.told
    assert [name for name, _ in many.told] == sorted(name for name, _ in many.told)
    assert dict(many.told)["C-WANTS-B"] == "SKIPPED"
    assert not serial.overlap("A-SLOW", "B-FAILS")


def test_tasks_overlap_where_they_may(many: Run) -> None:
    assert many.overlap("A-SLOW", "B-FAILS")
    assert many.overlap("A-SLOW", "D-FIRST")
    assert not many.overlap("D-FIRST", "E-SECOND"), "an episode stays in order"
    assert not many.overlap("A-SLOW", "F-WANTS-A"), "a dependant waits"


def test_one_that_kills_the_browser_runs_alone(many: Run) -> None:
    assert not any(many.overlap("H-KILLS", other) for other in many.records if other != "H-KILLS")


def test_the_time_of_a_task_is_its_own(many: Run) -> None:
    """Not the moment it took to report what had run before."""
    assert many.records["I-LAST"]["seconds"] >= 0.2
    assert many.span("I-LAST")[0] >= many.span("H-KILLS")[1]


def test_junit_and_allure_know_that_time(many: Run) -> None:
    cases = {str(case.get("name")): case for case in ET.parse(many.project.path / "out.xml").iter("testcase")}
    assert float(cases["I-LAST"].get("time", 0)) >= 0.2
    files = (many.project.path / "allure").glob("*-result.json")
    results = {each["name"].partition(":")[0]: each for each in (json.loads(file.read_text("utf-8")) for file in files)}
    for name in ("A-SLOW", "B-FAILS", "I-LAST"):
        start, end = many.span(name)
        assert abs(results[name]["start"] / 1000 - start.timestamp()) < 0.1
        assert abs(results[name]["stop"] / 1000 - end.timestamp()) < 0.1


def test_events_bear_the_time_at_which_they_happened(many: Run) -> None:
    """Not that of the report: D is reported after A, and ended long before it."""
    lines = (many.project.path / ".harness" / "events.jsonl").read_text("utf-8").splitlines()
    done = {each["task_id"]: each["at"] for each in map(json.loads, lines) if each["type"] == "task"}
    assert set(done) == {*many.records, "C-WANTS-B"}  # it is left out, since B failed
    assert datetime.fromisoformat(done["D-FIRST"]) < many.span("A-SLOW")[1]


@pytest.mark.thorough
def test_xdist_multiplies_processes(
    tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int], serial: Run
) -> None:
    run = Run(tmp_path_factory.mktemp("both"), sites, "-n", "2", "--task-workers", "2")
    facts, expected = run.facts(), serial.facts()
    environment = (run.project.path / "allure" / "environment.properties").read_text("utf-8")
    assert "Browser=Chromium" in environment, "a worker has told it"
    del facts["H-KILLS"], expected["H-KILLS"]  # the other process has another browser
    assert facts == expected


def test_after_the_first_failure_nothing_more_begins_and_what_ran_is_told(project: Project) -> None:
    project.task("A", steps=[SHOP], success_criteria=WRONG)
    project.task("B", steps=[pause(0.01)])
    project.task("C", steps=[SHOP, pause(20)])
    project.task("D", steps=[SHOP, pause(20)], dependencies=["C"])
    began = time.monotonic()
    result = project.run("-x", "--task-workers", "3")
    assert time.monotonic() - began < 18, "C is not waited for"
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ran ahead, not reported: B (completed)*"])
    assert project.report("C")["code"] == "INTERRUPTED"
    assert not (project.path / "errors" / "D").exists()


BROKEN = """
from harness.reporting.archive import DirectoryArchive
whole = DirectoryArchive.passed
def passed(self, plan, result):
    if plan.task_id == 'B':
        raise RuntimeError('a defect of ours')
    whole(self, plan, result)
DirectoryArchive.passed = passed
"""


@pytest.mark.thorough
def test_one_that_ran_ahead_and_broke_off_takes_nothing_of_the_end_away(project: Project) -> None:
    (project.path / "conftest.py").write_text(BROKEN, "utf-8")
    project.task("A", steps=[SHOP, pause(1)], success_criteria=WRONG)
    project.task("B", steps=[pause(0.01)])
    project.task("C", steps=[pause(0.01)])
    result = project.run("-x", "--task-workers", "3")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*A failed: CRITERIA_UNMET*",
        "*ran ahead, not reported: C (completed)*",
        "*ran ahead, could not be finished: B (RuntimeError: a defect of ours)*",
    ])  # fmt: skip
    assert (project.path / ".harness" / "metrics.json").is_file()


def test_ctrl_c_ends_all_of_them_with_their_reports(project: Project) -> None:
    for name in ("A", "B", "C"):
        project.task(name, steps=[SHOP, pause(40)])
    process = project.start("--task-workers", "2")
    marks = project.path / ".harness"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not len(list((project.path / "errors").glob(".tmp/*/[AB]-*"))) >= 2:
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 2, output
    assert {name: project.report(name)["code"] for name in ("A", "B")} == {"A": "INTERRUPTED", "B": "INTERRUPTED"}
    assert not (project.path / "errors" / "C").exists()
    assert "interrupted: A" in output
    assert "interrupted: B" in output
    assert marks.is_dir()


def test_a_browser_that_dies_takes_nobody_along(project: Project) -> None:
    """It is killed from outside, below three tasks at once: each goes back to its start, and passes."""
    for name in ("A", "B", "C"):
        project.task(name, steps=[SHOP, pause(4), SHOP])
    process = project.start("--task-workers", "3")
    browser = _browser(process.pid)
    time.sleep(1.5)
    browser.kill()
    output = process.communicate(timeout=90)[0]
    assert process.returncode == 0, output
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    assert {each["final_state"] for each in document["results"]} == {"completed"}


def _browser(pid: int) -> psutil.Process:
    """The one that the process has started, with a page."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        family = psutil.Process(pid).children(recursive=True)
        if sum("--type=renderer" in words(each) for each in family) >= 3:
            return next(each for each in family if "--headless" in " ".join(words(each)) and not _part(each))
        time.sleep(0.1)
    raise AssertionError("no browser with three pages")


def _part(process: psutil.Process) -> bool:
    return any(word.startswith("--type=") for word in words(process))


@pytest.mark.thorough
def test_an_item_that_is_prepared_in_its_turn_runs_in_its_turn(project: Project) -> None:
    (project.path / "conftest.py").write_text(
        "import pytest\ndef pytest_runtest_setup(item):\n    if item.name == 'B':\n        pytest.skip('not today')\n",
        "utf-8",
    )
    project.task("A", steps=[pause(0.5)])
    project.task("B", steps=[pause(0.1)], success_criteria=["mem('x') == 1"])
    project.run("--task-workers", "2").assert_outcomes(passed=1, skipped=1)
    assert not (project.path / "errors" / "B").exists()


@pytest.mark.thorough
def test_reruns_and_a_hook_that_fails_hold_up_nobody(project: Project) -> None:
    """One worker, so that nothing has begun before its turn."""
    (project.path / "conftest.py").write_text(
        "import pytest\ndef pytest_taskspec_repair(config):\n    pytest.fail('cannot repair this')\n", "utf-8"
    )
    unmet = {"preconditions": ["mem('x') == 1"], "error_recovery": {"on_precondition_fail": "attempt_repair"}}
    project.task("A", steps=[pause(0.01)], success_criteria=["mem('x') == 1"])
    project.task("B", steps=[pause(0.01)], **unmet)
    for name in "CDEF":
        project.task(name, steps=[pause(0.01)])
    result = project.run("--task-workers", "2", "--reruns", "2")
    assert result.parseoutcomes() == {"failed": 2, "passed": 4, "rerun": 4}
    records = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))["results"]
    assert {each["task_id"]: each["final_state"] for each in records if each["task_id"] in "CDEF"} == dict.fromkeys(
        "CDEF", "completed"
    )


OUTCOMES = """
import pytest
def pytest_taskspec_repair(task_id):
    if task_id == 'B-FAIL':
        pytest.fail('cannot repair this')
    if task_id == 'C-SKIP':
        pytest.skip('not on this site')
    if task_id == 'F-EXIT':
        pytest.exit('enough for today', 4)
"""


@pytest.mark.parametrize("workers", ["1", "4"])
@pytest.mark.thorough
def test_an_outcome_in_a_repair_hook_is_that_of_its_task(project: Project, workers: str) -> None:
    (project.path / "conftest.py").write_text(OUTCOMES, "utf-8")
    unmet = {"preconditions": ["mem('x') == 1"], "error_recovery": {"on_precondition_fail": "attempt_repair"}}
    for name in ("A", "B-FAIL", "C-SKIP", "D", "E", "F-EXIT", "G"):
        project.task(name, steps=[pause(0.01)], **(unmet if "-" in name else {}))
    result = project.run("--task-workers", workers, "-rs")
    assert result.ret == 4
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    result.stdout.fnmatch_lines(["*RepairFailed: cannot repair this", "*C-SKIP: not on this site"])
    assert "pytest_taskspec_repair failed: RepairFailed" in project.report("B-FAIL")["error_message"]
    result.stdout.fnmatch_lines(["*Exit: enough for today*"])
    assert project.report("B-FAIL")["code"] == "PRECONDITION_NOT_MET"
    assert project.report("F-EXIT")["code"] == "INTERRUPTED"
    assert not (project.path / "errors" / "C-SKIP").exists()
    assert "interrupted: B" not in result.stdout.str()


@pytest.mark.thorough
def test_an_episode_waits_for_a_member_that_runs_again(project: Project) -> None:
    (project.path / "conftest.py").write_text("", "utf-8")
    project.task("A", episode_id="E-1", steps=[pause(0.1)], success_criteria=["mem('x') == 1"])
    project.task("B", episode_id="E-1", steps=[pause(0.1)])
    project.run("--task-workers", "2", "--reruns", "1")
    lines = (project.path / ".harness" / "events.jsonl").read_text("utf-8").splitlines()
    assert [each["task_id"] for each in map(json.loads, lines) if each["type"] == "task"] == ["A", "A", "B"]


@pytest.mark.thorough
def test_a_plugin_of_the_project_that_steps_in_is_asked_first(project: Project) -> None:
    (project.path / "conftest.py").write_text("pytest_plugins = ['myhooks']\n", "utf-8")
    (project.path / "myhooks.py").write_text(
        "import pytest\ndef pytest_runtest_setup(item):\n    if item.name == 'B':\n        pytest.skip('not today')\n",
        "utf-8",
    )
    project.task("A", steps=[pause(0.3)])
    project.task("B", steps=[pause(0.1)], success_criteria=["mem('x') == 1"])
    project.run("--task-workers", "2").assert_outcomes(passed=1, skipped=1)
    assert not (project.path / "errors" / "B").exists()


def test_a_repair_waits_for_no_turn_where_the_project_has_no_hook(project: Project) -> None:
    """The hook is asked on pytest's thread, which is busy with the first task: so long as that takes."""
    repaired = {"repairs": [{"memory": {"x": 1}}], "error_recovery": {"on_precondition_fail": "attempt_repair"}}
    project.task("A", steps=[pause(6)])
    project.task("B", steps=[pause(0.01)], preconditions=["mem('x') == 1"], **repaired)
    project.run("--task-workers", "2").assert_outcomes(passed=2)
    results = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))["results"]
    first, second = (datetime.fromisoformat(each["started"]) + timedelta(seconds=each["seconds"]) for each in results)
    assert second < first


TIDY = "def pytest_runtest_teardown(item):\n    pass\n"
REPAIRING = "def pytest_taskspec_repair(task_id):\n    return {'y': 1} if task_id == 'SETUP' else None\n"
INNER = {
    "preconditions": ["mem('x') == 1"],
    "repairs": [{"task": "SETUP"}],
    "fallback_plan": {"enabled": True, "alternative_task_id": "SETUP"},
}


@pytest.mark.parametrize(("conftest", "spec"), [(TIDY, {}), (REPAIRING, INNER)], ids=["tidy", "inner"])
@pytest.mark.thorough
def test_one_that_needs_its_turn_waits_for_it(project: Project, conftest: str, spec: dict[str, Any]) -> None:
    """A hook that clears up after an item may take away what the next one stands on."""
    (project.path / "conftest.py").write_text(conftest, "utf-8")
    project.task("A", steps=[pause(1)])
    project.task("B", steps=[pause(0.1)], **spec)
    note = {"act": "wait", "value": 0.01, "remember": {"x": "1"}}
    repaired = {"on_precondition_fail": "attempt_repair"}
    project.task("SETUP", steps=[note], preconditions=["mem('y') == 1"], error_recovery=repaired)
    project.run("--task-workers", "3")
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    first, second = document["results"][:2]
    assert datetime.fromisoformat(second["started"]) >= datetime.fromisoformat(first["started"]) + timedelta(seconds=1)


@pytest.mark.parametrize("workers", ["0", "many", "101"])
@pytest.mark.sampled(1)
def test_a_number_that_cannot_be_is_refused(project: Project, workers: str) -> None:
    project.task("A")
    result = project.run("--task-workers", workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--task-workers*neither `auto` nor a number from 1 to 100*"])


@pytest.mark.thorough
def test_auto_measures(project: Project) -> None:
    """How many it comes to depends on the machine and its load; it begins with one task for each processor."""
    for name in "ABC":
        project.task(name, steps=[pause(2)])
    project.run("--task-workers", "auto").assert_outcomes(passed=3)
    document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    began = [datetime.fromisoformat(each["started"]) for each in document["results"]]
    first_end = began[0] + timedelta(seconds=document["results"][0]["seconds"])
    assert usable(cores(), allowed().cores) == 1 or began[1] < first_end


def test_an_empty_episode_is_none(many: Run) -> None:
    """Each task with one was broken by a KeyError."""
    assert {many.records[name]["final_state"] for name in ("J-NO-EPISODE", "K-NO-EPISODE")} == {"completed"}
