"""Groups of tasks that must stay together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.pytest_plugin.selection import episodes_together, groups
from harness.pytest_plugin.xdist import in_slots


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


def task(task_id: str, episode: str | None = None, *dependencies: str) -> Any:
    spec = SimpleNamespace(task_id=task_id, episode_id=episode, dependencies=dependencies, parametrize=None)
    spec.variant = ""
    return SimpleNamespace(nodeid=f"f::{task_id}", task_id=task_id, loaded=SimpleNamespace(spec=spec, names=()))


def arranged(*tasks: Any) -> str:
    return " ".join(item.loaded.spec.task_id for item in episodes_together(tasks))


def test_an_episode_is_in_one_piece_after_all_that_it_depends_on() -> None:
    assert arranged(task("a1", "E"), task("x"), task("a2", "E"), task("y")) == "a1 a2 x y"
    assert arranged(task("a1", "E"), task("x"), task("a2", "E", "x")) == "x a1 a2"
    assert arranged(task("a1", "E"), task("b1", "F"), task("a2", "E"), task("b2", "F")) == "a1 a2 b1 b2"


def test_a_task_that_belongs_in_the_middle_of_an_episode_stays_there() -> None:
    assert arranged(task("a1", "E"), task("x", None, "a1"), task("a2", "E", "x")) == "a1 x a2"


def test_as_many_groups_as_there_are_slots() -> None:
    names = {"1": "a", "2": "a", "3": "b", "4": "c"}
    assert in_slots(names, None, 2) == names
    assert in_slots(names, 2, 2) == names
    assert len(set(in_slots(names, 1, 2).values())) == 1
    two = in_slots(names, 2, 4)
    assert two["1"] == two["2"] != two["3"] == two["4"]
