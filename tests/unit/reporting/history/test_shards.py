"""Folders of shards as one that reads like a project's; broken, foreign and hostile ones."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest

from harness.cli.project import project_of
from harness.reporting.history.file import HISTORY, HistoryError
from harness.reporting.history.merging import put_together, shard_of
from harness.reporting.history.reading import load_run, recent_runs
from harness.reporting.history.record import RunRecord
from harness.reporting.history.writing import save_run
from harness.reporting.task_record import load_last_run
from tests.unit.reporting.history.runs import execution, failed, record, run


def shard(folder: Path, number: int, *keys: str, at: float = 0) -> Path:
    """With a failure for each key, and one task that passed."""
    parts = [execution(failed(key, "STEP_TIMEOUT", at=at + number, key=key, artifacts=f"errors/{key}")) for key in keys]
    name = f"20251116T09000{number}-{number}"
    save_run(folder, run(name, [*parts, execution(record(f"T-PASSED-{number}"))]))
    for key in keys:
        place = folder / "errors" / key
        place.mkdir(parents=True)
        (place / "manifest.json").write_text(json.dumps({"run": name, "task_id": key}), "utf-8")
        (place / "of.txt").write_text(f"shard {number}", "utf-8")
    results = folder / "allure-results"
    results.mkdir()
    (results / f"{number}-result.json").write_text("{}", "utf-8")
    (results / "allurerc.mjs").write_text("process.exit(1)", "utf-8")
    return folder


def places(found: RunRecord) -> dict[str, str]:
    """Directory of each failure -> what lies there."""
    failures = (each.record.artifacts for each in found.executions if each.record and each.record.artifacts)
    return {Path(place).name: (Path(place) / "of.txt").read_text("utf-8") for place in failures}


def put(output: Path, *folders: Path) -> RunRecord:
    return put_together([shard_of(each) for each in folders], output)


def test_one_folder_of_two(tmp_path: Path) -> None:
    one, two = shard(tmp_path / "1", 1, "T-1", "T-2"), shard(tmp_path / "2", 2, "T-1")
    out = tmp_path / "out"
    kept = put(out, one, two)
    found = load_run(out)
    assert found.run == kept.run
    assert found.merged_from == ("20251116T090001-1", "20251116T090002-2")
    assert places(found) == {"T-1": "shard 1", "T-2": "shard 1", "T-1~2": "shard 2"}
    assert [each.number for each in found.executions if each.task_id == "T-1"] == [1, 2]
    assert {each.name for each in (out / "allure-results").iterdir()} == {
        "1-result.json", "2-result.json", "allurerc.mjs", "environment.properties", "executor.json",
    }  # fmt: skip
    assert "process.exit" not in (out / "allure-results" / "allurerc.mjs").read_text("utf-8")
    assert project_of(out / "errors") == out
    last = load_last_run(out / ".harness" / "last-run.json")
    assert last is not None
    assert (last.run, len(last.results)) == (found.run, 4)
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "out"}


def test_again_and_with_one_more(tmp_path: Path) -> None:
    one, two, three = (shard(tmp_path / str(n), n, "T-1") for n in (1, 2, 3))
    out = tmp_path / "out"
    first = put(out, one, two)
    before = load_run(out)
    assert put(out, two, one).run == first.run
    assert load_run(out) == before
    assert len(recent_runs(out)) == 1
    put(out, one, two, three)
    assert {each.run for each in recent_runs(out)} == {first.run, load_run(out).run}
    assert put(tmp_path / "other", out, three).executions == put(tmp_path / "third", one, two, three).executions
    assert places(load_run(tmp_path / "other")) == {"T-1": "shard 1", "T-1~2": "shard 2", "T-1~3": "shard 3"}


def test_a_whole_with_one_of_its_parts_again_copies_nothing_twice(tmp_path: Path) -> None:
    one, two = shard(tmp_path / "1", 1, "T-1"), shard(tmp_path / "2", 2, "T-1")
    put(tmp_path / "out", one, two)
    put(tmp_path / "again", tmp_path / "out", one)
    assert {path.name for path in (tmp_path / "again" / "errors").iterdir()} == {"T-1", "T-1~2"}
    assert places(load_run(tmp_path / "again")) == {"T-1": "shard 1", "T-1~2": "shard 2"}


def test_only_files_are_read_and_others_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = shard(tmp_path / "1", 1, "T-1")
    pipe, device = one / "errors" / "T-1" / "pipe", one / "errors" / "T-1" / "device"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    os.mkfifo(one / "allure-results" / "9-result.json")
    with closing(socket.socket(socket.AF_UNIX)) as listener, monkeypatch.context() as context:
        context.chdir(pipe.parent)  # the path of a socket must be short
        listener.bind("s")
    said: list[str] = []
    put_together([shard_of(one)], tmp_path / "out", said.append)
    assert [line.partition(":")[0].rpartition("/")[2] for line in said] == ["device", "pipe", "s", "9-result.json"]
    assert {path.name for path in (tmp_path / "out" / "errors" / "T-1").iterdir()} == {"manifest.json", "of.txt"}


def test_a_manifest_that_is_a_pipe_is_none(tmp_path: Path) -> None:
    one = shard(tmp_path / "1", 1, "T-1")
    (one / "errors" / "T-1" / "manifest.json").unlink()
    os.mkfifo(one / "errors" / "T-1" / "manifest.json")
    assert places(put(tmp_path / "out", one) and load_run(tmp_path / "out")) == {"T-1": "shard 1"}


def test_what_allure_knows_of_earlier_merges_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(out, shard(tmp_path / "1", 1, "T-1"))
    earlier = {".harness/allure-history.jsonl": "{}\n"}
    for name, text in earlier.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(text, "utf-8")
    put(out, shard(tmp_path / "2", 2, "T-1"))
    assert {name: (out / name).read_text("utf-8") for name in earlier} == earlier


def test_what_others_wrote_beside_it_stays(tmp_path: Path) -> None:
    out = tmp_path / "out"
    put(out, shard(tmp_path / "1", 1, "T-1"))
    others = {"dashboard.html": "page", "docs/notes.txt": "mine", "pyproject.toml": "[tool.harness]\n# mine\n"}
    for name, text in {**others, "errors/T-1/old.txt": "of the last merge"}.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(text, "utf-8")
    (out / "link").symlink_to("docs")
    put(out, shard(tmp_path / "2", 2, "T-1"))
    assert {name: (out / name).read_text("utf-8") for name in others} == others
    assert (out / "link").readlink() == Path("docs")
    assert places(load_run(out)) == {"T-1": "shard 2"}
    assert not (out / "errors" / "T-1" / "old.txt").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"1", "2", "out"}


@pytest.mark.parametrize("moment", ["the old folder leaves", "the new folder comes"])
def test_a_merge_that_is_interrupted_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    out = tmp_path / "out"
    before = put(out, shard(tmp_path / "1", 1, "T-1"))
    (out / "dashboard.html").write_text("mine", "utf-8")
    rename = os.rename

    def interrupted(source: Path, target: Path) -> None:
        if (source if moment == "the old folder leaves" else target) == out and ".old" not in source.name:
            raise KeyboardInterrupt
        rename(source, target)

    other = shard(tmp_path / "2", 2, "T-2")
    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        put(out, other)
    monkeypatch.undo()
    assert load_run(out).run == before.run
    assert (out / "dashboard.html").read_text("utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "out"]


def test_a_manifest_keeps_who_wrote_it_and_says_of_which_whole_it_is(tmp_path: Path) -> None:
    one, two, out = shard(tmp_path / "1", 1, "T-1"), shard(tmp_path / "2", 2, "T-2"), tmp_path / "out"
    (two / "errors" / "T-2" / "manifest.json").write_text("[" * 100_000, "utf-8")
    first = put(out, one).run
    last = put(out, out, one, two).run
    document = json.loads((out / "errors" / "T-1" / "manifest.json").read_text("utf-8"))
    assert document == {"run": "20251116T090001-1", "task_id": "T-1", "merged": {"run": last, "counts": True}}
    (earlier,) = (each for each in load_run(out, first).executions if each.task_id == "T-1")
    assert earlier.record is not None
    assert earlier.record.artifacts == str(out / "errors" / "T-1")


def test_of_a_ci_system_that_leaves_out_hidden_folders(tmp_path: Path) -> None:
    one = shard(tmp_path / "1", 1, "T-1")
    (one / HISTORY).rename(one / "history.sqlite3")
    assert places(put(tmp_path / "out", one) and load_run(tmp_path / "out")) == {"T-1": "shard 1"}


def test_executions_that_left_their_place_to_a_rerun(tmp_path: Path) -> None:
    one = shard(tmp_path / "1", 1, "T-1")
    name = "20251116T090001-1"
    older = failed("T-1", "NET_TIMEOUT", artifacts="errors/T-1")
    parts = [
        execution(older, "rerun"),
        execution(failed("T-1", "STEP_TIMEOUT", at=9, artifacts="errors/T-1"), number=2),
    ]
    save_run(one, run(name, parts))
    previous = one / "errors" / ".previous" / name / "T-1"
    previous.mkdir(parents=True)
    (previous / "of.txt").write_text("first", "utf-8")
    put(tmp_path / "out", one)
    assert places(load_run(tmp_path / "out")) == {"T-1": "first", "T-1~2": "shard 1"}


def test_what_is_gone_is_not_linked(tmp_path: Path) -> None:
    save_run(tmp_path / "1", run(parts=[execution(failed("T-1", "STEP_TIMEOUT", artifacts="/home/other/errors/T-1"))]))
    (found,) = put(tmp_path / "out", tmp_path / "1").executions
    assert found.record is not None
    assert found.record.artifacts is None


def test_a_hostile_folder_stays_where_it_belongs(tmp_path: Path) -> None:
    """Its history names places outside of it, its keys are paths, and its directories have links."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "of.txt").write_text("secret", "utf-8")
    one = tmp_path / "1"
    inner = one / "errors" / "T-2"
    inner.mkdir(parents=True)
    (inner / "of.txt").write_text("mine", "utf-8")
    (inner / "link.txt").symlink_to(secret / "of.txt")
    (inner / "folder").symlink_to(secret)
    (one / "errors" / "T-3").symlink_to(secret)
    names = {"T-1": str(secret), "T-2": "errors/T-2", "T-3": "errors/T-3"}
    parts = [
        execution(failed(each, "STEP_TIMEOUT", key="../../evil", artifacts=place)) for each, place in names.items()
    ]
    save_run(one, run(parts=parts))
    (one / "allure-results").symlink_to(secret)
    out = tmp_path / "out"
    put(out, one)
    assert places(load_run(out)) == {"task": "mine"}
    assert [each.name for each in (out / "errors" / "task").iterdir()] == ["of.txt"]
    assert not (out / "allure-results").exists()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda folder: None, "there is no such folder"),
        (lambda folder: folder.mkdir(), "it contains neither .harness/history.sqlite3 nor history.sqlite3"),
        (lambda folder: (folder.mkdir(), (folder / "history.sqlite3").write_text("no" * 999)), "is damaged"),
    ],
    ids=["none", "empty", "broken"],
)
def test_folders_that_cannot_be_merged(tmp_path: Path, make: object, problem: str) -> None:
    assert callable(make)
    make(tmp_path / "1")
    with pytest.raises(HistoryError, match=problem.replace(".", r"\.")):
        shard_of(tmp_path / "1")


def test_a_folder_of_others_is_not_overwritten(tmp_path: Path) -> None:
    one, out = shard(tmp_path / "1", 1), tmp_path / "out"
    out.mkdir()
    put(out, one)
    assert load_run(out).merged_from == ("20251116T090001-1",)
    with pytest.raises(HistoryError, match="exists and was not made by `harness merge`"):
        put(one, out)
    assert load_run(one).run == "20251116T090001-1"
