"""`--task-shard I/N`: the parts of a CI matrix."""

from __future__ import annotations

import pytest

from tests.acceptance.conftest import Project


def collected(project: Project, *args: str) -> list[str]:
    result = project.run("--collect-only", "-q", *args)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    return [line.partition("::")[2] for line in result.outlines if "::" in line]


def suite(project: Project) -> None:
    project.task("A")
    project.task("B", dependencies=["D"])
    project.task("C", episode_id="E-1")
    project.task("D")
    project.task("E", episode_id="E-1")
    (project.path / "test_ordinary.py").write_text("def test_ordinary():\n    pass\n", "utf-8")


def test_each_item_is_in_one_part_and_what_is_tied_stays_together(project: Project) -> None:
    suite(project)
    parts = [collected(project, "--task-shard", f"{number}/3") for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == ["A", "B", "C", "D", "E", "test_ordinary"]
    assert all(parts)
    (with_b,) = [part for part in parts if "B" in part]
    assert "D" in with_b
    (with_c,) = [part for part in parts if "C" in part]
    assert "E" in with_c


def test_machines_with_other_orders_come_to_the_same_parts(project: Project) -> None:
    """As with pytest-randomly, which shuffles on each machine in its own way."""
    for name in "ABCDEF":
        project.task(name)
    shuffled = "def pytest_collection_modifyitems(items):\n    items.sort(key=lambda item: item.name, reverse={})\n"
    parts = []
    for number, reverse in ((1, True), (2, False)):
        (project.path / "conftest.py").write_text(shuffled.format(reverse), "utf-8")
        parts.append(collected(project, "--task-shard", f"{number}/2"))
    assert sorted([*parts[0], *parts[1]]) == list("ABCDEF")


@pytest.mark.thorough
def test_a_part_runs_under_xdist_as_without(project: Project) -> None:
    suite(project)
    alone = project.run("--task-shard", "1/2", "-v").parseoutcomes()
    result = project.run("--task-shard", "1/2", "-n", "2")
    assert result.parseoutcomes()["passed"] == alone["passed"] > 0
    assert "failed" not in result.parseoutcomes()


def test_an_empty_part_is_no_failure(project: Project) -> None:
    project.task("A")
    result = project.run("--task-shard", "2/2")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["task shard: 2/2", "*1 deselected*"])


def test_what_is_no_part_is_refused(project: Project) -> None:
    project.task("A")
    result = project.run("--task-shard", "3/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--task-shard*3/2*not a part such as 2/3*"])
