"""Groups of tasks that must stay together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.pytest_plugin.order import groups


def test_dependencies_and_episodes_tie_tasks_together() -> None:
    tasks = {"A": (["B"], None), "B": ([], "e"), "C": ([], "e"), "D": ([], None), "E": (["X"], None)}
    found = groups(tasks)
    assert found["A"] == found["B"] == found["C"]
    assert len({found["A"], found["D"], found["E"]}) == 3


IDS = "abcdef"


@given(st.dictionaries(st.sampled_from(IDS), st.tuples(st.lists(st.sampled_from(IDS)), st.sampled_from([None, "x"]))))
def test_whoever_depends_on_another_is_in_its_group(tasks: dict[str, tuple[list[str], str | None]]) -> None:
    found = groups(tasks)
    for task_id, (dependencies, _) in tasks.items():
        assert all(found[task_id] == found[wanted] for wanted in dependencies if wanted in tasks)
