"""The plugin from outside: pytest run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import jsonschema
import psutil
import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm_workers import workers_of
from tests.browser.processes import words
from tests.conftest import FULL

OPEN = {"act": "open", "url": "http://shop.local/"}
WRONG = ["title() == 'Nothing'"]


BESIDE = """
def test_plain():
    assert True

def test_page(page):
    page.set_content("<h1>hi</h1>")
    assert page.inner_text("h1") == "hi"
"""
SECRET = "hunter2-secret"


class Whole(NamedTuple):
    """The run that most tests look at, and what the terminal showed."""

    project: Project
    text: str

    def outcome(self, name: str) -> str:
        """PASSED, FAILED or SKIPPED, as `-v` has it."""
        (line,) = (each for each in self.text.splitlines() if f"::{name} " in each and "%]" in each)
        return line.partition(f"::{name} ")[2].split()[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Whole:
    """Tasks that end in every way, beside ordinary tests, in one run."""
    folder = tmp_path_factory.mktemp("whole")
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), sites)
    (folder / "test_beside.py").write_text(BESIDE, "utf-8")
    project.task("GOOD-1")
    (folder / "errors" / "GOOD-1").mkdir(parents=True)
    (folder / "errors" / "GOOD-1" / "error_report.json").write_text("{}", "utf-8")
    project.task("BAD-1", steps=[OPEN, {"act": "click", "selector": "#nowhere"}, OPEN])
    project.task("UNMET-1", memory={"a": 1}, family="B", priority=1, tags=["slow"], success_criteria=WRONG)
    project.task("UNMET-2", dependencies=["UNMET-1"])
    declared = {"final_state": "failed", "error_type": "assertion_failed"}
    project.task("DECLARED-1", success_criteria=WRONG, expect=declared)
    project.task("DECLARED-2", expect=declared)
    project.task("EP-2", dependencies=["EP-1"], episode_id="ep", success_criteria=["mem('title') == 'x'"])
    project.task("EP-1", episode_id="ep", steps=[{**OPEN, "remember": {"title": "'x'"}}])
    (folder / "broken.task.yaml").write_text("task_id: X\nsteps:\n  - {act: clik, selector: '#a'}\n", "utf-8")
    (folder / "other.task.json").write_text(project.task("TWICE-1").read_text("utf-8"), "utf-8")
    project.task("BASE-1", steps=[{"act": "open", "url": "/"}], success_criteria=["url() == 'http://shop.local/'"])
    secret = {"act": "upload", "selector": "#f", "value": "${env:PW_SECRET}"}
    project.task("UNREADY-1", steps=[OPEN, secret])
    document = json.loads((file := project.task("FOLDER-1")).read_text("utf-8"))
    file.unlink()
    steps = document.pop("steps")
    (folder / "F1").mkdir()
    (folder / "F1" / "task_spec.json").write_text(json.dumps(document), "utf-8")
    (folder / "F1" / "oracle_trace.json").write_text(json.dumps({"task_id": "FOLDER-1", "steps": steps}), "utf-8")
    options = ("-v", "-rfs", "--base-url", "http://shop.local", "--junitxml=out.xml", "--alluredir=allure")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PW_SECRET", SECRET)
        patch.setenv("CI", "true")
        return Whole(project, project.play(*options))


def test_tasks_run_beside_ordinary_tests_and_the_page_fixture(whole: Whole) -> None:
    assert {whole.outcome(name) for name in ("GOOD-1", "test_plain", "test_page[chromium]")} == {"PASSED"}
    assert "6 failed, 9 passed, 1 skipped" in whole.text


@pytest.mark.thorough
def test_the_page_fixture_keeps_the_browser_that_its_project_chooses(project: Project) -> None:
    project.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def browser_type_launch_args(browser_type_launch_args):
            return {**browser_type_launch_args, "executable_path": "/nowhere/chosen"}
        """
    )
    project.pytester.makepyfile("def test_page(page): pass")
    result = project.run()
    result.assert_outcomes(errors=1)
    assert "/nowhere/chosen" in result.stdout.str()


