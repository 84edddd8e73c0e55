"""Keys that a project says once for its tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from harness.spec.defaults import Defaults, with_defaults
from harness.spec.load import load_file

TASK = """
task_id: T-1
timeout: 100
error_recovery: {on_timeout: abort}
steps: [{act: open, url: "http://a.test/"}]
"""


def project(root: Path, text: str) -> tuple[Defaults, ...]:
    (root / "pyproject.toml").write_text(text, "utf-8")
    return load_settings(root).defaults


def loaded(root: Path, settings: str) -> object:
    (root / "a.task.yaml").write_text(TASK, "utf-8")
    return load_file(root / "a.task.yaml", defaults=project(root, settings)).spec


USUAL = """
[tool.harness.defaults]
timeout = 50
step_timeout = 7
allowed_domains = ["a.test"]
[tool.harness.defaults.error_recovery]
on_timeout = "skip_step"
on_network_error = "abort"
"""


def test_a_task_wins_over_the_defaults_rule_by_rule(tmp_path: Path) -> None:
    spec = loaded(tmp_path, USUAL)
    assert (spec.timeout, spec.step_timeout, spec.allowed_domains) == (100, 7, ("a.test",))  # type: ignore[attr-defined]
    rules = spec.error_recovery  # type: ignore[attr-defined]
    assert (rules.on_timeout.strategy, rules.on_network_error.strategy) == ("abort", "abort")


def test_the_defaults_win_where_they_override(tmp_path: Path) -> None:
    spec = loaded(tmp_path, USUAL.replace("timeout = 50", "override = true\ntimeout = 50", 1))
    assert spec.timeout == 50  # type: ignore[attr-defined]
    assert spec.error_recovery.on_timeout.strategy == "skip_step"  # type: ignore[attr-defined]


def test_several_tables_some_of_which_override() -> None:
    tables = [
        Defaults.model_validate(each) for each in ({"timeout": 20, "override": True}, {"priority": 1, "timeout": 30})
    ]
    assert with_defaults({"task_id": "T", "timeout": 10}, tables) == {"task_id": "T", "timeout": 20, "priority": 1}


def merged(*tables: dict[str, object], **data: object) -> dict[str, object]:
    return with_defaults({"task_id": "T", **data}, [Defaults.model_validate(each) for each in tables])


def test_keys_are_taken_away_before_others_are_filled_in() -> None:
    table = {"unset": ["episode_id", "dependencies"], "priority": 2}
    assert merged(table, episode_id="", dependencies=["A"], priority=1) == {"task_id": "T", "priority": 1}
    assert merged({"unset": ["episode_id"]}, {"episode_id": "E"}, episode_id="D")["episode_id"] == "E"


def test_a_list_is_added_to_that_of_the_task() -> None:
    more = {"allowed_domains": {"add": ["localhost", "a.test"]}, "tags": {"add": ["suite"]}}
    found = merged(more, allowed_domains=["a.test"], tags=["x"])
    assert (found["allowed_domains"], found["tags"]) == (["a.test", "localhost"], ["x", "suite"])
    assert merged(more) == {"task_id": "T", "tags": ["suite"]}, "a task without domains reaches all hosts"
    assert "allowed_domains" not in merged(more, {"allowed_domains": {"add": ["b.test"]}})
    assert merged({"allowed_domains": ["c.test"]}, more)["allowed_domains"] == ["c.test", "localhost", "a.test"]
    condition = {"reason": "no", "env": "X"}
    assert merged({"skip_if": {"add": [condition]}}, skip_if={"reason": "r", "env": "Y"})["skip_if"] == [
        {"reason": "r", "env": "Y"}, condition
    ]  # fmt: skip


def test_repairs_are_for_the_tasks_that_have_their_precondition() -> None:
    ann = {"precondition": "mem('user') == 'ann'", "memory": {"user": "ann"}}
    pay = {"precondition": "mem('card') == 1", "memory": {"card": 1}}
    every = {"memory": {"seen": True}}
    table = {"repairs": [ann, pay, every]}
    assert merged(table, preconditions=["mem('user') == 'ann'"])["repairs"] == [ann, every]
    assert "repairs" not in merged(table)
    own = merged(table, preconditions=["mem('x')"], repairs=[every])
    assert own["repairs"] == [every]
    added = merged({"repairs": {"add": [ann, pay]}}, preconditions=["mem('card') == 1"], repairs=[every])
    assert added["repairs"] == [every, pay]
    wrong = merged(table, repairs=[{"precondition": "mem('slip')", "memory": {"a": 1}}])
    assert len(wrong["repairs"]) == 1, "of the task itself it stays, and is an error"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "[tool.harness.defaults]\nstep_timout = 3": "unknown key `step_timout`; did you mean `step_timeout`?",
        "[tool.harness.defaults]\ntimeout = 'long'": "timeout: wrong type; expected: a whole number; found: text",
        "[tool.harness.defaults]\ntask_id = 'T'": "`task_id` belongs to each task file",
        "[tool.harness.defaults]\ntime = 2025-01-01T00:00:00Z": "put dates in quotes",
        "[tool.harness.defaults.error_recovery]\non_timeout = 'abrot'": "error_recovery.on_timeout",
        "[tool.harness]\ndefaults = 4": "must be a list",
    }.items(),
)
def test_a_default_that_no_task_may_say_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        project(tmp_path, text)
    assert said in str(caught.value)
