"""The table of options: names that cannot collide, aliases, what stands twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.settings import Settings
from harness.pytest_plugin.foreign import FOREIGN
from harness.pytest_plugin.options import ALIASES, TASK_OPTIONS, canonical, contradiction, expand_files


def test_no_name_is_one_that_a_project_would_take() -> None:
    assert [option.name for option in TASK_OPTIONS if not option.name.startswith(("--task-", "--taskspec-"))] == []
    assert [option.dest for option in TASK_OPTIONS if not option.dest.startswith(("task_", "taskspec_"))] == []
    assert len({*ALIASES, *(option.name for option in TASK_OPTIONS)}) == len(ALIASES) + len(TASK_OPTIONS)


def settings_of(model: type, prefix: str = "") -> set[str]:
    fields = getattr(model, "model_fields", {})
    deeper = [settings_of(field.annotation, f"{prefix}{name}.") for name, field in fields.items()]
    return {f"{prefix}{name}" for name in fields}.union(*deeper)


def test_each_setting_that_an_option_goes_over_exists() -> None:
    known = settings_of(Settings) | {"ports"}  # load_settings puts these into the tables of the services
    assert {each.setting for each in (*TASK_OPTIONS, *FOREIGN) if each.setting} <= known


def test_an_option_of_another_plugin_acts_or_says_why_not() -> None:
    assert [option.name for option in FOREIGN if bool(option.acts) == bool(option.why)] == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tasks", "--agent", "a"], ["tasks", "--task-agent", "a"]),
        (["--faults=x=y", "-k", "agent"], ["--task-faults=x=y", "-k", "agent"]),
        (["--agents", "a", "--task-agent", "b"], ["--agents", "a", "--task-agent", "b"]),
        (["--no-heal", "--", "--no-heal"], ["--task-no-heal", "--", "--no-heal"]),
    ],
)
def test_full_names_take_the_place_of_aliases(words: list[str], found: list[str]) -> None:
    assert canonical(words) == found


WORDS = st.lists(st.sampled_from(["--agent", "--agent=x", "--task-agent", "a", "--", "-k", "@", *ALIASES]))


@given(WORDS)
def test_nothing_but_names_changes(words: list[str]) -> None:
    found = canonical(words)
    assert len(found) == len(words)
    assert canonical(found) == found
    assert canonical(words, {}) == words


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--task-agent a --task-agent b", "--task-agent is given twice with different values: leave one out"),
        (
            "--task-agent=a tasks --agent b",
            "--task-agent and --agent are the same option, but are given with different",
        ),
        ("--task-agent a --task-agent=a", None),
        ("--faults a --task-faults b", None),
        ("--task-no-heal tasks --no-heal other", None),
        ("--task-agent a -- --task-agent b", None),
        ("--output a --output b", None),
    ],
)
def test_an_option_with_two_values_is_told(words: str, problem: str | None) -> None:
    found = contradiction(words.split())
    assert (found or "").startswith(problem or "")
    assert (found is None) == (problem is None)


def test_two_names_are_two_options_where_the_alias_is_the_projects() -> None:
    assert contradiction(["--task-agent", "a", "--agent", "b"], {}) is None


def test_files_of_options_are_read(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("--agent\na\n", "utf-8")
    assert expand_files(["x", f"@{tmp_path}/words.txt", "@none.txt"]) == ["x", "--agent", "a", "@none.txt"]
