"""`errors/<task>/`: whole, redacted, inert, and never outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from harness.model.plan import Plan
from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import ConsoleLine, TaskResult
from harness.reporting.archive import DirectoryArchive
from harness.reporting.files import NAMES
from harness.reporting.redaction import Redactor
from harness.resilience.owner import Owner
from harness.values import replace
from tests.unit.conftest import examples
from tests.unit.reporting import sample
from tests.unit.reporting.test_har import har

SECRET = "s3cr3t-Value"


def archive(root: Path, run: str = "run-1", keep: int = 5) -> DirectoryArchive:
    return DirectoryArchive(root, run, Redactor(), keep)


def said(text: str, level: str = "LOG") -> tuple[ConsoleLine, ...]:
    return (ConsoleLine(sample.START, level, text),)


def evidence(folder: Path, secret: str = SECRET, without: tuple[str, ...] = ()) -> Evidence:
    """All that a session leaves, with a secret in each file that can hold one."""
    files: dict[str, bytes] = {
        "screenshot.png": b"\x89PNG",
        "dom_snapshot.html": f"<script>alert(1)</script><p>{secret}</p>".encode(),
        "console_logs.txt": f"[ERROR] {secret}\n".encode(),
        "network_logs.har": json.dumps(har(comment=secret)).encode(),
    }
    for name, data in files.items():
        if name not in without:
            (folder / name).write_bytes(data)
    with zipfile.ZipFile(folder / "trace.zip", "w") as trace:
        trace.writestr("trace.trace", json.dumps({"type": "console", "text": secret}) + "\n")
    (folder / "downloads").mkdir(exist_ok=True)
    (folder / "downloads" / "invoice.txt").write_text(f"paid with {secret}")
    (folder / "har-1.har").write_text("a working file of the session")
    names = (*files, "trace.zip")
    return Evidence(folder, tuple(Item(name, "taken", seconds=0.1) for name in names), "http://x/", said(secret))


def keep(made: DirectoryArchive, plan: Plan, **changes: Any) -> Path:
    result = changes.pop("result", None) or sample.failed(plan)
    found = changes.pop("evidence", None) or evidence(made.scratch(plan))
    state = changes.pop("state", Snapshot({"k": {"value": SECRET}}, {"env": {"order": 1}}))
    assert result.error is not None
    return made.keep(plan, result, changes.pop("report", result.error), found, state)


def manifest(folder: Path) -> dict[str, Any]:
    document = json.loads((folder / "manifest.json").read_text())
    return {entry["name"]: entry for entry in document["artifacts"]} | {"": document}


def test_a_directory_is_complete(tmp_path: Path) -> None:
    path = keep(archive(tmp_path), sample.plan())
    assert path == tmp_path / "B1-2025-001"
    assert {p.name for p in path.iterdir()} == {*NAMES, "manifest.json", "files"}
    assert (path / "files/downloads/invoice.txt").is_file()
    entries = manifest(path)
    assert all(entries[name]["status"] == "taken" for name in NAMES)
    assert entries["trace.zip"]["bytes"] == (path / "trace.zip").stat().st_size
    assert entries[""]["run"] == "run-1"
    assert not (tmp_path / ".tmp").exists()


def test_the_report_keeps_the_schema_of_003(tmp_path: Path) -> None:
    document = json.loads((keep(archive(tmp_path), sample.plan()) / "error_report.json").read_text())
    assert document["error_type"] == "timeout_step"
    assert document["step"] == {"act": "wait", "selector": ".product-grid .product-item"}
    assert "stack_trace" not in document
    assert None not in document["context"].values()
    assert document["metrics"]["steps_completed"] == 4


def test_the_trace_has_every_attempt(tmp_path: Path) -> None:
    plan = sample.plan()
    folder = keep(archive(tmp_path), plan, result=sample.failed(plan, attempts=2))
    trace = json.loads((folder / "partial_trace.json").read_text())
    assert [line["step_index"] for line in trace["steps"]] == [0, 1, 2, 3, 4, 4]
    assert trace["error"]["code"] == "STEP_TIMEOUT"


def test_no_secret_is_in_any_file(tmp_path: Path) -> None:
    plan = sample.plan(secrets=(SECRET,))
    assert _leaks(keep(archive(tmp_path), plan), SECRET) == []


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.text(
        st.characters(codec="utf-8", categories=("L", "N", "P", "S"), exclude_characters="<>&'\"\\"),
        min_size=12,
        max_size=30,
    )
)
def test_whatever_the_secret_it_is_in_no_file(tmp_path: Path, secret: str) -> None:
    plan = sample.plan(secrets=(secret,))
    if not (tmp_path / "anyway").is_dir():
        keep(archive(tmp_path / "anyway"), sample.plan())
    assume(not _leaks(tmp_path / "anyway", secret))  # a word of the reports' own, such as a key of HAR files
    made = archive(tmp_path / "made")
    found = evidence(made.scratch(plan), secret)
    assert _leaks(keep(made, plan, evidence=found, state=Snapshot({"k": secret}, {"env": [secret]})), secret) == []


def _leaks(folder: Path, secret: str) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as opened:
                contents = [opened.read(name) for name in opened.namelist()]
        else:
            contents = [path.read_bytes()] if path.is_file() else []
        ways = (secret.encode(), json.dumps(secret)[1:-1].encode())
        found += [path.name for data in contents if any(way in data for way in ways)]
    return found


def test_a_typed_password_is_in_neither_report_nor_trace(tmp_path: Path) -> None:
    steps = [{"act": "type", "selector": "#password", "value": "pw-of-ann"}]
    plan = sample.plan(steps=steps)
    folder = keep(archive(tmp_path), plan, result=sample.failed(plan, index=0))
    for name in ("error_report.json", "partial_trace.json"):
        assert "pw-of-ann" not in (folder / name).read_text()


def test_the_dom_snapshot_is_inert(tmp_path: Path) -> None:
    text = (keep(archive(tmp_path), sample.plan()) / "dom_snapshot.html").read_text()
    assert "<script" not in text
    assert "Content-Security-Policy" in text


def test_what_is_not_taken_has_its_reason(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    items = tuple(
        Item(name, "skipped", "`capture: none`") for name in ("screenshot.png", "dom_snapshot.html", "trace.zip")
    )
    found = Evidence(made.scratch(plan), items)
    entries = manifest(keep(made, plan, evidence=found, state=Snapshot(why="`capture: none`")))
    for name in ("screenshot.png", "dom_snapshot.html", "trace.zip", "memory_snapshot.json", "env_snapshot.json"):
        assert (entries[name]["status"], entries[name]["reason"]) == ("skipped", "`capture: none`")
    assert entries["error_report.json"]["status"] == entries["partial_trace.json"]["status"] == "taken"


def test_missed_with_its_reason(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    found = Evidence(
        made.scratch(plan), (Item("screenshot.png", "missed", "the page crashed"), Item("trace.zip", "taken"))
    )
    entries = manifest(keep(made, plan, evidence=found))
    assert entries["screenshot.png"]["reason"] == "the page crashed"
    assert entries["trace.zip"]["status"] == "taken"
    assert entries["network_logs.har"]["status"] == "missed"


def test_what_was_kept_earlier_says_so_and_when(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    found = evidence(made.scratch(plan))
    item = Item("screenshot.png", "taken", "last good: after step 2; now the browser is gone", 0.1, sample.START)
    entries = manifest(keep(made, plan, evidence=replace(found, items=(item,))))
    assert entries["screenshot.png"]["reason"] == item.reason
    assert entries["screenshot.png"]["at"] == "2025-11-16T09:00:00Z"
    assert entries["error_report.json"]["at"].endswith("Z")


def test_a_downloaded_picture_is_searched_too(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan(secrets=(SECRET,))
    found = evidence(made.scratch(plan))
    for folder in ("downloads", "screenshots"):
        (found.folder / folder).mkdir(exist_ok=True)
        (found.folder / folder / "seen.png").write_bytes(b"\x89PNG" + SECRET.encode())
    kept = keep(made, plan, evidence=found) / "files"
    assert SECRET.encode() not in (kept / "downloads" / "seen.png").read_bytes()
    assert (kept / "screenshots" / "seen.png").read_bytes() == b"\x89PNG" + SECRET.encode()


def test_what_cannot_be_redacted_is_left_out_and_the_rest_stays(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    found = evidence(made.scratch(plan))
    (found.folder / "network_logs.har").write_text('{"log": {"entries": [{"request": ')
    (found.folder / "trace.zip").write_bytes(b"PK\x03\x04 cut off")
    folder = keep(made, plan, evidence=found)
    entries = manifest(folder)
    assert entries["network_logs.har"]["reason"].startswith("could not be redacted")
    with zipfile.ZipFile(folder / "trace.zip") as trace:  # of our own records
        assert "could not be read" in trace.read("test.trace").decode()
    assert entries["dom_snapshot.html"]["status"] == "taken"


def test_console_lines_become_the_file(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    found = Evidence(made.scratch(plan), console=(*said("one", "ERROR"), *said("two")))
    assert (keep(made, plan, evidence=found) / "console_logs.txt").read_text() == "[ERROR] one\n[LOG] two\n"


def test_a_silent_console_is_an_empty_file(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    found = Evidence(made.scratch(plan), (Item("console_logs.txt", "taken"),))
    folder = keep(made, plan, evidence=found)
    assert (folder / "console_logs.txt").read_text() == ""
    assert manifest(folder)["console_logs.txt"]["status"] == "taken"


def test_expected_failures_say_so(tmp_path: Path) -> None:
    plan = sample.plan()
    result = sample.failed(plan)
    folder = keep(archive(tmp_path), plan, result=result, report=sample.report(plan, result, expected=True))
    assert manifest(folder)[""]["expected"] is True


def test_an_earlier_attempt_and_an_earlier_run_are_kept(tmp_path: Path) -> None:
    plan = sample.plan()
    keep(archive(tmp_path, "run-1"), plan)
    second = archive(tmp_path, "run-2")
    keep(second, plan)
    keep(second, plan)
    keep(second, plan)
    previous = tmp_path / ".previous"
    assert {str(p.relative_to(previous)) for p in previous.glob("*/*")} == {
        "run-1/B1-2025-001", "run-2/B1-2025-001", "run-2/B1-2025-001-2",
    }  # fmt: skip
    assert manifest(tmp_path / plan.key)[""]["run"] == "run-2"


def test_old_runs_are_pruned(tmp_path: Path) -> None:
    plan = sample.plan()
    for number in range(5):
        keep(archive(tmp_path, f"run-{number}", keep=2), plan)
        for place, folder in enumerate(sorted((tmp_path / ".previous").glob("*"))):
            os.utime(folder, (place, place))
    assert sorted(p.name for p in (tmp_path / ".previous").iterdir()) == ["run-2", "run-3"]


def test_nothing_is_kept_with_zero(tmp_path: Path) -> None:
    made, plan = archive(tmp_path, keep=0), sample.plan()
    keep(made, plan)
    keep(made, plan)
    assert [p.name for p in tmp_path.iterdir()] == [plan.key]


def test_a_task_that_passes_moves_its_old_directory(tmp_path: Path) -> None:
    plan = sample.plan()
    keep(archive(tmp_path), plan)
    made = archive(tmp_path, "run-2")
    scratch = made.scratch(plan)
    (scratch / "screenshots").mkdir()
    (scratch / "screenshots/cart.png").write_bytes(b"\x89PNG")
    made.passed(plan, sample.completed(plan))
    assert not (tmp_path / plan.key).exists()
    assert (tmp_path / ".previous/run-1" / plan.key / "error_report.json").is_file()
    assert [p.read_bytes() for p in made.kept_files(plan.key)] == [b"\x89PNG"]
    assert not (tmp_path / ".tmp").exists()


def test_a_skipped_task_leaves_the_old_directory_as_it_is(tmp_path: Path) -> None:
    plan = sample.plan()
    old = keep(archive(tmp_path), plan)
    before = {path.name: path.stat().st_mtime_ns for path in old.iterdir()}
    made = archive(tmp_path, "run-2")
    other = sample.plan(key="other")
    (made.scratch(plan) / "har-1.har").write_text("a working file of the session")
    made.scratch(plan)
    stays = made.scratch(other)
    made.skipped(plan)
    assert {path.name: path.stat().st_mtime_ns for path in old.iterdir()} == before
    assert not (tmp_path / ".previous").exists()
    assert list((tmp_path / ".tmp").glob("*/*")) == [stays]
    made.skipped(other)
    made.skipped(other)
    assert not (tmp_path / ".tmp").exists()


def test_the_folder_of_another_worker_stays_and_a_new_one_can_be_made(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    other = tmp_path / ".tmp" / f"{os.getppid()}-other-run"
    other.mkdir(parents=True)
    made.scratch(plan)
    made.passed(plan, sample.completed(plan))
    assert [p.name for p in (tmp_path / ".tmp").iterdir()] == [other.name]
    other.rmdir()
    (tmp_path / ".tmp").rmdir()
    assert made.scratch(plan).is_dir()


def test_a_base_that_vanishes_while_a_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = Path.mkdir, [3]

    def mkdir(self: Path, *arguments: Any, **options: Any) -> None:
        if left[0] and ".tmp" in self.parts:
            left[0] -= 1
            raise FileNotFoundError(self)
        real(self, *arguments, **options)

    made = archive(tmp_path)
    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert made.scratch(sample.plan()).is_dir()


def test_kept_files_are_replaced_by_the_next_run(tmp_path: Path) -> None:
    made, plan = archive(tmp_path), sample.plan()
    scratch = made.scratch(plan)
    (scratch / "downloads").mkdir()
    (scratch / "downloads/a.txt").write_text("a")
    made.passed(plan, sample.completed(plan))
    assert len(made.kept_files(plan.key)) == 1
    made.scratch(plan)
    made.passed(plan, sample.completed(plan))
    assert made.kept_files(plan.key) == ()


@pytest.mark.parametrize("key", ["../x", "a/b", "..", ".", ".tmp", "", "a\x00b", "x" * 300, "a\\b", "C:x"])
def test_a_key_never_leads_out(tmp_path: Path, key: str) -> None:
    root = tmp_path / "errors"
    made, plan = archive(root), sample.plan(key=key)
    for act in (
        lambda: made.scratch(plan),
        lambda: made.passed(plan, sample.completed(plan)),
        lambda: _keep_in(made, plan, tmp_path),
    ):
        with pytest.raises(ValueError, match="not a safe"):
            act()
    assert [p.name for p in tmp_path.iterdir()] == ["errors"]


def _keep_in(made: DirectoryArchive, plan: Plan, folder: Path) -> Path:
    return keep(made, plan, evidence=Evidence(folder))


def test_links_out_of_the_scratch_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("private")
    made, plan = archive(tmp_path / "errors"), sample.plan()
    found = evidence(made.scratch(plan))
    (found.folder / "downloads/link.txt").symlink_to(tmp_path / "outside.txt")
    folder = keep(made, plan, evidence=found)
    assert [p.name for p in (folder / "files/downloads").iterdir()] == ["invoice.txt"]


def test_folders_of_dead_processes_are_swept_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    parent = Owner.of(os.getppid())
    assert parent is not None
    (tmp_path / ".tmp" / f"{replace(parent, birth=parent.birth - 1).label}-old-run" / "x").mkdir(parents=True)
    living = tmp_path / ".tmp" / f"{parent.label}-other-run"
    living.mkdir()
    archive(tmp_path)
    assert [p.name for p in (tmp_path / ".tmp").iterdir()] == [living.name]


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.unit.reporting import sample, test_artifacts as t
root, deaths = Path(sys.argv[1]), int(sys.argv[2])
real, count = os.rename, 0
def rename(self, target):
    global count
    count += 1
    if count > deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, target)
    return Path(target)
Path.rename = rename
t.keep(t.archive(root, "run-2"), sample.plan())
"""


