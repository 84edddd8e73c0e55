"""Loading: shapes, warnings, strictness, everything at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.recovery import Rulebook
from harness.spec import expressions
from harness.spec.file_names import is_task_file
from harness.spec.load import find_tasks, load_file
from harness.spec.problems import SpecError
from tests.unit.spec.files import HEAD, STEPS, loaded, problems, task, write


def test_yaml_and_json_give_the_same_task(tmp_path: Path) -> None:
    yaml = (
        "task_id: T-1\ngoal: buy\nsteps:\n"
        "- {act: open, url: 'http://shop.local/'}\n"
        "- {act: click, selector: '#buy'}\n"
        "- {act: wait, selector: '#done'}\n"
    )
    first, second = loaded(tmp_path, yaml), loaded(tmp_path, task(), "t.task.json")
    assert first.spec == second.spec
    assert [step.act for step in first.spec.steps] == ["open", "click", "wait"]
    assert first.spec.error_recovery == Rulebook()
    assert first.folder == tmp_path


def test_a_file_without_a_suffix_is_yaml(tmp_path: Path) -> None:
    assert loaded(tmp_path, HEAD, "flow.txt").spec.task_id == "T-1"


def test_shorthand_strings(tmp_path: Path) -> None:
    recovery = {
        "on_network_error": "retry_5_times",
        "on_assertion_fail": "save_trace_and_report",
        "on_element_not_found": "abort",
        "on_timeout": "abort",
    }
    rules = loaded(tmp_path, task(error_recovery=recovery)).spec.error_recovery
    assert rules.on_network_error.model_dump()["max_retries"] == 5
    assert rules.on_element_not_found.strategy == rules.on_timeout.strategy == "abort"


def test_fallback_selectors_are_lists(tmp_path: Path) -> None:
    fallbacks = {"on_element_not_found": {"fallback_selectors": {"#a": ["#b", "//c"]}}}
    rule = loaded(tmp_path, task(error_recovery=fallbacks)).spec.error_recovery.on_element_not_found
    assert rule.model_dump()["fallback_selectors"] == {"#a": ("#b", "//c")}


def test_all_problems_of_a_file_are_told_at_once_in_its_order(tmp_path: Path) -> None:
    text = (
        "task_id: ../x\n"
        "timeout: 5\n"
        "sucess_criteria: []\n"
        "preconditions: ['nope(']\n"
        "goal: ${inputs.x}\n"
        "steps:\n"
        "  - {act: clik, selector: a}\n"
        "  - {act: upload, selector: a, value: ../b, optinal: true}\n"
        "  - {act: click, selector: b, done_when: '='}\n"
        "expect: {final_state: completed, warnings: [x]}\n"
    )
    found = problems(write(tmp_path, text))
    assert [problem.line for problem in found] == [1, 2, 3, 4, 5, 7, 8, 8, 9, 10]
    assert [problem.path for problem in found][5:9] == [
        "steps[0].act",
        "steps[1].value",
        "steps[1].optinal",
        "steps[2].done_when",
    ]


def test_own_keys_are_warnings(tmp_path: Path) -> None:
    found = loaded(tmp_path, HEAD + "module_group: shop\n$schema: x\n'... (other fields)': '...'\n")
    assert [(warning.line, warning.path) for warning in found.warnings] == [
        (5, "module_group"),
        (7, "['... (other fields)']"),
    ]
    assert {warning.severity for warning in found.warnings} == {"warning"}


def test_settings_of_a_strategy_not_chosen_are_warnings(tmp_path: Path) -> None:
    recovery = {"on_assertion_fail": {"strategy": "save_trace_and_report", "wait_before_retry_seconds": 5}}
    found = loaded(tmp_path, task(error_recovery=recovery))
    assert "no effect with the strategy `save_trace_and_report`" in str(found.warnings[0])
    assert found.spec.error_recovery.on_assertion_fail.strategy == "save_trace_and_report"


def test_strict_makes_warnings_and_missing_keys_errors(tmp_path: Path) -> None:
    path = write(tmp_path, HEAD + "module_group: shop\nerror_recovery: {on_timeout: abort}\n")
    assert not problems(path)
    paths = {problem.path for problem in problems(path, strict=True)}
    missing = {"family", "goal", "inputs", "success_criteria"}
    assert paths == {"module_group", "error_recovery.on_network_error", "error_recovery.on_assertion_fail"} | missing


def test_strict_takes_a_whole_task(tmp_path: Path) -> None:
    rules = {"on_timeout": "abort", "on_network_error": "retry", "on_assertion_fail": "abort_silent"}
    whole = task(family="B", inputs={}, success_criteria=[], error_recovery=rules)
    assert loaded(tmp_path, whole, strict=True).spec.family == "B"


def test_a_disabled_fallback_plan_is_fine(tmp_path: Path) -> None:
    plan = {"enabled": False, "alternative_task_id": "T-2", "relaxed_success_criteria": ["url() == 'x'"]}
    assert not loaded(tmp_path, task(fallback_plan=plan, checkpoints=[])).spec.fallback_plan.enabled


def test_assignment_is_validated(tmp_path: Path) -> None:
    spec = loaded(tmp_path, task()).spec
    spec.step_timeout = 1
    with pytest.raises(ValueError, match="less than or equal to 300"):
        spec.step_timeout = 301


def test_channels_are_checked_only_when_they_are_known(tmp_path: Path) -> None:
    path = write(tmp_path, task(success_criteria=["json('shop', 'a') == 1"]))
    assert not problems(path)
    assert not problems(path, known_channels=frozenset({"shop"}))
    assert problems(path, known_channels=frozenset())


def test_uploads_through_links_stay_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    write(tmp_path, "x", "tasks/a.txt")
    (tmp_path / "tasks" / "out.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "tasks" / "in.txt").symlink_to(tmp_path / "tasks" / "a.txt")
    (tmp_path / "tasks" / "loop").symlink_to(tmp_path / "tasks" / "loop")

    def upload(*names: str) -> list[str]:
        step = {"act": "upload", "selector": "#f", "value": list(names)}
        path = write(tmp_path, task(steps=[*STEPS, step]), "tasks/t.task.json")
        return [f"{problem.path}: {problem.message}" for problem in problems(path)]

    assert upload("a.txt", "in.txt", "./a.txt") == []
    assert upload("a.txt", "out.txt") == ["steps[3].value[1]: the path leaves the task's folder through a link"]
    assert len(upload("loop", "sub\0x")) == 2


def test_which_files_are_tasks() -> None:
    names = ["a.task.yaml", "a.task.yml", "a.TASK.json", "task_spec.json", "a.json", "task.yaml", "oracle_trace.json"]
    assert [name for name in names if is_task_file(Path("x", name))] == names[:4]
    assert is_task_file(Path("flows/a.json"), ["flows/*.json"])
    assert is_task_file(Path("x/a.spec.yaml"), ["*.spec.yaml"])
    assert not is_task_file(Path("x/a.json"), ["flows/*.json"])


def test_finding_tasks(tmp_path: Path) -> None:
    for name in (
        "b.task.yaml",
        "a/task_spec.json",
        "a/oracle_trace.json",
        ".git/c.task.yaml",
        "node_modules/d.task.yml",
    ):
        write(tmp_path, "x: 1", name)
    named = write(tmp_path, "x: 1", "odd.json")
    wanted = [tmp_path / "a" / "task_spec.json", tmp_path / "b.task.yaml"]
    assert find_tasks([tmp_path]) == wanted
    assert find_tasks([tmp_path, str(named), wanted[1]]) == [*wanted, named]
    with pytest.raises(SpecError, match="no such file or folder"):
        find_tasks([tmp_path / "no"])


def test_texts_are_searched_for_references_only_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    real = expressions.interpolated
    monkeypatch.setattr(expressions, "interpolated", lambda spec: searched.append(spec.task_id) or real(spec))
    loaded(tmp_path, task(task_id="PLAIN", success_criteria=["url().includes('done')"]))
    assert searched == []
    loaded(tmp_path, task(task_id="FULL", inputs={"x": "a"}, success_criteria=["url().includes('${inputs.x}')"]))
    assert set(searched) == {"FULL"}


def test_the_shipped_tasks_load() -> None:
    root = Path(__file__).parents[3]
    files = find_tasks([root / "tasks", root / "examples"])
    assert len(files) >= 9
    for path in files:
        spec = load_file(path, strict=True, known_channels=frozenset({"env"})).spec
        assert spec.steps or spec.agent
