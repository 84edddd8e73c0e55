"""A trace that its writer never ended."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from harness.browser import raw_trace
from harness.browser.raw_trace import RawTrace, whole_lines

EVENTS = [{"type": "context-options"}, {"type": "screencast-frame", "file": "screencast/page@1-2.jpeg"}]
BODY = {"type": "resource-snapshot", "snapshot": {"response": {"content": {"_file": "resources/ab.html"}}}}


@pytest.fixture
def raw(tmp_path: Path) -> RawTrace:
    made = RawTrace.new(tmp_path)
    (tmp_path / f"{made.name}.trace").write_text("".join(json.dumps(event) + "\n" for event in EVENTS) + '{"type":"be')
    (tmp_path / f"{made.name}.network").write_text(json.dumps(BODY) + "\n")
    for name in ("screencast/page@1-2.jpeg", "resources/ab.html", "resources/of-another.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return made


def test_it_is_packed_as_far_as_it_was_written(raw: RawTrace, tmp_path: Path) -> None:
    assert raw.pack(tmp_path / "trace.zip")
    with zipfile.ZipFile(tmp_path / "trace.zip") as packed:
        assert packed.namelist() == ["trace.trace", "trace.network", "screencast/page@1-2.jpeg", "resources/ab.html"]
        lines = packed.read("trace.trace").decode().splitlines()
    assert [json.loads(line) for line in lines] == EVENTS


def test_nothing_written_is_nothing_packed(tmp_path: Path) -> None:
    assert not RawTrace.new(tmp_path).pack(tmp_path / "trace.zip")
    assert list(tmp_path.iterdir()) == []


def test_pictures_beyond_the_limit_are_left_out(raw: RawTrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_trace, "LARGEST", 20)
    assert raw.pack(tmp_path / "trace.zip")
    with zipfile.ZipFile(tmp_path / "trace.zip") as packed:
        assert packed.namelist() == ["trace.trace", "trace.network", "resources/ab.html"]


def test_only_its_own_files_are_deleted(raw: RawTrace) -> None:
    other = RawTrace(raw.folder, f"{raw.name}1")
    (raw.folder / f"{other.name}.trace").write_text("{}\n")
    (raw.folder / f"{raw.name}-pwnetcopy-1.network").write_text("")
    raw.discard()
    assert [path.name for path in raw.folder.glob("tab-*")] == [f"{other.name}.trace"]


def test_its_pictures_are_deleted_and_not_the_bodies_which_may_be_shared(raw: RawTrace) -> None:
    assert raw.folder is not None
    (raw.folder / "screencast" / "page@2-2.jpeg").write_text("of another")
    raw.discard()
    left = {path.relative_to(raw.folder).as_posix() for path in raw.folder.rglob("*.*")}
    assert left == {"screencast/page@2-2.jpeg", "resources/ab.html", "resources/of-another.html"}


def test_what_the_driver_writes_afterwards_goes_with_the_next(raw: RawTrace) -> None:
    assert raw.folder is not None
    raw.discard()
    (raw.folder / f"{raw.name}.trace").write_text("{}\n")
    RawTrace.new(raw.folder).discard()
    assert list(raw.folder.glob("tab-*")) == []


@pytest.mark.parametrize(
    ("data", "kept"),
    [(b"", b""), (b'{"a":1', b""), (b'{"a":1}\n{"b"', b'{"a":1}\n'), (b'{"a":1}\n', b'{"a":1}\n'), (b"{}", b"{}\n")],
)
def test_a_line_cut_off_is_dropped(data: bytes, kept: bytes) -> None:
    assert whole_lines(data) == kept
