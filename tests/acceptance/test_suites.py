"""Many tasks in one run: cases, dependencies, episodes, tags, priorities; alone and on two workers."""

from __future__ import annotations

import json
import os
import shlex
import xml.etree.ElementTree as ET
from typing import Any

import psutil
import pytest

from harness.spec.names import slug
from tests.acceptance.conftest import Project
from tests.acceptance.test_pytest_plugin import family_with_browser
from tests.acceptance.warm_workers import workers_of

OPEN = {"act": "open", "url": "http://shop.local/"}
WRONG = ["title() == 'Nothing'"]
NOTE = {"act": "wait", "value": 0.01, "remember": {"seen": "'yes'"}}
"""A step that leaves a mark in memory, and needs no page."""
CASES = [{"id": "good", "want": 1}, {"id": "bad", "want": 2}, {"want": 1, "id": "last one"}]

WORKERS = pytest.param(["-n", "2"], marks=pytest.mark.thorough)
LOADFILE = pytest.param(["-n", "2", "--dist", "loadfile"], marks=pytest.mark.thorough)


def cased(project: Project, task_id: str = "T", **fields: Any) -> None:
    """Three cases, of which the second one fails."""
    fields = {"memory": {"have": 1}, "success_criteria": ["mem('have') == ${param.want}"], "steps": [NOTE], **fields}
    project.task(task_id, goal="wants ${param.want}", parametrize=CASES, **fields)


def collected(project: Project, *args: str) -> list[str]:
    """Names of what would be run, in its order."""
    result = project.run("--collect-only", "-q", *args)
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def outcomes(project: Project, *args: str) -> dict[str, str]:
    """Name of each item -> passed, failed or skipped, and why."""
    project.run("--junitxml=out.xml", *args)
    found: dict[str, str] = {}
    for case in ET.parse(project.path / "out.xml").iter("testcase"):
        kinds = [
            (child.tag, child.get("message", "")) for child in case if child.tag in ("failure", "error", "skipped")
        ]
        found[str(case.get("name"))] = ": ".join(kinds[0]) if kinds else "passed"
    return found


def test_every_case_is_an_item_with_a_result_of_its_own(project: Project) -> None:
    cased(project)
    run = project.pytester.runpytest_subprocess
    run("-v", "--alluredir", "allure").assert_outcomes(passed=2, failed=1)
    report = project.report(slug("T[bad]"))
    assert (report["task_id"], report["code"]) == ("T[bad]", "CRITERIA_UNMET")
    assert report["context"]["assertion"]["expected"] == 2
    kept = [path.name for path in (project.path / "errors").iterdir() if (path / "error_report.json").is_file()]
    assert kept == [slug("T[bad]")]
    results = [json.loads(path.read_text("utf-8")) for path in (project.path / "allure").glob("*-result.json")]
    assert {result["name"] for result in results} == {"T[good]: wants 1", "T[bad]: wants 2", "T[last one]: wants 1"}
    assert len({result["historyId"] for result in results}) == 3
    again = run("--lf", "-v")
    again.assert_outcomes(failed=1)
    assert "T[bad]" in again.stdout.str()


@pytest.mark.thorough
def test_one_case_is_chosen_by_node_id_and_by_name(project: Project) -> None:
    cased(project)
    assert collected(project) == ["T[good]", "T[bad]", "T[last one]"]
    assert collected(project, "T.task.json::T[bad]") == ["T[bad]"]
    assert collected(project, "T.task.json::T") == ["T[good]", "T[bad]", "T[last one]"]
    assert collected(project, "-k", "good or last") == ["T[good]", "T[last one]"]


