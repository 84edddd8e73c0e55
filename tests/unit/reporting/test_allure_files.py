"""What Allure wants beside the results."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.recovery.catalog import CATALOG
from harness.reporting.allure.categories import GROUPS, group, grouped_codes
from harness.reporting.allure.files import (
    SUSPECTS,
    allurerc,
    environment_properties,
    executor_of,
    write_allure_files,
)


def test_every_code_is_in_one_group() -> None:
    codes = [code for found in grouped_codes().values() for code in found]
    assert sorted(codes) == sorted(CATALOG)


@pytest.mark.parametrize(
    ("code", "place"),
    [("ASSERTION_FAILED", 0), ("CRITERIA_UNMET", 0), ("PRECONDITION_NOT_MET", 1), ("MEMORY_MISSING", 1),
     ("INCOMPLETE", 1),
     ("STEP_TIMEOUT", 2), ("PAGE_UNRESPONSIVE", 6), ("ELEMENT_NOT_FOUND", 3), ("SELECTOR_AMBIGUOUS", 3),
     ("ELEMENT_COVERED", 4), ("INVALID_INPUT", 4), ("NET_DNS", 5), ("HTTP_SERVER_ERROR", 5), ("SERVICE_DOWN", 5),
     ("BROWSER_CRASHED", 6), ("BROWSER_LAUNCH_FAILED", 6), ("POLICY_DOMAIN", 7), ("AUTHENTICATION_FAILED", 7),
     ("INTERNAL_ERROR", 8), ("UNKNOWN", 8)],
)  # fmt: skip
def test_groups(code: str, place: int) -> None:
    assert group(CATALOG[code]) == GROUPS[place]


def test_allurerc_is_javascript(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node.js")
    (tmp_path / "allurerc.mjs").write_text(allurerc(single_file=True))
    (tmp_path / "show.mjs").write_text(
        "import c from './allurerc.mjs';"
        "const hit = c.categories.filter(x => x.matchers[0].labels.code?.test('STEP_TIMEOUT')).map(x => x.name);"
        "const first = [c.categories[0].name, c.categories[0].matchers[0].labels.after_fault.test('true')];"
        "const n = c.categories.length, single = c.plugins.awesome.options.singleFile;"
        "console.log(JSON.stringify({hit, first, single, n}));"
    )
    shown = json.loads(
        subprocess.run([node, "show.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    )
    first, n = ["Injected faults", True], len(grouped_codes()) + 1 + len(SUSPECTS)
    assert shown == {"hit": ["Timeouts"], "first": first, "single": True, "n": n}


def test_environment_is_a_java_properties_file() -> None:
    assert environment_properties({"Browser name": "Chromium ü\n2", "b=c": "C:\\x"}) == (
        "Browser\\ name=Chromium \\u00fc\\n2\nb\\=c=C:\\\\x\n"
    )


def test_executors() -> None:
    assert executor_of({}) == {}
    github = executor_of({
        "GITHUB_ACTIONS": "true", "GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "a/b",
        "GITHUB_RUN_ID": "77", "GITHUB_RUN_NUMBER": "5", "GITHUB_WORKFLOW": "tests",
    })  # fmt: skip
    assert github["buildUrl"] == "https://github.com/a/b/actions/runs/77"
    assert (github["buildName"], github["buildOrder"]) == ("tests #5", 5)
    assert executor_of({"GITLAB_CI": "1", "CI_JOB_URL": "u", "CI_PIPELINE_IID": "9"})["type"] == "gitlab"
    assert executor_of({"JENKINS_URL": "u", "BUILD_NUMBER": "x"})["name"] == "Jenkins"
    assert executor_of({"GITHUB_ACTIONS": "true"})["buildName"] == "GitHub Actions", "no number that nobody knows"


def test_all_are_written(tmp_path: Path) -> None:
    write_allure_files(tmp_path, {"Browser": "c"}, {"GITLAB_CI": "1"})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "allurerc.mjs", "environment.properties", "executor.json",
    ]  # fmt: skip
    write_allure_files(tmp_path / "b", {}, {})
    assert not (tmp_path / "b/executor.json").exists()
