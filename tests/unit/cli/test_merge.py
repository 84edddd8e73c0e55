"""`harness merge`: what it says of folders that can and cannot be put together."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli.main import app
from harness.reporting.history.attempts import begun_line, ended_line
from harness.reporting.history.reading import load_run
from harness.reporting.history.writing import save_run
from harness.store import open_store
from tests.unit.cli.test_show import keep
from tests.unit.reporting.history.runs import execution, executions, failed, record, run


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The halves of a run."""
    monkeypatch.chdir(tmp_path)
    save_run(tmp_path / "1", run("20251116T090000-1", executions()[:9]))
    save_run(tmp_path / "2", run("20251116T090000-2", executions()[9:]))
    return tmp_path


def merge(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["merge", *arguments])


def test_two_halves(shards: Path) -> None:
    done = merge("1", "2")
    whole = load_run(shards / "merged")
    assert done.stdout == f"merged: run {whole.run}, of 2 folders: 7 passed, 10 failed, 1 skipped\n"
    assert len(whole.executions) == 19
    assert merge("2", "1", "1").stdout == done.stdout
    assert load_run(shards / "merged") == whole


def test_for_programs(shards: Path) -> None:
    found = json.loads(merge("1", "2", "3", "--json", "--output", "whole").stdout)
    assert found["tasks"] == {"passed": 7, "failed": 10, "not_judged": 0, "skipped": 1}
    assert found["merged_from"] == ["20251116T090000-1", "20251116T090000-2"]
    assert (found["output"], found["left_out"]) == ("whole", ["3: there is no such folder"])


def test_a_rerun_that_did_not_come_about_has_failed(shards: Path) -> None:
    save_run(shards / "1", run(parts=(execution(failed("T-1", "STEP_TIMEOUT"), "rerun"),)))
    counts = {"passed": 0, "failed": 1, "not_judged": 0, "skipped": 0}
    assert json.loads(merge("1", "--output", "out", "--json").stdout)["tasks"] == counts


def test_a_pipe_is_named_and_left_out(shards: Path) -> None:
    (shards / "1" / "allure-results").mkdir()
    os.mkfifo(shards / "1" / "allure-results" / "a-result.json")
    found = json.loads(merge("1", "2", "--json").stdout)
    assert found["left_out"] == ["1/allure-results/a-result.json: neither a file nor a folder"]
    assert "left out: 1/allure-results/a-result.json: neither" in merge("1", "2").stderr


def test_what_cannot_be_read_is_named_and_left_out(shards: Path) -> None:
    (shards / "3\x1b").mkdir()
    done = merge("1", "3\x1b")
    assert done.exit_code == 0
    assert done.stderr == "left out: 3 : it contains neither .harness/history.sqlite3 nor history.sqlite3\n"
    assert load_run(shards / "merged").merged_from == ("20251116T090000-1",)


def test_strict(shards: Path) -> None:
    done = merge("1", "3", "--strict")
    assert done.exit_code == 1
    assert done.stderr.endswith("nothing was merged, because --strict allows no folder to be left out\n")
    assert not (shards / "merged").exists()


def test_nothing_to_merge(shards: Path) -> None:
    done = merge("3", "4")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (1, "nothing was merged")


def test_an_output_that_is_a_project(shards: Path) -> None:
    done = merge("1", "--output", "2")
    assert done.exit_code == 1
    assert done.stderr == "2 exists and was not made by `harness merge`; name a new folder with --output\n"


def divided(folder: Path, part: int, of: int) -> None:
    """A part of a suite, with a failure of its own in the history and under `errors/`."""
    name, task = f"20251116T09000{part}-{part}", f"T-{part}"
    code = ("ELEMENT_NOT_FOUND", "STEP_TIMEOUT", "HTTP_UNAVAILABLE")[part - 1]
    save_run(folder, run(name, [execution(failed(task, code))], shard=f"{part}/{of}"))
    report = {"code": code, "error_message": f"cause {part}", "timestamp": f"2025-11-16T09:00:0{part}Z"}
    kept = keep(folder / "errors" / task, task_id=task, **report)
    (kept / "manifest.json").write_text(json.dumps({"task_id": task, "run": name}), "utf-8")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three parts of a suite."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3):
        divided(tmp_path / f"shard-{number}", number, 3)
    return tmp_path