def test_a_case_is_filled_in_everywhere_and_bad_cases_are_told_where_they_stand(project: Project) -> None:
    project.task(
        "T",
        parametrize={"page": ["/", "/?from=news"], "who": [{"name": "Ann"}]},
        inputs={"url": "http://shop.local${param.page}"},
        persona={"name": "${param.who.name}"},
        memory={"page": "${param.page}"},
        preconditions=["mem('page') == ${param.page}"],
        steps=[
            {"act": "open", "url": "${inputs.url}", "remember": {"who": "'${persona.name}'"}},
            {"act": "assert", "expr": "url().includes(${param.page})"},
        ],
        success_criteria=["mem('who') == ${param.who.name}", "url() == 'http://shop.local${param.page}'"],
    )
    text = 'task_id: U\ngoal: "${param.x}"\nsteps: [{act: wait, value: 0}]\nparametrize:\n  - {x: 1}\n  - {y: 1}\n'
    (project.path / "u.task.yaml").write_text(text, "utf-8")
    found = outcomes(project)
    assert (found.pop("T[case0]"), found.pop("T[case1]")) == ("passed", "passed")
    assert found.keys() == {"U"}
    assert "u.task.yaml:6:5: parametrize[1]: the case has no `x`" in (project.path / "out.xml").read_text("utf-8")


def suite(project: Project) -> None:
    """Tags, priorities, cases, an episode, dependencies that pass and fail, a directory."""
    cased(project, priority=2, family="B", tags=["data"])
    project.task("FIRST", priority=1, steps=[NOTE], tags=["quick"])
    project.task("AFTER-ALL", dependencies=["T"], steps=[NOTE])
    project.task("AFTER-GOOD", dependencies=["T[good]"], steps=[NOTE], family="B")
    project.task(
        "EP-2", episode_id="ep", dependencies=["EP-1"], success_criteria=["mem('seen') == 'yes'"], steps=[NOTE]
    )
    project.task("EP-1", episode_id="ep", steps=[NOTE], priority=5, tags=["quick"])
    project.task("OTHER-EP", episode_id="other", dependencies=["EP-2"], preconditions=["mem('seen') == null"])
    project.task("CHAIN", dependencies=["AFTER-ALL"], steps=[NOTE])


SUITE = {
    "T[good]": "passed",
    "T[bad]": "failure",
    "T[last one]": "passed",
    "FIRST": "passed",
    "AFTER-ALL": "skipped: depends on T[bad], which did not pass",
    "AFTER-GOOD": "passed",
    "EP-1": "passed",
    "EP-2": "passed",
    "OTHER-EP": "passed",
    "CHAIN": "skipped: depends on AFTER-ALL, which did not pass: it did not run to its end",
}


@pytest.mark.parametrize("options", [[], pytest.param(["-n", "2"], marks=pytest.mark.thorough), LOADFILE], ids=" ".join)
def test_a_suite_ends_the_same_however_it_is_dealt(project: Project, options: list[str]) -> None:
    suite(project)
    found = outcomes(project, *options)
    assert {name: "failure" if why.startswith("failure") else why for name, why in found.items()} == SUITE


def test_tags_families_and_priorities_act(project: Project) -> None:
    suite(project)
    everything = collected(project)
    assert everything[:2] == ["FIRST", "T[good]"]
    assert set(everything) == set(SUITE)
    for later, earlier in (
        ("AFTER-ALL", "T[last one]"),
        ("EP-2", "EP-1"),
        ("OTHER-EP", "EP-2"),
        ("CHAIN", "AFTER-ALL"),
    ):
        assert everything.index(later) > everything.index(earlier)
    assert collected(project, "-m", "quick") == ["FIRST", "EP-1"]
    assert collected(project, "-m", "family_B and not data") == ["AFTER-GOOD"]


@pytest.mark.parametrize("options", [WORKERS, []], ids=" ".join)
@pytest.mark.thorough
def test_the_terminal_says_why_tasks_were_left_out(project: Project, options: list[str]) -> None:
    """pytest itself tells reasons of skips only with `-rs`."""
    project.task("RED", steps=[NOTE], success_criteria=WRONG)
    project.task("AFTER", steps=[NOTE], dependencies=["RED"])
    text = project.run(*options).stdout.str()
    assert "tasks: 2: 1 failed, 1 skipped\nskipped:\n  AFTER: depends on RED, which did not pass\n" in text
    alone = project.run("AFTER.task.json", *options).stdout.str()
    command = "run: pytest AFTER.task.json::AFTER --task-with-deps"
    assert f"skipped:\n  AFTER: depends on RED, which is not among the tasks of this run; {command}\n" in alone
    project.task("AFTER", steps=[NOTE], dependencies=["GONE"])
    nowhere = project.run("AFTER.task.json", *options).stdout.str()
    assert (
        "depends on GONE, which is not among the tasks of this run; no task file of the project has this task"
        in nowhere
    )
    assert "--task-with-deps" not in nowhere


