"""Failures beside the lines of their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.markdown import MOST, commands, line_of, uncollected_commands
from harness.reporting.triage import Trouble, causes

TASK = """task_id: T-1
goal: g
preconditions:
  - "mem('a') == 1"
steps:
  - {act: open, url: 'http://shop.local/'}
  - act: click
    selector: '#buy'
success_criteria:
  - "exists('#done')"
"""


def trouble(index: int | None, source: str = "tasks/t.task.yaml") -> Trouble:
    return Trouble("T-1", "ELEMENT_NOT_FOUND", "no element", step_index=index, source=source)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "web" / "tasks"
    place.mkdir(parents=True)
    (place / "t.task.yaml").write_text(TASK, "utf-8")
    (place / "broken.task.yaml").write_text("task_id: [", "utf-8")
    monkeypatch.chdir(tmp_path / "web")
    return tmp_path


@pytest.mark.parametrize(("index", "line"), [(0, 6), (1, 7), (2, 9), (-1, 3), (None, 1)])
def test_the_line_is_the_failing_step_s(checkout: Path, index: int | None, line: int) -> None:
    assert line_of(trouble(index), {}) == ("tasks/t.task.yaml", line)


def test_a_file_is_named_as_the_checkout_has_it(checkout: Path) -> None:
    assert line_of(trouble(0), {"GITHUB_WORKSPACE": str(checkout)}) == ("web/tasks/t.task.yaml", 6)
    assert line_of(trouble(0), {"GITHUB_WORKSPACE": "/elsewhere"}) == ("tasks/t.task.yaml", 6)


def test_a_message_about_a_place_in_a_file_is_shown_there(checkout: Path) -> None:
    told = Trouble("T-1", "INVALID_INPUT", "tasks/t.task.yaml:8:15: steps[1].selector: no", source="tasks/t.task.yaml")
    assert line_of(told, {"GITHUB_WORKSPACE": str(checkout)}) == ("web/tasks/t.task.yaml", 8)


def test_a_file_that_could_not_be_collected_is_annotated(checkout: Path) -> None:
    files = {"test_x.py": "E   No module named 'x'", "a.task.yaml": "a.task.yaml:4:2: steps: missing"}
    assert list(uncollected_commands(files, {"GITHUB_WORKSPACE": str(checkout)})) == [
        "::error file=web/test_x.py,line=1,title=not collected::E   No module named 'x'",
        "::error file=web/a.task.yaml,line=4,title=not collected::a.task.yaml:4:2: steps: missing",
    ]


@pytest.mark.parametrize("file", ["tasks/gone.task.yaml", "tasks/broken.task.yaml"])
def test_a_file_that_cannot_be_read_is_named_all_the_same(checkout: Path, file: str) -> None:
    assert line_of(trouble(1, file), {}) == (file, 1)


def test_a_failure_without_a_file_has_no_place() -> None:
    assert line_of(trouble(1, ""), {}) == ("", None)
    (command,) = commands(causes([trouble(1, "")]), lambda _: ("", None))
    assert command.startswith("::error title=T-1%3A ELEMENT_NOT_FOUND::no element%0A")


def test_each_cause_is_shown_before_any_is_shown_twice() -> None:
    same = [Trouble(f"S-{n}", "DRIVER_GONE", "ended") for n in range(20)]
    others = [Trouble(f"O-{n}", "ASSERTION_FAILED", "wrong", selector=f"#s{n}") for n in range(4)]
    shown = list(commands(causes([*same, *others]), lambda task: (f"{task.task_id}.yaml", 1)))
    assert len(shown) == MOST
    assert [line.split("file=")[1].split(".")[0] for line in shown[:6]] == ["S-0", "O-0", "O-1", "O-2", "O-3", "S-1"]
    assert "%0Athe same cause as for 19 more%0A" in shown[0]


def test_no_text_begins_another_command() -> None:
    bad = Trouble("T\n::add-mask::x", "UNKNOWN", "a%0A\n::stop-commands::x\x1b[2J", source="a,b:c.yaml")
    (command,) = commands(causes([bad]), lambda task: (task.source, 3))
    assert "\n" not in command
    assert "\x1b" not in command
    assert command.startswith("::error file=a%2Cb%3Ac.yaml,line=3,title=T %3A%3Aadd-mask%3A%3Ax%3A UNKNOWN::a%250A%0A")
