"""`--task-cluster`: a run on Ray is the run that it would have been here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.clusters import ClusterProject, OrderSite

pytestmark = pytest.mark.thorough
ON = ("--task-cluster", "local:2")


@pytest.fixture
def site() -> Iterator[OrderSite]:
    found = OrderSite()
    yield found
    found.close()


@pytest.fixture
def project(tmp_path: Path, site: OrderSite) -> ClusterProject:
    return ClusterProject(tmp_path / "project", site)


def test_tasks_and_ordinary_tests_run_and_are_reported_as_here(project: ClusterProject) -> None:
    for name in "ABCD":
        project.task(name)
    project.task("BAD", success_criteria=["text('#done') == 'never'"])
    (project.path / "test_ordinary.py").write_text(
        "import pytest\n\ndef test_good():\n    pass\n\ndef test_bad():\n    print('seen')\n    assert 0\n\n"
        "@pytest.mark.skip(reason='because')\ndef test_skipped():\n    pass\n",
        "utf-8",
    )
    code, out = project.run(*ON, "--junitxml", "junit.xml", "--alluredir", "allure", "-rs")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "2 failed, 5 passed, 1 skipped" in out
    assert "BAD failed: CRITERIA_UNMET" in out
    assert "artifacts: errors/BAD" in out
    assert "because" in out
    assert (project.path / "errors" / "BAD" / "screenshot.png").is_file()
    assert len(list((project.path / "allure").glob("*-result.json"))) == 8
    assert project.site.orders == dict.fromkeys(["A", "B", "C", "D", "BAD"], 1)
    results = project.results()
    assert all(len(each) == 1 for each in results.values())
    assert {name for name, (result,) in results.items() if result == "passed"} == {*"ABCD", "test_good"}
    assert not (project.path / ".harness" / "cluster" / "x").exists()
    assert list((project.path / ".harness" / "cluster").iterdir()) == []


def test_dependencies_and_episodes_stay_together_and_in_order(project: ClusterProject) -> None:
    project.task("FIRST", success_criteria=["text('#done') == 'never'"])
    project.task("SECOND", dependencies=["FIRST"])
    project.task("E1", episode_id="E", priority=2)
    project.task("E2", episode_id="E", priority=3)
    code, out = project.run(*ON, "-rs", "-v")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "depends on FIRST, which did not pass" in out
    assert project.site.orders == dict.fromkeys(["FIRST", "E1", "E2"], 1)
    found = re.findall(r"^\[(slot\d+)\].*::(E\d)", out, re.MULTILINE)
    assert [name for _, name in found] == ["E1", "E2"]
    assert len({slot for slot, _ in found}) == 1


def test_maxfail_stops_and_says_how_to_go_on(project: ClusterProject) -> None:
    for number in range(12):
        project.task(f"T{number:02}", 0.5, success_criteria=["text('#done') == 'never'"])
    code, out = project.run(*ON, "-x")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "stopping after" in out
    assert len(project.site.orders) < 12
    assert "items have no result; to go on: pytest ... --task-cluster local:2 --task-resume" in out


def test_lf_reruns_and_selection_act(project: ClusterProject) -> None:
    flaky = (
        "import pathlib\n\ndef test_flaky():\n    seen = pathlib.Path('seen')\n    first = not seen.exists()\n"
        "    seen.touch()\n    assert not first\n\ndef test_bad():\n    assert 0\n\ndef test_good():\n    pass\n"
    )
    (project.path / "test_ordinary.py").write_text(flaky, "utf-8")
    (project.path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    code, out = project.run(*ON, "--reruns", "1")
    assert code == pytest.ExitCode.TESTS_FAILED, out
    assert "1 failed, 2 passed, 2 rerun" in out
    code, out = project.run(*ON, "--lf")
    assert "1 failed" in out
    assert "passed" not in out.splitlines()[-1]
    code, out = project.run(*ON, "-k", "good")
    assert (code, "1 passed, 2 deselected" in out) == (pytest.ExitCode.OK, True), out
