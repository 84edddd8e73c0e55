"""Folders of artifacts: linked when they are the run's own, else named and left out."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.comparisons import shows_nothing
from harness.reporting.dashboard.build import dashboard
from harness.reporting.dashboard.evidence import EACH, Shelf, with_pictures
from harness.reporting.redact_files import inert
from harness.reporting.task_record import TaskRecord
from tests.unit.reporting.history.runs import execution, failed, run

RUN = "20251116T090000-4711"
PNG = b"\x89PNG\r\n\x1a\n" + b"x" * 50


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path, tmp_path / "errors", tmp_path / "out", {RUN})


def left(folder: Path, task_id: str = "T-1", name: str = RUN, **report: Any) -> Path:
    """What a failed task leaves."""
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"run": name, "task_id": task_id}), "utf-8")
    document = {
        "task_id": task_id,
        "error_type": "assertion_failed",
        "timestamp": "2025-11-16T09:00:00Z",
        "step_index": 1,
    }
    (folder / "error_report.json").write_text(json.dumps(document | report), "utf-8")
    (folder / "screenshot.png").write_bytes(PNG)
    (folder / "console_logs.txt").write_text("")
    return folder


def of(shelf: Shelf, **fields: Any) -> TaskRecord:
    return failed("T-1", "ASSERTION_FAILED", **{"artifacts": str(shelf.artifacts / "T-1"), **fields})


def test_files_are_linked_from_where_the_page_is_and_empty_ones_are_not(shelf: Shelf) -> None:
    left(shelf.artifacts / "T-1")
    (shelf.artifacts / "T-1" / "a b#c?.txt").write_text("x")
    found = shelf.find(of(shelf)).evidence
    assert [link.href for link in found.links] == [
        "../errors/T-1/error_report.json",
        "../errors/T-1/screenshot.png",
        "../errors/T-1/a%20b%23c%3F.txt",
        "../errors/T-1/manifest.json",
    ]
    assert (found.folder, found.problem) == ("errors/T-1", "")


def test_a_folder_that_was_moved_by_a_later_run_is_found(shelf: Shelf) -> None:
    left(shelf.artifacts / "T-1", name="20251117T090000-1")
    left(shelf.artifacts / ".previous" / RUN / "T-1")
    assert shelf.find(of(shelf)).evidence.folder == f"errors/.previous/{RUN}/T-1"


def gone(folder: Path) -> None:
    """Nothing is there."""


def foreign(folder: Path) -> None:
    left(folder, name="another")


def of_another_task(folder: Path) -> None:
    left(folder, task_id="T-2")


def half_written(folder: Path) -> None:
    left(folder)
    (folder / "manifest.json").write_text('{"run": ')


def no_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True)
    folder.write_text("x")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (gone, "errors/T-1 is gone"),
        (foreign, "errors/T-1 belongs to another run (another, T-1) and is left out"),
        (of_another_task, f"errors/T-1 belongs to another run ({RUN}, T-2) and is left out"),
        (half_written, "errors/T-1 has no readable manifest.json and is left out"),
        (no_folder, "errors/T-1 is gone"),
    ],
)
def test_what_is_not_the_runs_own_is_named_and_left_out(shelf: Shelf, make: Callable[[Path], None], words: str) -> None:
    make(shelf.artifacts / "T-1")
    found = shelf.find(of(shelf))
    assert words in found.evidence.problem
    assert (found.evidence.links, found.report) == ((), None)


@pytest.mark.parametrize("artifacts", ["../../../etc", "/etc", "a\x00b", "x" * 5000, ""])
def test_a_path_that_leads_elsewhere_is_not_linked(shelf: Shelf, artifacts: str) -> None:
    found = shelf.find(of(shelf, artifacts=artifacts, key="../../etc"))
    assert found.evidence.links == ()
    assert found.evidence.problem


def test_a_link_that_leads_out_of_the_folder_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    folder = left(shelf.artifacts / "T-1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "trace.zip").symlink_to(tmp_path / "secret.txt")
    assert "trace.zip" not in [link.label for link in shelf.find(of(shelf)).evidence.links]


def test_a_snapshot_of_a_page_is_linked_when_it_is_dead(shelf: Shelf) -> None:
    snapshot = left(shelf.artifacts / "T-1") / "dom_snapshot.html"
    snapshot.write_text(inert("<p>a</p>"), "utf-8")
    found = shelf.find(of(shelf)).evidence
    assert "dom_snapshot.html" in [link.label for link in found.links]
    assert found.problem == ""
    snapshot.write_text("<script>alert(1)</script>", "utf-8")
    found = shelf.find(of(shelf)).evidence
    assert "dom_snapshot.html" not in [link.label for link in found.links]
    assert found.problem == "dom_snapshot.html was not made safe to open and is left out."


def test_pipes_are_neither_read_nor_linked(shelf: Shelf) -> None:
    folder = left(shelf.artifacts / "T-1")
    for name in ("error_report.json", "screenshot.png", "dom_snapshot.html"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    found = shelf.find(of(shelf))
    assert [link.label for link in found.evidence.links] == ["manifest.json"]
    assert "missing or broken" in found.evidence.problem


def test_a_broken_report_is_said_and_the_rest_is_linked(shelf: Shelf) -> None:
    folder = left(shelf.artifacts / "T-1")
    (folder / "error_report.json").write_text("[1]")
    found = shelf.find(of(shelf))
    assert found.report is None
    assert "missing or broken" in found.evidence.problem
    assert found.evidence.links


def test_a_comparison_is_shown(shelf: Shelf) -> None:
    compared = {"expression": "text(#a) == 'x'", "expected": "x", "actual": None, "diff": "- x"}
    left(
        shelf.artifacts / "T-1",
        context={"assertion": compared, "url": "http://shop.local/", "browser_console_logs": [*"abcd", "b"]},
    )
    view = dashboard(run(parts=[execution(of(shelf))]), (), {}, shelf.find)
    found = view.causes[0].occurrences[0]
    assert found.comparison is not None
    assert (found.comparison.expected, found.comparison.actual, found.comparison.diff) == ("x", "null", "- x")
    assert (found.url, found.console) == ("http://shop.local/", ("c", "d", "b (2 times)"))


def pictures(shelf: Shelf, data: bytes) -> list[str]:
    (shelf.artifacts / "T-1" / "screenshot.png").write_bytes(data)
    view = dashboard(run(parts=[execution(of(shelf))]), (), {}, shelf.find)
    return [cause.occurrences[0].evidence.picture[:30] for cause in with_pictures(view, shelf.root).causes]


def test_the_first_failure_of_a_cause_has_its_picture_in_the_page(shelf: Shelf) -> None:
    left(shelf.artifacts / "T-1")
    assert pictures(shelf, PNG) == ["data:image/png;base64,iVBORw0K"]


def grey(*rows: bytes) -> bytes:
    """A picture of these rows of grey."""
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))), (b"IEND", b""))
    sums = (zlib.crc32(kind + data) for kind, data in parts)
    packed = (struct.pack(">I4s", len(d), k) + d + struct.pack(">I", each) for (k, d), each in zip(parts, sums))  # noqa: B905
    return PNG[:8] + b"".join(packed)


WHITE, DOT = b"\xff" * 9, b"\xff\0" + b"\xff" * 7


@pytest.mark.parametrize(
    ("picture", "blank"),
    [
        pytest.param(grey(*[WHITE] * 30), True, id="white"),
        pytest.param(grey(*[WHITE] * 15, DOT, *[WHITE] * 14), False, id="a dot"),
        pytest.param(PNG, False, id="no picture"),
        pytest.param(grey(*[WHITE] * 30)[:45], False, id="cut off"),
    ],
)
def test_a_picture_of_nothing_is_left_out(shelf: Shelf, picture: bytes, blank: bool) -> None:
    left(shelf.artifacts / "T-1")
    assert pictures(shelf, picture) == ["" if blank else "data:image/png;base64,iVBORw0K"]
    assert shows_nothing(picture) is blank


def test_every_failure_that_is_shown_has_its_picture(shelf: Shelf) -> None:
    names = ("T-1", "T-2", "T-3")
    for name in names:
        left(shelf.artifacts / name, task_id=name)
    parts = [execution(failed(name, "STEP_TIMEOUT", artifacts=str(shelf.artifacts / name))) for name in names]
    view = with_pictures(dashboard(run(parts=parts), (), {}, shelf.find), shelf.root)
    assert [bool(each.evidence.picture) for cause in view.causes for each in cause.occurrences] == [True] * 3


def compared(shelf: Shelf, data: bytes) -> list[tuple[str, str, str]]:
    """Name, link and the beginning of the data of each picture in the page."""
    place = shelf.artifacts / "T-1" / "files" / "comparisons" / "1-card-linux"
    place.mkdir(parents=True, exist_ok=True)
    for name in ("actual", "expected"):
        (place / f"{name}.png").write_bytes(data)
    view = dashboard(run(parts=[execution(of(shelf))]), (), {}, shelf.find)
    (comparison,) = with_pictures(view, shelf.root).causes[0].occurrences[0].evidence.comparisons
    return [(each.name, each.link.href, each.data[:22]) for each in comparison.pictures]


def test_the_pictures_of_a_comparison_are_in_the_page_and_linked(shelf: Shelf) -> None:
    left(shelf.artifacts / "T-1")
    found = compared(shelf, PNG)
    assert [(name, data) for name, _, data in found] == [
        ("expected", "data:image/png;base64,"), ("actual", "data:image/png;base64,"),
    ]  # fmt: skip
    assert all((shelf.page / href).resolve().is_file() for _, href, _ in found)


@pytest.mark.parametrize("data", [b"<svg onload=alert(1)>", PNG + b"x" * EACH])
def test_what_is_no_picture_or_too_large_to_compare_is_only_linked(shelf: Shelf, data: bytes) -> None:
    left(shelf.artifacts / "T-1")
    assert [data for _, _, data in compared(shelf, data)] == ["", ""]


@pytest.mark.parametrize("data", [b"<svg onload=alert(1)>", PNG + b"x" * EACH])
def test_what_is_no_picture_or_too_large_is_only_linked(shelf: Shelf, data: bytes) -> None:
    left(shelf.artifacts / "T-1")
    assert pictures(shelf, data) == [""]