def test_a_failed_task_explains_itself_on_one_screen(whole: Whole) -> None:
    shown = re.split(r"\n[_=]{4}", whole.text[whole.text.index("BAD-1 failed") :])[0]
    for part in (
        "ELEMENT_NOT_FOUND at step 1 (of 0-2): click #nowhere",
        "> ",
        "#nowhere",
        "hint:",
        "errors/BAD-1",
    ):
        assert part in shown
    assert "Traceback" not in whole.text
    assert len(shown.splitlines()) <= 40


def test_the_short_summary_has_one_line_for_a_failure_also_in_ci(whole: Whole) -> None:
    _, *lines, _ = whole.text[whole.text.index("short test summary info") :].splitlines()
    assert [line.partition(" ")[0] for line in lines] == [*["FAILED"] * 6, "SKIPPED"]
    (line,) = (each for each in lines if "UNMET-1.task.json" in each)
    assert line.startswith("FAILED UNMET-1.task.json::UNMET-1 - CRITERIA_UNMET at the success criteria: ")


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_in_ci_what_was_expected_is_told_once(
    project: Project, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CI", "true")
    project.task("BAD-1", success_criteria=WRONG)
    text = project.run(*workers).stdout.str()
    short = text[text.index("short test summary info") :].splitlines()
    assert len(short) == 3
    assert short[1].startswith("FAILED BAD-1.task.json::BAD-1 - CRITERIA_UNMET at the success criteria: ")
    assert text.count("expected:") == 1


def test_every_artifact_of_a_failure_is_there(whole: Whole) -> None:
    folder = whole.project.path / "errors" / "UNMET-1"
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "error_report.json",
        "screenshot.png",
        "dom_snapshot.html",
        "memory_snapshot.json",
        "env_snapshot.json",
        "console_logs.txt",
        "network_logs.har",
        "partial_trace.json",
        "trace.zip",
        "manifest.json",
    }
    report = whole.project.report("UNMET-1")
    assert (report["error_type"], report["code"], report["step_index"]) == ("assertion_failed", "CRITERIA_UNMET", 1)
    assert report["context"]["assertion"]["expected"] == "Nothing"
    _valid(report, "error_report")
    _valid(json.loads((folder / "partial_trace.json").read_text("utf-8")), "trace")
    for entry in json.loads((folder / "memory_snapshot.json").read_text("utf-8")).values():
        _valid(entry, "memory_kv")


def _valid(document: dict[str, Any], schema: str) -> None:
    path = Path(__file__).parents[2] / "schemas" / f"{schema}.schema.json"
    jsonschema.validate(document, json.loads(path.read_text("utf-8")))


@pytest.mark.thorough
def test_selection_by_mark_and_by_name(project: Project) -> None:
    project.task("B-1", family="B", tags=["slow"])
    project.task("C-1", family="C")
    project.run("-m", "family_B").assert_outcomes(passed=1, deselected=1)
    project.run("-m", "slow").assert_outcomes(passed=1, deselected=1)
    project.run("-k", "C-1", "--strict-markers").assert_outcomes(passed=1, deselected=1)


@pytest.mark.thorough
def test_lf_runs_what_failed(project: Project) -> None:
    project.task("A-1")
    project.task("B-1", success_criteria=WRONG)
    project.pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=1)
    project.pytester.runpytest_subprocess("--lf").assert_outcomes(failed=1)


@pytest.mark.thorough
@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_stopping_at_the_first_failure(project: Project, option: str) -> None:
    project.task("A-1", priority=1, success_criteria=WRONG)
    project.task("B-1", priority=2)
    project.run(option).assert_outcomes(failed=1)


