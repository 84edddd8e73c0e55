"""One file: what it holds, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.problems import SpecError
from harness.spec.source import file_label, read_mapping, read_source
from tests.unit.spec.files import write

YAML = "# a task\ntask_id: T-1\nsteps:\n  - act: open\n    'url': http://a\n"


def test_places_of_values_and_keys(tmp_path: Path) -> None:
    source = read_source(write(tmp_path, YAML))
    assert source.place(()) == (2, 1)
    assert source.place(("steps",), key=True) == (3, 1)
    assert source.place(("steps", 0)) == (4, 5)
    assert source.place(("steps", 0, "url")) == (5, 12)
    assert source.place(("steps", 0, "url"), key=True) == (5, 5)


def test_what_is_not_there_is_placed_at_what_is_around_it(tmp_path: Path) -> None:
    source = read_source(write(tmp_path, YAML))
    assert source.place(("steps", 0, "selector")) == (4, 5)
    assert source.place(("steps", 7, "selector")) == (4, 3)
    assert source.place(("goal",), key=True) == (2, 1)


@pytest.mark.parametrize(
    ("text", "name", "offset", "place"),
    [
        ("a: mem('x')", "f.yaml", 4, (1, 8)),
        ("a: 'it''s: x'", "f.yaml", 4, (1, 10)),
        (r'a: "x\n\u00e9\"y"', "f.yaml", 4, (1, 16)),
        ("a: |\n  one\n  two\n", "f.yaml", 5, (3, 4)),
        ("a:\n  - b: |-\n      one\n      two\n", "f.yaml", 4, (4, 7)),
        ("a: >\n  one\n  two\n", "f.yaml", 5, (1, 4)),
        ("a: one\n  two\n", "f.yaml", 5, (1, 4)),
        (r'{"a": "x\"\u00e9/y"}', "f.json", 4, (1, 18)),
        ('{\t"a":\t"xyz"}', "f.json", 2, (1, 11)),
    ],
)
def test_a_character_of_a_text(tmp_path: Path, text: str, name: str, offset: int, place: tuple[int, int]) -> None:
    source = read_source(write(tmp_path, text, name))
    value = source.data["a"]
    path = ("a",) if isinstance(value, str) else ("a", 0, "b")
    value = value if isinstance(value, str) else value[0]["b"]
    assert source.place(path, within=(value, offset)) == place


def test_line_ends_and_byte_order_marks_of_windows(tmp_path: Path) -> None:
    source = read_source(write(tmp_path, b"\xef\xbb\xbftask_id: a\r\ngoal: b\r\n"))
    assert source.data == {"task_id": "a", "goal": "b"}
    assert source.place(("goal",)) == (2, 7)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_mapping(tmp_path / "no.yaml")
    with pytest.raises(SpecError, match="cannot be read"):
        read_mapping(tmp_path)


def test_labels_are_relative_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert file_label(tmp_path / "tasks" / "a.yaml") == str(Path("tasks", "a.yaml"))
    assert file_label(Path("/elsewhere/a.yaml")) == "/elsewhere/a.yaml"