@pytest.mark.parametrize("renames", [0, 1, 2])
@pytest.mark.sampled(1)
def test_kill_9_leaves_none_or_a_whole_one(tmp_path: Path, renames: int) -> None:
    """Killed before the old one moves, before the new one comes, and just after."""
    plan = sample.plan()
    keep(archive(tmp_path, "run-1"), plan)
    project = Path(__file__).parents[3]
    died = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(renames)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        check=False,
    )
    assert died.returncode == -signal.SIGKILL
    whole = [p.parent for p in tmp_path.rglob("manifest.json") if ".tmp" not in p.parts]
    assert whole
    assert all({*NAMES, "manifest.json"} <= {p.name for p in folder.iterdir()} for folder in whole)
    current = tmp_path / plan.key
    runs = {0: "run-1", 2: "run-2"}
    assert (manifest(current)[""]["run"] if current.exists() else None) == runs.get(renames)
    archive(tmp_path, "run-3")
    assert not list((tmp_path / ".tmp").glob("*"))


def test_two_tasks_at_once(tmp_path: Path) -> None:
    made = archive(tmp_path)
    plans = [sample.plan(key=f"T{number}") for number in range(4)]
    scratches = [made.scratch(plan) for plan in plans]
    assert len(set(scratches)) == 4
    results: list[TaskResult] = [sample.failed(plan) for plan in plans]
    for plan, result, scratch in zip(plans, results, scratches, strict=True):
        keep(made, plan, result=result, evidence=evidence(scratch))
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["T0", "T1", "T2", "T3"]


@pytest.mark.parametrize("previous", [0, 5])
@pytest.mark.parametrize("place", ["folder", "nowhere", "file"])
def test_a_link_or_file_in_the_place_of_a_task_is_moved_away_and_nothing_outside_is_touched(
    tmp_path: Path, place: str, previous: int
) -> None:
    outside = tmp_path / "outside"
    (outside / "folder").mkdir(parents=True)
    (outside / "folder" / "manifest.json").write_text("{}", "utf-8")
    (outside / "file").write_text("mine", "utf-8")
    before = sorted(outside.rglob("*"))
    plan = sample.plan()
    target = tmp_path / "errors" / plan.key
    target.parent.mkdir()
    target.symlink_to(outside / place)
    assert keep(archive(tmp_path / "errors", keep=previous), plan) == target
    assert not target.is_symlink()
    assert (target / "error_report.json").is_file()
    assert sorted(outside.rglob("*")) == before
    assert (outside / "file").read_text("utf-8") == "mine"