@pytest.mark.thorough
def test_the_most_urgent_task_runs_first(project: Project) -> None:
    project.task("A-LATE", priority=4)
    project.task("B-EARLY", priority=1)
    result = project.run("-v")
    text = result.stdout.str()
    assert text.index("B-EARLY") < text.index("A-LATE")


def test_junit_xml_carries_the_outcome(whole: Whole) -> None:
    (case,) = (
        each for each in ET.parse(whole.project.path / "out.xml").iter("testcase") if each.get("name") == "UNMET-1"
    )
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["final_state"] == "failed"
    assert (properties["error_type"], properties["code"]) == ("assertion_failed", "CRITERIA_UNMET")
    assert properties["task_artifacts"] == str(whole.project.path / "errors" / "UNMET-1")


def test_a_task_waits_for_what_it_depends_on_and_shares_its_episode(whole: Whole) -> None:
    assert (whole.outcome("EP-1"), whole.outcome("EP-2")) == ("PASSED", "PASSED")
    assert whole.text.index("::EP-1 ") < whole.text.index("::EP-2 ")


def test_dependants_of_a_failed_task_are_skipped_with_the_reason(whole: Whole) -> None:
    assert whole.outcome("UNMET-2") == "SKIPPED"
    assert "depends on UNMET-1, which did not pass" in whole.text


@pytest.mark.thorough
def test_dependants_of_a_missing_task_are_skipped_with_the_reason(project: Project) -> None:
    project.task("B-1")
    project.task("A-2", dependencies=["B-1"])
    result = project.run("-rs", "-k", "A-2")
    assert "not among the tasks of this run" in result.stdout.str()
    assert result.parseoutcomes()["skipped"] == 1


def test_a_broken_file_is_one_failure_and_the_others_run(whole: Whole) -> None:
    assert "broken.task.yaml:3:" in whole.text
    assert "did you mean `click`?" in whole.text


@pytest.mark.thorough
def test_under_xdist_a_broken_file_is_one_failure_and_the_others_run(project: Project) -> None:
    project.task("GOOD-1")
    (project.path / "broken.task.yaml").write_text("task_id: X\nsteps:\n  - {act: clik, selector: '#a'}\n", "utf-8")
    result = project.run("-n", "2")
    result.assert_outcomes(passed=1, failed=1)
    assert "broken.task.yaml:3:" in result.stdout.str()
    assert "click" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.thorough
def test_a_broken_python_file_still_stops_the_run(project: Project) -> None:
    project.task("GOOD-1")
    project.pytester.makepyfile(test_broken="import nothing_like_it")
    assert project.run().ret == pytest.ExitCode.INTERRUPTED


def test_duplicate_ids_fail_with_both_names_and_the_others_run(whole: Whole) -> None:
    assert "other.task.json" in whole.text
    assert "is taken by TWICE-1.task.json" in whole.text


@pytest.mark.thorough
def test_under_xdist_duplicate_ids_fail_with_both_names_and_the_others_run(project: Project) -> None:
    project.task("A-1")
    (project.path / "other.task.json").write_text((project.path / "A-1.task.json").read_text("utf-8"), "utf-8")
    project.task("C-1")
    result = project.run("-n", "2")
    result.assert_outcomes(passed=2, failed=1)
    assert "other.task.json" in result.stdout.str()
    assert "is taken by A-1.task.json" in result.stdout.str()


@pytest.mark.thorough
def test_a_circle_of_dependencies_is_told_and_the_others_run(project: Project) -> None:
    project.task("A-1", dependencies=["B-1"])
    project.task("B-1", dependencies=["A-1"])
    project.task("C-1")
    result = project.run()
    counts = result.parseoutcomes()
    assert (counts["passed"], counts["failed"]) == (1, 1)
    assert "-> A-1" in result.stdout.str()