@pytest.mark.thorough
@pytest.mark.parametrize("options", [["-n", "2"], pytest.param([], marks=pytest.mark.thorough)], ids=" ".join)
def test_selection_by_mark_is_the_same_on_workers(project: Project, options: list[str]) -> None:
    suite(project)
    assert outcomes(project, "-m", "quick", *options) == {"FIRST": "passed", "EP-1": "passed"}


@pytest.mark.thorough
def test_on_a_worker_the_most_urgent_come_first_whatever_the_size_of_their_group(project: Project) -> None:
    project.task("A-LATE", priority=5, steps=[NOTE])
    project.task("B-LATE", priority=5, steps=[NOTE], dependencies=["A-LATE"])
    project.task("C-EARLY", priority=1, steps=[NOTE])
    text = project.run("-n", "1", "-v").stdout.str()
    assert text.index("::C-EARLY") < text.index("::A-LATE") < text.index("::B-LATE")


@pytest.mark.thorough
def test_with_deps_brings_what_was_left_out(project: Project) -> None:
    suite(project)
    project.task("ALONE", steps=[NOTE])
    option = "--task-with-deps"
    assert collected(project, "AFTER-GOOD.task.json", option) == ["T[good]", "AFTER-GOOD"]
    assert collected(project, "CHAIN.task.json::CHAIN", option) == [
        "T[good]",
        "T[bad]",
        "T[last one]",
        "AFTER-ALL",
        "CHAIN",
    ]
    assert collected(project, "-k", "OTHER", option) == ["EP-1", "EP-2", "OTHER-EP"]
    assert collected(project, "-m", "family_B and not data", option) == ["T[good]", "AFTER-GOOD"]
    assert collected(project, "T.task.json::T[bad]", option) == ["T[bad]"]
    assert collected(project, "AFTER-ALL.task.json", "T.task.json::T[bad]", option)[:3] == [
        "T[good]",
        "T[bad]",
        "T[last one]",
    ]
    assert collected(project, "ALONE.task.json", option) == ["ALONE"]


@pytest.mark.thorough
def test_with_deps_looks_in_testpaths_and_counts_what_is_left_out(project: Project) -> None:
    (project.path / "pytest.ini").write_text("[pytest]\ntestpaths = flows shared\n", "utf-8")
    for folder, task_id, wanted in (("flows", "A", ["login"]), ("shared/login", "LOGIN", []), ("shared", "X", [])):
        (project.path / folder).mkdir(parents=True, exist_ok=True)
        file = project.task(task_id, dependencies=wanted, steps=[NOTE])
        if task_id == "LOGIN":
            file.rename(project.path / folder / "task_spec.json")
        else:
            file.rename(project.path / folder / file.name)
    (project.path / "shared" / "login" / "oracle_trace.json").write_text(
        json.dumps({"task_id": "LOGIN", "steps": [NOTE]}), "utf-8"
    )
    spec = project.path / "shared" / "login" / "task_spec.json"
    document = json.loads(spec.read_text("utf-8"))
    del document["steps"]
    spec.write_text(json.dumps(document), "utf-8")
    assert collected(project, "flows", "--task-with-deps") == ["LOGIN", "A"]
    result = project.run("-k", "A.task", "--task-with-deps", "--collect-only")
    assert "2/3 tests collected (1 deselected)" in result.stdout.str()


@pytest.mark.thorough
def test_a_dependant_run_alone_says_how_to_run_it_and_that_works(project: Project) -> None:
    project.task("B-1", steps=[NOTE])
    project.task("A-2", dependencies=["B-1"], steps=[NOTE])
    (why,) = outcomes(project, "A-2.task.json").values()
    assert why.startswith("skipped: depends on B-1, which is not among the tasks of this run; run: pytest ")
    command = shlex.split(why.partition("run: pytest ")[2])
    assert command == ["A-2.task.json::A-2", "--task-with-deps"]
    assert outcomes(project, *command) == {"B-1": "passed", "A-2": "passed"}
    (project.path / "B-1.task.json").unlink()
    (gone,) = outcomes(project, *command).values()
    assert "no task file of the project has this task" in gone


