"""The file of recordings: what is written, found, missed, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.models.canonical import CanonicalRequest, canonical
from harness.models.cassettes import (
    Cassette,
    CassetteError,
    CassetteMissError,
    file_of,
    first_difference,
    problems,
    read,
)


def asked(text: str) -> CanonicalRequest:
    return canonical("claude", "POST", "/v1/messages", json.dumps({"messages": [text]}).encode())


def record(file: Path, *texts: str, trial: int = 0, mode: str = "record") -> None:
    cassette = Cassette.open(file, trial, mode)  # type: ignore[arg-type]
    for text in texts:
        cassette.add(asked(text), 200, {}, f"answer {text} {trial}", 5)
    cassette.save()


def test_the_file_lies_beside_the_task() -> None:
    assert file_of(Path("tasks"), "B1", "builder") == Path("tasks/cassettes/B1/builder.jsonl")


def test_what_was_recorded_is_found_again_in_order(tmp_path: Path) -> None:
    file = tmp_path / "cassettes" / "a.jsonl"
    record(file, "one", "one", "two")
    played = Cassette.open(file, 0, "replay")
    found = []
    for text in ("one", "two", "one"):
        exchange = played.find(asked(text))
        assert exchange is not None
        played.count(exchange)
        found.append((exchange.body, exchange.occurrence))
    assert found == [("answer one 0", 0), ("answer two 0", 0), ("answer one 0", 1)]
    assert played.unused == 0
    assert [path.name for path in file.parent.iterdir()] == ["a.jsonl"]


def test_an_answer_that_was_spoiled_is_given_again(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one")
    played = Cassette.open(file, 0, "replay")
    assert played.find(asked("one")) == played.find(asked("one"))


def test_three_trials_are_three_recordings(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for trial in (0, 2, 1):
        record(file, "one", trial=trial)
    bodies = [Cassette.open(file, trial, "replay").find(asked("one")).body for trial in range(3)]  # type: ignore[union-attr]
    assert bodies == ["answer one 0", "answer one 1", "answer one 2"]
    with pytest.raises(CassetteMissError, match="no recording for trial 3 in"):
        Cassette.open(file, 3, "replay").find(asked("one"))


def test_recording_anew_replaces_the_trial_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one", "two", trial=0)
    record(file, "one", trial=1)
    record(file, "three", trial=0)
    assert [(each.trial, each.body) for each in read(file)] == [(0, "answer three 0"), (1, "answer one 1")]


def test_auto_asks_only_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one")
    cassette = Cassette.open(file, 0, "auto")
    assert cassette.find(asked("one")) is not None
    assert cassette.find(asked("two")) is None
    cassette.add(asked("two"), 200, {}, "new", 1)
    cassette.save()
    assert [each.body for each in read(file)] == ["answer one 0", "new"]
    assert cassette.unused == 1


def test_a_recording_without_answers_writes_no_file(tmp_path: Path) -> None:
    Cassette.open(tmp_path / "a.jsonl", 0, "record").save()
    assert not list(tmp_path.iterdir())


def test_a_miss_names_the_first_line_that_differs_from_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "rules\nBuy a mouse\npage", "something\nelse")
    with pytest.raises(CassetteMissError) as caught:
        Cassette.open(file, 0, "replay").find(asked("rules\nBuy a house\npage"))
    said = str(caught.value)
    assert "recorded 'Buy a mouse', now 'Buy a house'" in said
    assert str(file) in said


def test_a_miss_says_how_often_the_request_was_recorded(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one")
    played = Cassette.open(file, 0, "replay")
    first = played.find(asked("one"))
    assert first is not None
    played.count(first)
    with pytest.raises(CassetteMissError, match=r"asked 2 times, and .* has only 1 answers"):
        played.find(asked("one"))


def test_a_long_line_is_shown_around_its_difference(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "x " * 2500 + "mouse" + " y" * 2500)
    with pytest.raises(CassetteMissError) as caught:
        Cassette.open(file, 0, "replay").find(asked("x " * 2500 + "house" + " y" * 2500))
    assert "x mouse" in str(caught.value)
    assert len(str(caught.value)) < 800


@pytest.mark.parametrize(
    ("recorded", "present", "found"),
    [
        (["a", "b"], ["a", "c"], (2, "b", "c")),
        (["a"], ["a", "c"], (2, None, "c")),
        (["a", "b"], ["a"], (2, "b", None)),
    ],
)
def test_the_first_difference(recorded: list[str], present: list[str], found: object) -> None:
    assert first_difference(recorded, present) == found


def test_a_broken_line_is_named_and_the_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one", "two")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], '{"digest": 1}', lines[1].replace("two", "three", 1)]) + "\n")
    found = dict(problems(file))
    assert list(found) == [2, 3]
    assert "is not a recorded exchange" in found[2]
    assert "changed by hand" in found[3]
    with pytest.raises(CassetteError, match=rf"{file}:2: is not a recorded exchange"):
        Cassette.open(file, 0, "auto")


def test_recording_anew_mends_a_broken_file(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    record(file, "one")
    record(file, "other", trial=1)
    file.write_bytes(b"<<<<<<< ours\n" + file.read_bytes())
    record(file, "two")
    assert [(each.trial, each.body) for each in read(file)] == [(0, "answer two 0"), (1, "answer other 1")]


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CassetteError, match="cannot be read"):
        Cassette.open(tmp_path, 0, "replay")


def test_a_large_part_is_written_once(tmp_path: Path) -> None:
    file, tools = tmp_path / "a.jsonl", [{"name": "click", "description": "word " * 300}]

    def question(text: str) -> CanonicalRequest:
        return canonical("m", "POST", "/", json.dumps({"text": text, "tools": tools}).encode())

    cassette = Cassette.open(file, 0, "record")
    for text in ("one", "two"):
        cassette.add(question(text), 200, {}, "answer", 1)
    cassette.save()
    assert file.read_text().count("word word") == file.read_text().splitlines()[0].count("word word")
    assert [each.request for each in read(file)] == [question("one").document, question("two").document]
    assert Cassette.open(file, 0, "replay").find(question("two")) is not None
    file.write_text(file.read_text().splitlines()[1] + "\n")
    with pytest.raises(CassetteError, match="changed by hand"):
        read(file)