@pytest.mark.parametrize(
    "dist",
    ["loadfile", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("worksteal", "loadscope", "loadgroup"))],
)
@pytest.mark.sampled(1)
def test_dependencies_hold_however_xdist_deals(project: Project, dist: str) -> None:
    project.task("B-1")
    project.task("A-2", dependencies=["B-1"])
    project.run("-n", "2", "--dist", dist).assert_outcomes(passed=2)


@pytest.mark.thorough
def test_a_session_without_tasks_starts_nothing(project: Project) -> None:
    project.pytester.makepyfile("def test_plain(): pass")
    project.run("-n", "2").assert_outcomes(passed=1)
    assert not (project.path / ".harness").exists()
    assert not (project.path / "errors").exists()


@pytest.mark.thorough
def test_lf_does_not_forget_a_dependant_that_it_cannot_run(project: Project) -> None:
    project.task("B-1")
    project.task("A-2", dependencies=["B-1"], success_criteria=WRONG)
    run = project.pytester.runpytest_subprocess
    run().assert_outcomes(passed=1, failed=1)
    for _ in range(2):
        again = run("--lf", "-rs")
        again.assert_outcomes(skipped=1)
        assert "A-2.task.json" in again.stdout.str()
        assert "not among the tasks of this run" in again.stdout.str()


@pytest.mark.parametrize("name", ["errors", ".harness"])
@pytest.mark.thorough
def test_a_folder_that_cannot_be_made_is_told_once(project: Project, name: str) -> None:
    project.task("A-1")
    project.task("B-1")
    (project.path / name).write_text("a file", "utf-8")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert name in result.stderr.str()
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_spec_that_cannot_be_made_ready_counts_and_keeps_its_secrets(whole: Whole) -> None:
    folder, text = whole.project.path, whole.text
    assert re.search(r"^tasks: .* \d aborted", text, re.MULTILINE)
    assert "UNREADY-1 aborted: INVALID_INPUT before the first step" in text
    assert re.search(r"^ +UNREADY-1\.task\.json:\d+:\d+: steps\[1\]\.value: ", text, re.MULTILINE)
    assert "artifacts: errors/UNREADY-1" in text
    report = whole.project.report("UNREADY-1")
    assert (report["code"], report["step_index"]) == ("INVALID_INPUT", -1)
    texts = [path.read_text("utf-8") for path in (folder / "errors" / "UNREADY-1").iterdir()]
    texts += [text, (folder / "out.xml").read_text("utf-8")]
    texts += [path.read_text("utf-8", "replace") for path in (folder / "allure").iterdir()]
    assert not any("hunter2" in text for text in texts)


@pytest.mark.thorough
def test_under_xdist_tasks_and_groups_run_and_are_summed_up(project: Project) -> None:
    project.task("B-1", episode_id="ep")
    project.task("A-2", dependencies=["B-1"], episode_id="ep")
    project.task("C-3", success_criteria=WRONG)
    result = project.run("-n", "2")
    result.assert_outcomes(passed=2, failed=1)
    assert "2 completed, 1 failed" in result.stdout.str()
    assert (project.path / "errors" / "C-3" / "error_report.json").is_file()


def test_an_expected_failure_passes_and_an_unexpected_outcome_fails(whole: Whole) -> None:
    assert (whole.outcome("DECLARED-1"), whole.outcome("DECLARED-2")) == ("PASSED", "FAILED")
    assert "final_state: expected failed, was completed" in whole.text
    assert whole.project.report("DECLARED-1")["expected"] is True
    assert "1 passed as declared" in whole.text


def test_a_passing_task_moves_its_old_report_away(whole: Whole) -> None:
    assert not (whole.project.path / "errors" / "GOOD-1").exists()
    assert list((whole.project.path / "errors" / ".previous").glob("*/GOOD-1/error_report.json"))


@pytest.mark.thorough
def test_task_artifacts_go_where_they_are_asked_for(project: Project) -> None:
    project.task("A-1", success_criteria=WRONG)
    project.run("--task-artifacts", "elsewhere")
    assert project.report("A-1", "elsewhere")["code"] == "CRITERIA_UNMET"