def told(*arguments: str) -> tuple[str, str]:
    """What a command says, on both channels."""
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_the_failures_of_all_parts_are_of_the_merged_run(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merge("shard-1", "shard-2", "shard-3")
    name = load_run(parts / "merged").run
    found, notes = told("triage", "--artifacts", "merged/errors")
    assert notes == ""
    assert found.startswith(f"run {name}: 3 failed: 3 causes")
    monkeypatch.chdir(parts / "merged")
    listed, _ = told("show")
    assert len(listed.splitlines()) == 3
    assert "last run" not in listed
    assert {each["run"] for each in json.loads(told("show", "--json")[0])["failures"]} == {name}
    assert "T-3" in told("show", "last")[0]


def test_of_two_executions_of_a_task_the_later_one_counts(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [execution(failed("T-1", "NET_TIMEOUT"), "rerun"), execution(failed("T-1", "STEP_TIMEOUT", at=9), number=2)]
    save_run(shards / "once", run("20251116T090000-7", parts))
    for folder in ("errors/.previous/20251116T090000-7/T-1", "errors/T-1"):
        kept = keep(shards / "once" / folder)
        (kept / "manifest.json").write_text('{"task_id": "T-1", "run": "20251116T090000-7"}', "utf-8")
    merge("once", "--output", "out")
    found, notes = told("triage", "--artifacts", "out/errors")
    assert "1 failed: 1 cause" in found
    assert notes == "left out: failures that a later execution of the same task replaced (1)\n"
    monkeypatch.chdir(shards / "out")
    assert [line.endswith("(a later execution counts)") for line in told("show")[0].splitlines()] == [True, False]
    assert [each["counts"] for each in json.loads(told("show", "--json")[0])["failures"]] == [False, True]
    assert "of 2 failures" not in told("show", "last")[1]


def test_a_part_that_is_missing_is_named(parts: Path) -> None:
    done = merge("shard-1", "shard-2")
    assert (done.exit_code, done.stderr) == (0, "warning: part 3 of 3 is missing\n")
    assert json.loads(merge("shard-1", "--json").stdout)["missing_parts"] == ["parts 2, 3 of 3 are missing"]
    assert merge("merged", "shard-2", "shard-3", "--output", "whole", "--strict").stderr == ""


def test_strict_wants_all_parts(parts: Path) -> None:
    done = merge("shard-1", "shard-3", "--strict")
    assert done.exit_code == 1
    assert done.stderr.endswith("nothing was merged, because --strict requires every part: part 2 of 3 is missing\n")
    assert not (parts / "merged").exists()


def test_a_folder_that_is_named_twice_is_told(parts: Path) -> None:
    (parts / "copy").symlink_to("shard-1")
    shutil.copytree(parts / "shard-1", parts / "another")
    done = merge("shard-1", "shard-1", "copy", "another")
    assert done.exit_code == 0
    assert "of 1 folder: " in done.stdout
    assert done.stderr.splitlines()[:3] == [
        "shard-1: named more than once; it counts once",
        "copy: named more than once; it counts once",
        "another: the same run as in shard-1; it counts once",
    ]
    assert len(json.loads(merge("shard-1", "shard-1", "--json").stdout)["named_twice"]) == 1


def stored(place: str, part: int, of: int, *lines: str) -> None:
    """A part of a suite in a store, as its processes have told of it: each line is of a process of its own."""
    store = open_store(place).at(f"part-{part}-of-{of}")
    for number, line in enumerate(lines):
        begun = run(f"20251116T09000{number}-{part}", [], shard=f"{part}/{of}")
        tasks = [execution(record(f"T-{part}-{name}")).nodeid for name in "abc"]
        store.append(f"journal/{number}", [begun_line(begun, tasks), line])


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_the_parts_in_a_store_are_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    place = "run-42" if kind == "folder" else f"memory://{tmp_path.name}/run-42"
    place_of_errors = "errors/0/T-1-a"
    (tmp_path / "run-42").mkdir()
    lost = execution(failed("T-1-a", "STEP_TIMEOUT", artifacts=place_of_errors))
    stored(place, 1, 2, ended_line(lost), ended_line(execution(record("T-1-b"))))
    open_store(place).put(f"part-1-of-2/{place_of_errors}/manifest.json", b'{"task_id": "T-1-a"}')
    open_store(place).put("part-1-of-2/wrote/T-1-c", b"0")
    stored(place, 2, 2, *(ended_line(execution(record(f"T-2-{name}"))) for name in "abc"))
    open_store(place).put("run.json", b'{"parts": "2"}')
    done = merge(place)
    assert done.stderr == "warning: part 1 of 2: 1 task had begun to write and has no end: T-1-c\n"
    assert done.stdout.endswith("of 2 folders: 4 passed, 1 failed\n")
    assert (tmp_path / "merged/errors/T-1-a/manifest.json").is_file()
    assert f"{place}/part-2-of-2: named more than once; it counts once\n" in merge(place, f"{place}/").stderr
    strict = merge(f"{place[:-2]}*", "--strict", "--output", "strict")
    assert (strict.exit_code, strict.stderr.count("T-1-c")) == (1, 2)


def test_a_part_whose_notes_are_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run-42").mkdir()
    stored("run-42", 1, 2, ended_line(execution(record("T-1"))))
    open_store("run-42").put("begun/part-1-of-2/0", b"")
    open_store("run-42").put("begun/part-2-of-2/1", b"")
    open_store("run-42").put("run.json", b'{"parts": "2"}')
    done = merge("run-42")
    told = "lost: run-42: part-2-of-2: 1 began, and what it told is gone: what it did is not known\n"
    assert (done.exit_code, told in done.stderr.replace(f"{tmp_path}/", "")) == (1, True), done.stderr
    assert "1 passed" in done.stdout
    assert merge("run-42", "--strict").exit_code == 1


def test_a_store_without_a_part_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = merge(f"memory://{tmp_path.name}", "foo://x")
    assert done.exit_code == 1
    assert f"left out: memory://{tmp_path.name}: no part of a run is stored there" in done.stderr
    assert "left out: foo://x: Protocol not known: foo" in done.stderr


def test_a_project_with_files_of_these_names_is_no_store(shards: Path) -> None:
    (shards / "1" / "run.json").write_text("{}")
    assert merge("1").exit_code == 0


def test_a_password_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = merge(f"memory://ann:secret@{tmp_path.name}", "s3://AKIA:secret@bucket/run-*").stderr
    assert f"memory://{tmp_path.name}: no part of a run" in said
    assert "s3://bucket: expected the name of a bucket" in said
    assert "secret" not in said


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_what_a_hostile_store_says_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """One task for each lie: none of them keeps the others from the merge, and no file comes from elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "passwd").write_text("")
    place = "run-42" if kind == "folder" else f"memory://{tmp_path.name}/run-42"
    lies = ("../../elsewhere", str(tmp_path / "elsewhere"), "errors/\0/A", f"errors/{'x' * 5000}", "errors/link")
    told = [failed(f"T-{number}", "STEP_TIMEOUT", artifacts=lie, key="../../x") for number, lie in enumerate(lies)]
    year_1 = execution(record("T-9"))
    ends = [ended_line(each) for each in (*map(execution, told), year_1)]
    begun = begun_line(run("20251116T090000-1", []), []).replace("2025-11-16T09:00:00Z", "0001-01-01T00:00:00+14:00")
    open_store(place).append("whole/journal/0", [begun, *ends])
    open_store(place).put("run.json", b'{"parts": ""}')
    open_store(place).put("whole/errors/a\\b", b"")
    if kind == "folder":
        (tmp_path / "run-42/whole/errors").mkdir(exist_ok=True)
        (tmp_path / "run-42/whole/errors/link").symlink_to(tmp_path / "elsewhere")
    done = merge(place)
    assert (done.exit_code, done.stdout.endswith("1 passed, 5 failed\n")) == (0, True), done.output
    assert ("errors/a\\b is left out" in done.stderr) == (kind == "memory")
    assert len(list(tmp_path.rglob("passwd"))) == 1


def test_parts_that_were_divided_by_other_durations_are_named(parts: Path) -> None:
    save_run(parts / "shard-4", run("20251116T090004-4", [execution(record("T-4"))], shard="4/4", durations="abc"))
    said = merge("shard-1", "shard-4").stderr
    assert "the parts were not divided alike (1/3 by number; 4/4 by durations abc)" in said
    assert merge("shard-1", "shard-4", "--strict").exit_code == 1
