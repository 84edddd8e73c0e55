"""How a person sees that a failure follows an injected fault: header, block, summary, Allure, `harness show`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness

STEPS = [
    {"act": "open", "url": "http://shop.local/"},
    {"act": "wait", "selector": "#search-box"},
]
TOLD = "nightly/gone (browser_kill at step 1, nightly.faults.yaml:4): struck once in step 1 at "


def plan(folder: Path) -> str:
    entries = ["{tasks: ZZZ-*, kind: page_crash}", "{tasks: RED, id: gone, kind: browser_kill, step: 1}"]
    text = "name: nightly\nfaults:\n" + "".join(f"  - {entry}\n" for entry in entries)
    (folder / "nightly.faults.yaml").write_text(text, "utf-8")
    return "nightly.faults.yaml"


def allure_result(folder: Path, task_id: str) -> dict[str, Any]:
    documents = [json.loads(path.read_text("utf-8")) for path in folder.glob("*-result.json")]
    found: dict[str, Any] = next(each for each in documents if each["name"].startswith(task_id))
    return found


def test_a_failure_that_follows_a_fault_says_so_everywhere(project: Project) -> None:
    never = {"kind": "reset", "url": "http://bank.local/*", "id": "never"}
    project.task("GREEN", faults=[never])
    project.task("RED", steps=STEPS)
    result = project.run("--faults", plan(project.path), "--alluredir", "results", ".")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([
        "taskspec faults: nightly.faults.yaml (2 faults, 1 task)",
        "RED failed: BROWSER_CRASHED at step 1 (of 0-1), after injected fault nightly/gone: wait #search-box",
        "  faults injected:", f"    {TOLD.rstrip()}*",
        "  hint: This failure follows an injected fault. To survive it, use `on_browser_crash` and*",
        "faults: 1 struck, 1 never struck",
        "  nightly.faults.yaml: 1 of 2 faults strike no task of this run: page_crash-0 (tasks: ZZZ-[*])",
        "  GREEN: Fault never (reset http://bank.local/[*] from step 0 on, GREEN.task.json:*): never struck: no *",
    ])  # fmt: skip
    (fault,) = project.report("RED")["faults"]
    assert {key: fault[key] for key in ("id", "kind", "where", "struck", "steps", "behind")} == {
        "id": "nightly/gone", "kind": "browser_kill", "where": "nightly.faults.yaml:4", "struck": 1, "steps": [1],
        "behind": True,
    }  # fmt: skip
    _in_allure(project.path / "results")
    shown = harness("show", "RED", cwd=project.path).stdout
    assert shown.startswith(
        "RED failed: BROWSER_CRASHED at step 1 (of 0-1), after injected fault nightly/gone: wait #search-box\n"
    )
    assert f"  faults injected:\n    {TOLD}" in shown


def _in_allure(folder: Path) -> None:
    found = allure_result(folder, "RED")
    assert f"\ninjected fault: {TOLD}" in found["statusDetails"]["message"]
    labels = {(label["name"], label["value"]) for label in found["labels"]}
    assert {("fault", "nightly/gone"), ("after_fault", "true"), ("tag", "after fault")} <= labels
    assert [step["name"] for step in found["steps"] if TOLD in step["name"]]
    configuration = (folder / "allurerc.mjs").read_text("utf-8")
    assert 'categories: [\n    { name: "Injected faults", matchers: [{ labels: { after_fault: /^true$/' in configuration


@pytest.mark.thorough
def test_a_plan_that_strikes_nothing_is_told_under_xdist_too(project: Project) -> None:
    project.task("GREEN")
    (project.path / "idle.faults.yaml").write_text("faults: [{tasks: ZZZ-*, kind: page_crash}]\n", "utf-8")
    result = project.run("--faults", "idle.faults.yaml", "-n", "1", ".")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([
        "taskspec faults: idle.faults.yaml (1 fault)",
        "faults: none struck",
        "  idle.faults.yaml: strikes no task of this run: page_crash-0 (tasks: ZZZ-[*])",
    ])  # fmt: skip