def test_base_url_completes_relative_urls(whole: Whole) -> None:
    assert whole.outcome("BASE-1") == "PASSED"


@pytest.mark.thorough
def test_no_recovery_and_no_heal(project: Project) -> None:
    rules = {"on_element_not_found": {"wait_seconds": 0.5, "fallback_selectors": {"#nowhere": ["body"]}}}
    project.task("A-1", steps=[OPEN, {"act": "click", "selector": "#nowhere"}], error_recovery=rules)
    healed = project.run()
    healed.assert_outcomes(passed=1)
    assert "`#nowhere` -> `body`" in healed.stdout.str()
    project.run("--task-no-recovery").assert_outcomes(failed=1)
    project.run("--task-no-heal").assert_outcomes(failed=1)


@pytest.mark.thorough
def test_strict_makes_warnings_failures(project: Project) -> None:
    rules = {"on_timeout": "abort", "on_network_error": "abort", "on_assertion_fail": "abort_silent"}
    whole = {"family": "A", "inputs": {}, "success_criteria": ["title() != null"], "error_recovery": rules}
    project.task("A-1", memory_keys=["never"], **whole)
    project.run().assert_outcomes(passed=1)
    strict = project.run("--taskspec-strict")
    strict.assert_outcomes(failed=1)
    assert "never" in strict.stdout.str()


@pytest.mark.thorough
def test_timeout_scale_stretches_the_limits(project: Project) -> None:
    steps = [OPEN, {"act": "wait", "selector": "#nowhere", "timeout": 0.5}]
    project.task("A-1", steps=steps)
    project.run("--task-timeout-scale", "3")
    assert "1.5s" in project.report("A-1")["error_message"]


@pytest.mark.parametrize(("tracing", "there"), [("off", False), ("on", True)])
@pytest.mark.thorough
def test_tracing_acts(project: Project, tracing: str, there: bool) -> None:
    project.task("A-1", success_criteria=WRONG)
    project.run("--tracing", tracing)
    assert (project.path / "errors" / "A-1" / "trace.zip").exists() is there


@pytest.mark.thorough
def test_tracing_on_keeps_the_trace_of_a_task_that_passes(project: Project) -> None:
    project.task("A-1")
    project.run("--tracing", "on").assert_outcomes(passed=1)
    assert (project.path / "errors" / ".kept" / "A-1" / "trace.zip").stat().st_size > 1000


def test_a_video_is_kept_of_a_failed_task_and_attached(project: Project) -> None:
    project.task("A-1", success_criteria=WRONG)
    project.task("B-1")
    run = project.run("--task-video", "retain-on-failure", "--alluredir", "allure")
    run.assert_outcomes(passed=1, failed=1)
    video = project.path / "errors" / "A-1" / "video.webm"
    assert video.read_bytes()[:4] == b"\x1a\x45\xdf\xa3"
    manifest = json.loads(video.with_name("manifest.json").read_text("utf-8"))
    entries = {each["name"]: each["status"] for each in manifest["artifacts"]}
    assert entries["video.webm"] == "taken"
    assert not list((project.path / "errors").rglob("B-1/video.webm"))
    texts = [path.read_text("utf-8") for path in (project.path / "allure").glob("*-result.json")]
    attached = [each for text in texts for each in json.loads(text).get("attachments", []) if each["name"] == "video"]
    assert [each["type"] for each in attached] == ["video/webm"]
    assert (project.path / "allure" / attached[0]["source"]).read_bytes() == video.read_bytes()