@pytest.mark.parametrize("options", [WORKERS, []], ids=" ".join)
@pytest.mark.thorough
def test_with_deps_serves_what_failed_last(project: Project, options: list[str]) -> None:
    project.task("A-2", dependencies=["B-1"], success_criteria=WRONG)
    project.task("B-1", steps=[NOTE])
    project.task("C-3", steps=[NOTE])
    run = project.pytester.runpytest_subprocess
    run(*options).assert_outcomes(passed=2, failed=1)
    run("--lf", "--task-with-deps", *options).assert_outcomes(passed=1, failed=1)


@pytest.mark.thorough
def test_a_member_of_an_episode_runs_alone(project: Project) -> None:
    project.task("EP-1", episode_id="ep", steps=[NOTE])
    project.task("EP-2", episode_id="ep", steps=[NOTE], preconditions=["mem('seen') == null"])
    assert outcomes(project, "EP-2.task.json") == {"EP-2": "passed"}


@pytest.mark.thorough
def test_dependants_of_a_task_that_is_skipped_or_fails_as_expected_of_it_are_skipped(project: Project) -> None:
    project.pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.name == "SKIPPED":
                    item.add_marker(pytest.mark.skip("not today"))
                if item.name == "XFAILS":
                    item.add_marker(pytest.mark.xfail(reason="known"))
        """
    )
    project.task("SKIPPED", steps=[NOTE])
    project.task("XFAILS", steps=[NOTE], success_criteria=["mem('seen') == 'no'"])
    declared = {"final_state": "failed", "error_type": "assertion_failed"}
    project.task("DECLARED", steps=[NOTE], success_criteria=["mem('seen') == 'no'"], expect=declared)
    for name in ("SKIPPED", "XFAILS", "DECLARED"):
        project.task(f"AFTER-{name}", dependencies=[name], steps=[NOTE])
    found = outcomes(project)
    assert found["AFTER-SKIPPED"] == "skipped: depends on SKIPPED, which did not pass: it did not run to its end"
    assert found["AFTER-XFAILS"] == "skipped: depends on XFAILS, which did not pass"
    assert (found["DECLARED"], found["AFTER-DECLARED"]) == ("passed", "passed")


@pytest.mark.parametrize("options", [WORKERS, []], ids=" ".join)
@pytest.mark.sampled(1)
def test_ids_and_circles_among_cases_are_told_and_the_others_run(project: Project, options: list[str]) -> None:
    cased(project)
    cased(project, "U", dependencies=["V"])
    project.task("V", dependencies=["U[good]"], steps=[NOTE])
    project.task("T[good]", steps=[NOTE]).rename(project.path / "other.task.json")
    project.task("LOST", dependencies=["T[godo]"], steps=[NOTE])
    found = outcomes(project, *options)
    assert "the task_id `T[good]` is taken by" in found["T[good]"] or "is taken by" in "".join(found.values())
    assert "tasks depend on each other: U -> V -> U" in "".join(found.values())
    assert found["T[last one]"] == "passed"
    assert "depends on T[godo], which is not among the tasks of this run" in found["LOST"]


@pytest.mark.thorough
def test_a_case_whose_worker_dies_has_the_report(project: Project) -> None:
    steps = [OPEN, {"act": "wait", "value": 50}]
    project.task("T", goal="${param.x}", parametrize={"x": ["a", "b"]}, steps=steps, episode_id="ep")
    process = project.start("-n", "1", "--max-worker-restart", "0")
    family = family_with_browser(process.pid)
    (worker,) = workers_of(process.pid)
    worker.kill()
    output, _ = process.communicate(timeout=90)
    report = project.report(slug("T[a]"))
    assert (report["task_id"], report["code"]) == ("T[a]", "WORKER_CRASHED")
    assert "T[a]" in output
    assert not os.path.exists(project.path / "errors" / slug("T[b]"))
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive
