"""Folders of Allure results that somebody else has filled, or nobody finished."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.allure.files import write_allure_files
from harness.reporting.allure.results import read_results, used_files

BEGAN = datetime(2026, 5, 1, 12, tzinfo=UTC)


def result(folder: Path, uuid: str, second: float = 0, **more: Any) -> Path:
    """A result that began so many seconds after the last run."""
    folder.mkdir(exist_ok=True)
    start = int((BEGAN.timestamp() + second) * 1000)
    document = {"uuid": uuid, "name": f"task {uuid}", "historyId": f"h-{uuid}", "status": "passed", "start": start}
    document["fullName"] = f"t#{uuid}"
    path = folder / f"{uuid}-result.json"
    path.write_text(json.dumps({**document, "stop": start + 10, **more}), "utf-8")
    return path


def run_id(folder: Path, run: str = "20260501T120000-77") -> None:
    write_allure_files(folder, {"Browser": "chromium", "Run": run}, {})


def test_what_a_run_writes_is_all_read(tmp_path: Path) -> None:
    attached = [{"name": "log", "source": "1-attachment.txt", "type": "text/plain"}]
    result(tmp_path, "a", steps=[{"name": "s", "status": "passed", "attachments": attached}])
    (tmp_path / "1-attachment.txt").write_text("x")
    (tmp_path / "2-attachment.txt").write_text("of nobody")
    (tmp_path / "c-container.json").write_text(json.dumps({"uuid": "c", "children": ["a"], "befores": []}))
    run_id(tmp_path)
    found = read_results(tmp_path)
    assert (list(found.tests), list(found.fixtures), found.left_out) == (["a-result.json"], ["c-container.json"], ())
    assert list(used_files(found)) == ["1-attachment.txt", "environment.properties"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x-result.json", '{"uuid": "x", "na', "not JSON, maybe half-written"),
        ("x-result.json", "", "not JSON, maybe half-written"),
        ("x-result.json", "[" * 100_000, "not JSON, maybe half-written"),
        ("x-result.json", "[]", "not what Allure writes: the document"),
        ("x-result.json", '{"name": "n", "start": 1}', "not what Allure writes: uuid: Field required"),
        ("x-result.json", '{"uuid": "u", "name": "n", "start": "then"}', "not what Allure writes: start"),
        ("x-result.json", '{"uuid": "u", "name": "n", "start": 1, "steps": [7]}', "not what Allure writes: steps.0"),
        ("x-result.json", '{"uuid": "u", "name": "n", "start": 1, "status": "<b>"}', "not what Allure writes: status"),
        ("x-container.json", '{"befores": "?"}', "not what Allure writes: befores"),
        ("executor.json", "{", "not JSON, maybe half-written"),
        ("notes.txt", "hello", "not written by Allure"),
        ("report.xml", "<testsuite/>", "not written by Allure"),
        ("allurerc.mjs", "process.exit(1)", "a program, which is not run"),
    ],
)
def test_broken_and_foreign_files_are_left_out_by_name(tmp_path: Path, name: str, text: str, why: str) -> None:
    result(tmp_path, "good")
    (tmp_path / name).write_text(text)
    found = read_results(tmp_path)
    assert list(found.tests) == ["good-result.json"]
    assert len(found.left_out) == 1
    assert found.left_out[0].startswith(f"{name}: {why}")


def test_bytes_that_are_no_text_and_folders_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "b-result.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "d-result.json").mkdir()
    (tmp_path / "secret-attachment.txt").symlink_to("/etc/hostname")
    found = read_results(tmp_path)
    assert not found.tests
    assert [line.split(": ")[1] for line in found.left_out] == [
        "not JSON, maybe half-written", "not a file", "a link to somewhere else",
    ]  # fmt: skip


def test_an_attachment_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    stray = {"name": "passwords", "source": "../../etc/passwd", "type": "text/plain"}
    result(tmp_path, "a", attachments=[stray], steps=[{"name": "s", "attachments": [stray]}])
    (tmp_path / "c-container.json").write_text(json.dumps({"befores": [{"name": "f", "attachments": [stray]}]}))
    found = read_results(tmp_path)
    assert "passwd" not in json.dumps([found.tests, found.fixtures])
    assert len(found.left_out) == 3
    assert found.left_out[0] == "a-result.json: attachment 'passwords', '../../etc/passwd', was not found"


def test_links_are_web_addresses(tmp_path: Path) -> None:
    links = [{"url": "javascript:alert(1)", "name": "x"}, {"url": "https://issues.test/1", "type": "issue"}]
    result(tmp_path, "a", links=links)
    assert read_results(tmp_path).tests["a-result.json"]["links"] == links[1:]


def test_the_same_tests_of_earlier_runs_are_left_out(tmp_path: Path) -> None:
    result(tmp_path, "old", -60, historyId="h-a")
    result(tmp_path, "other", -50)
    result(tmp_path, "a", 0.3)
    run_id(tmp_path)
    found = read_results(tmp_path)
    assert list(found.tests) == ["a-result.json"]
    assert found.left_out == ("2 of 3 results, which are from earlier runs (--all-runs keeps them)",)
    assert len(read_results(tmp_path, all_runs=True).tests) == 3


def test_shards_that_were_put_together_are_all_kept(tmp_path: Path) -> None:
    result(tmp_path, "shard1", -60)
    result(tmp_path, "shard2", 4)
    run_id(tmp_path)
    assert len(read_results(tmp_path).tests) == 2


@pytest.mark.parametrize("run", ["20269999T000000-1", "?"])
def test_a_run_that_cannot_be_told_leaves_nothing_out(tmp_path: Path, run: str) -> None:
    result(tmp_path, "old", -60, historyId="h-a")
    result(tmp_path, "a", 1)
    run_id(tmp_path, run)
    assert len(read_results(tmp_path).tests) == 2


def test_a_folder_that_is_not_there_has_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path / "nothing").tests == {}


R1, R2, R3 = "20260501T110000-5", "20260501T120000-77", "20260501T130000-6"


def of(run: str, **more: Any) -> dict[str, Any]:
    return {"labels": [{"name": "run", "value": run}], **more}


def test_a_run_that_was_killed_is_the_last_by_its_results(tmp_path: Path) -> None:
    """It wrote nothing at its end, and may have begun within the second in which the other ended."""
    result(tmp_path, "old", 1, **of(R1, historyId="h-a", status="failed"))
    result(tmp_path, "a", 1, **of(R2))
    run_id(tmp_path, R1)
    found = read_results(tmp_path)
    assert (list(found.tests), found.run, found.notes) == (["a-result.json"], R2, ())
    assert found.left_out == ("1 of 2 results, which are from earlier runs (--all-runs keeps them)",)


def test_a_run_of_other_tests_leaves_of_each_test_the_latest_run(tmp_path: Path) -> None:
    result(tmp_path, "old", 1, **of(R1, historyId="h-a", status="failed"))
    result(tmp_path, "a", 2, **of(R2))
    result(tmp_path, "b", 3, **of(R3))
    run_id(tmp_path, R3)
    found = read_results(tmp_path)
    assert list(found.tests) == ["a-result.json", "b-result.json"]
    assert found.left_out == ("1 of 3 results, which are from earlier runs (--all-runs keeps them)",)
    assert found.notes == (f"1 of 2 results are from other runs than the last one, {R3}, which ran other tests",)


def test_what_ran_again_in_the_same_run_is_all_kept(tmp_path: Path) -> None:
    result(tmp_path, "a1", 1, **of(R2, historyId="h-a", status="failed"))
    result(tmp_path, "a2", 2, **of(R2, historyId="h-a"))
    assert len(read_results(tmp_path).tests) == 2


def test_a_run_that_left_nothing_is_told(tmp_path: Path) -> None:
    result(tmp_path, "a", 1, **of(R2))
    run_id(tmp_path, R3)
    assert read_results(tmp_path).notes == (
        f"the last run, {R3}, left no results of tests here; these are from earlier runs",
    )


def test_merged_runs_are_one(tmp_path: Path) -> None:
    result(tmp_path, "a1", 1, **of(R2, historyId="h-a", status="failed"))
    result(tmp_path, "a2", 2, **of(R3, historyId="h-a"))
    run_id(tmp_path, "20260501T120000-merged-0a1b2c3d")
    found = read_results(tmp_path)
    assert (len(found.tests), found.left_out, found.notes) == (2, (), ())
    assert all(test["labels"] == [] for test in found.tests.values())


def test_a_label_that_names_no_run_is_none(tmp_path: Path) -> None:
    result(tmp_path, "a", 1, **of("99999999T999999-1"))
    result(tmp_path, "b", 1)
    run_id(tmp_path)
    assert read_results(tmp_path).notes == ()