@pytest.mark.thorough
def test_a_video_of_a_task_that_passes_is_kept_with_on_and_its_lack_is_said_once(project: Project) -> None:
    project.task("A-1")
    project.task("B-1")
    project.run("--video", "on").assert_outcomes(passed=2)
    kept = project.path / "errors" / ".kept" / "A-1" / "video.webm"
    assert kept.stat().st_size > 500
    kept.unlink()
    (project.path / "conftest.py").write_text(
        "from harness.browser import video\nvideo.find_ffmpeg = lambda: None\n", "utf-8"
    )
    run = project.run("--task-video", "on")
    run.assert_outcomes(passed=2)
    assert run.stdout.str().count("no video will be kept, since there is no ffmpeg found: run `playwright install") == 1
    assert not kept.exists()


ENDS_TASKS = """
import signal
import pytest

def end(*_):
    pytest.fail("Timeout (>4.0s) from pytest-timeout.")

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 4.0 if item.name != "B-1" else 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_a_task_that_another_plugin_ends_names_its_limit(project: Project) -> None:
    """As pytest-timeout does it: the test fails in the handler of a signal, and the run goes on."""
    slow = {"steps": [OPEN, {"act": "wait", "selector": "#nowhere", "timeout": 40}], "timeout": 60}
    project.task("A-1", **slow)
    project.task("A-2", **slow, expect={"final_state": "aborted", "code": "TASK_TIMEOUT"})
    project.task("B-1")
    (project.path / "conftest.py").write_text(ENDS_TASKS, "utf-8")
    run = project.run()
    run.assert_outcomes(passed=1, failed=2)
    report = project.report("A-1")
    assert (report["code"], report["error_message"]) == (
        "TASK_TIMEOUT",
        "Another plugin of pytest ended the task: Timeout (>4.0s) from pytest-timeout.",
    )
    assert "Raise that plugin's limit" in run.stdout.str()
    assert "INTERRUPTED" not in run.stdout.str()


INTERRUPTS = """
import os
import signal
import psutil

def pytest_runtest_logreport(report):
    if "A-1" in report.nodeid and report.when == "call" and "PYTEST_XDIST_WORKER" not in os.environ:
        for child in psutil.Process().children() if SIGNALS else ():
            if "exec(eval" in " ".join(child.cmdline()):
                child.send_signal(signal.SIGTERM)
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("signals", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_junit_has_what_workers_report_after_an_interruption_and_names_the_interrupted(
    project: Project, signals: bool
) -> None:
    project.task("A-1")
    slow = {"act": "wait", "selector": "#nowhere", "timeout": 60 if signals else 3}
    project.task("B-1", steps=[OPEN, slow], timeout=90)
    (project.path / "conftest.py").write_text(INTERRUPTS.replace("SIGNALS", str(signals)), "utf-8")
    project.run("-n", "2", "--junitxml=out.xml")
    cases = {each.get("name"): each for each in ET.parse(project.path / "out.xml").iter("testcase")}
    assert set(cases) == {"A-1", "B-1"}
    failure = cases["B-1"].find("failure")
    assert failure is not None
    assert ("INTERRUPTED" if signals else "STEP_TIMEOUT") in str(failure.get("message"))


def test_an_interrupted_run_says_how_many_tasks_did_not_run(project: Project) -> None:
    for name in ("A-1", "B-1", "C-1"):
        project.task(name)
    breaks = "def pytest_runtest_setup(item):\n    if item.name == 'B-1':\n        raise KeyboardInterrupt\n"
    (project.path / "conftest.py").write_text(breaks, "utf-8")
    run = project.run("--task-summary", "page.md")
    assert "not run: 2 tasks, because the run was interrupted" in run.stdout.str()
    assert "1 task, none failed; 2 more did not run" in (project.path / "page.md").read_text("utf-8")
    (project.path / "conftest.py").unlink()
    assert not FULL or "did not run" not in project.run("B-1.task.json").stdout.str()


@pytest.mark.thorough
def test_more_patterns_and_files_named_on_the_command_line_are_tasks(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\ntaskspec_files = *.flow.json\n", "utf-8")
    project.task("A-1").rename(project.path / "a.flow.json")
    project.task("B-1").rename(project.path / "b.json")
    project.run().assert_outcomes(passed=1)
    project.run("b.json").assert_outcomes(passed=1)


def test_a_folder_with_spec_and_trace_is_a_task(whole: Whole) -> None:
    assert whole.outcome("FOLDER-1") == "PASSED"


@pytest.mark.thorough
def test_a_browser_that_is_not_there_is_one_clear_line(project: Project) -> None:
    project.task("A-1")
    result = project.run("--task-browser-executable", "/nowhere/chromium")
    result.assert_outcomes(failed=1)
    assert "/nowhere/chromium" in result.stdout.str()
    assert project.report("A-1")["code"] == "BROWSER_LAUNCH_FAILED"


NO_ROOM = """
from harness.reporting.archive import DirectoryArchive
whole = DirectoryArchive.scratch
def scratch(self, plan):
    if plan.task_id == 'B-NO-ROOM':
        raise OSError(28, 'No space left on device', 'errors/.tmp/B')
    return whole(self, plan)
DirectoryArchive.scratch = scratch
"""


def test_a_disk_that_does_not_take_what_tasks_leave_turns_no_green_one_red(project: Project) -> None:
    """A file stands where their folders are to be."""
    (project.path / "errors").mkdir()
    (project.path / "errors" / ".kept").touch()
    (project.path / "conftest.py").write_text(NO_ROOM, "utf-8")
    project.task("A-GREEN", steps=[{"act": "wait", "value": 0.01}])
    project.task("B-NO-ROOM", steps=[{"act": "wait", "value": 0.01}])
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "*B-NO-ROOM failed: ARTIFACTS_UNWRITABLE*before the first step",
        "*tasks: 2: 1 completed, 1 failed",
        "*A-GREEN: The evidence of the task could not be kept: Not a directory; make the folder writable*",
    ])  # fmt: skip
    assert project.report("B-NO-ROOM")["error_message"].endswith("No space left on device: errors/.tmp/B")


