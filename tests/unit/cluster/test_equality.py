"""What a slot must have in common with its driver."""

from __future__ import annotations

from pathlib import Path

from harness.cluster.equality import NodeFacts, differences


def project(folder: Path) -> Path:
    (folder / "tasks").mkdir(parents=True)
    (folder / "tasks" / "a.task.yaml").write_text("task_id: A\n", "utf-8")
    (folder / "conftest.py").write_text("", "utf-8")
    return folder


def test_the_same_files_have_the_same_digest_wherever_they_are(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), project(tmp_path / "other")
    assert differences(NodeFacts.here(one), NodeFacts.here(other)) == []


def test_a_file_that_differs_is_named(tmp_path: Path) -> None:
    one, other = project(tmp_path / "one"), project(tmp_path / "other")
    (other / "tasks" / "a.task.yaml").write_text("task_id: B\n", "utf-8")
    (line,) = differences(NodeFacts.here(one), NodeFacts.here(other))
    assert line.startswith("the project's files: ")
    assert line.endswith("(tasks/a.task.yaml)")


def test_what_a_run_writes_does_not_count(tmp_path: Path) -> None:
    one = project(tmp_path / "one")
    before = NodeFacts.here(one, (one / "errors",))
    (one / "errors").mkdir()
    (one / "errors" / "a.yaml").write_text("x", "utf-8")
    (one / ".harness").mkdir()
    (one / ".harness" / "a.yaml").write_text("x", "utf-8")
    (one / "report.json").write_text("{}", "utf-8")
    assert differences(before, NodeFacts.here(one, (one / "errors",))) == []


def test_versions_are_compared_with_both_values() -> None:
    here, there = NodeFacts("3.12", "1.0", "1.65", "p"), NodeFacts("3.11", "1.1", "1.64", "p")
    assert differences(here, there) == [
        "Python: 3.12 here, 3.11 there",
        "pytest-taskspec: 1.0 here, 1.1 there",
        "Playwright: 1.65 here, 1.64 there",
    ]