@pytest.mark.thorough
def test_a_project_without_services_is_shown_the_way(project: Project) -> None:
    (project.path / "pyproject.toml").write_text("[tool.harness]\n", "utf-8")
    project.task("A-1")
    text = " ".join(project.run("--task-no-recovery").stdout.str().split())
    assert "A-1 failed: NET_DNS" in text
    assert "there is no [tool.harness.services] in pyproject.toml: `harness demo` shows a set-up" in text


@pytest.mark.thorough
def test_settings_that_cannot_be_are_a_usage_error(project: Project) -> None:
    (project.path / "pyproject.toml").write_text("[tool.harness]\nrecordng = 'auto'\n", "utf-8")
    project.task("A-1")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "tool.harness: unknown key `recordng` (did you mean `recording`?)" in result.stderr.str()


def test_allure_has_steps_labels_and_attachments(whole: Whole) -> None:
    folder = whole.project.path / "allure"
    documents = [json.loads(path.read_text("utf-8")) for path in folder.glob("*-result.json")]
    (document,) = [each for each in documents if each["name"].startswith("UNMET-1")]
    labels = {(label["name"], label["value"]) for label in document["labels"]}
    assert {("severity", "blocker"), ("feature", "family B"), ("tag", "slow"), ("code", "CRITERIA_UNMET")} <= labels
    assert document["status"] == "failed"
    assert any("open" in step["name"] for step in document["steps"])
    names = {attachment["name"] for attachment in document["attachments"]}
    assert len(names) >= 8
    assert {"environment.properties", "allurerc.mjs"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough)]
)
@pytest.mark.sampled(1)
def test_interrupted_tasks_leave_a_report_and_no_process(project: Project, number: signal.Signals) -> None:
    declared = {"final_state": "failed", "error_type": "assertion_failed"}
    project.task("A-1", steps=[OPEN, {"act": "wait", "value": 60}], timeout=120, expect=declared)
    process = project.start("--alluredir", "allure")
    family = family_with_browser(process.pid)
    process.send_signal(number)
    output, _ = process.communicate(timeout=90)
    report = project.report("A-1")
    assert (report["final_state"], report["code"]) == ("aborted", "INTERRUPTED")
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "interrupted: A-1" in output
    assert "tasks: 1: 1 interrupted" in output
    (document,) = [json.loads(path.read_text("utf-8")) for path in (project.path / "allure").glob("*-result.json")]
    assert document["status"] == "broken"
    last_run = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    assert [result["code"] for result in last_run["results"]] == ["INTERRUPTED"]
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, output


@pytest.mark.thorough
def test_interrupted_tasks_of_workers_are_named(project: Project) -> None:
    for task_id in ("A-1", "B-2"):
        project.task(task_id, steps=[OPEN, {"act": "wait", "value": 60}], timeout=120)
    process = project.start("-n", "2")
    family = family_with_browser(process.pid, renderers=2)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=90)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "interrupted: A-1; its report: errors/A-1" in output
    assert "interrupted: B-2; its report: errors/B-2" in output
    assert "tasks: 2: 2 interrupted" in output
    last_run = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
    assert [result["code"] for result in last_run["results"]] == ["INTERRUPTED", "INTERRUPTED"]
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, output


def family_with_browser(pid: int, renderers: int = 1) -> list[psutil.Process]:
    """The process's descendants, once its browsers show so many pages."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        family = psutil.Process(pid).children(recursive=True)
        if sum("--type=renderer" in words(p) for p in family) >= renderers:
            time.sleep(1)
            return psutil.Process(pid).children(recursive=True)
        time.sleep(0.1)
    raise AssertionError("no browser was started")


@pytest.mark.thorough
def test_a_task_whose_worker_dies_has_a_report(project: Project) -> None:
    project.task("A-1", steps=[OPEN, {"act": "wait", "value": 50}])
    project.task("B-2")
    process = project.start("-n", "1", "--max-worker-restart", "1")
    family = family_with_browser(process.pid)
    (worker,) = workers_of(process.pid)
    worker.kill()
    output, _ = process.communicate(timeout=90)
    report = project.report("A-1")
    assert (report["code"], report["final_state"]) == ("WORKER_CRASHED", "aborted")
    (events,) = (project.path / ".harness/events").glob("*.jsonl")
    ends = [each for each in map(json.loads, events.read_text("utf-8").splitlines()) if each["type"] == "task"]
    told = {each["task_id"]: (each["worker"], each["code"]) for each in ends}["A-1"]
    assert told == ("", "WORKER_CRASHED")  # a live view does not show it as running
    assert "1 failed, 1 passed" in output
    assert "1 not judged" in output
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive


@pytest.mark.thorough
def test_reruns_keep_the_evidence_of_each_attempt(project: Project) -> None:
    project.task("A-1", success_criteria=WRONG)
    result = project.run("--reruns", "1", "--tracing", "off")
    assert "1 failed" in next(line for line in result.outlines if line.startswith("tasks:"))
    kept = list(Path(project.path / "errors").rglob("error_report.json"))
    assert len(kept) == 2
    assert not list((project.path / "errors").rglob("trace.zip"))


@pytest.mark.thorough
def test_a_record_is_kept_once(project: Project) -> None:
    """pytest keeps items and reports to the end: in a long run, each further copy of a record would be dear."""
    project.task("A-1")
    project.task("A-2")
    project.pytester.makeconftest(
        """
        import gc, pytest
        from harness.reporting.task_record import TaskRecord

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            gc.collect()
            kept = [each for each in gc.get_objects() if type(each) is TaskRecord]
            print("records:", len(kept), "of", len(session.items))
        """
    )
    result = project.run("-s")
    result.stdout.fnmatch_lines(["*records: 0 of 2*", "tasks: 2: 2 completed"])
