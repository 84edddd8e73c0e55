"""Stores: a folder and a storage of fsspec do the same; what cannot be used is refused with a reason."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from harness.store import Store, StoreError, StoreUnusable, find_stores, open_store

Make = Callable[[], str]


@pytest.fixture(params=["folder", "file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kinds = {"folder": str(tmp_path / "run"), "file": (tmp_path / "run").as_uri(), "memory": f"memory://{uuid4()}/run"}
    return kinds[request.param]


@pytest.fixture
def store(url: str) -> Store:
    return open_store(url)


def test_bytes_are_kept_under_their_name(store: Store) -> None:
    assert store.get("a/b") is None
    store.put("a/b", b"1")
    store.put("a/b", b"2")
    assert (store.get("a/b"), store.get("a"), store.names(), store.names("a")) == (b"2", None, ["a/b"], ["a/b"])
    assert store.at("a").get("b") == b"2"
    assert store.names("nowhere") == []


def test_of_several_at_once_one_puts_a_new_name(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: store.put_new("wrote/T-1", str(number).encode()), range(8)))
    if store.local is not None:  # fsspec's memory looks and writes in two steps
        assert made.count(True) == 1
    assert store.get("wrote/T-1") is not None
    assert not store.put_new("wrote/T-1", b"later")
    assert store.names() == ["wrote/T-1"]


def test_a_journal_has_the_lines_of_each_writer_in_order(url: str) -> None:
    first, second = open_store(url), open_store(url)
    first.append("journal", ["1", "2"])
    second.append("journal", ["a"])
    first.append("journal", ["3"])
    lines = open_store(url).lines("journal")
    assert [line for line in lines if line.isdigit()] == ["1", "2", "3"]
    assert sorted(lines) == ["1", "2", "3", "a"]


def test_a_folder_goes_there_and_back_without_links(store: Store, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file.bin").write_bytes(b"\x00\xff")
    (source / "link").symlink_to("/etc/passwd")
    store.put_folder(source, "errors/T-1")
    store.fetch_folder("errors", target)
    assert [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()] == [
        "T-1/deep/file.bin"
    ]


def test_a_name_that_leads_out_is_not_fetched(tmp_path: Path) -> None:
    store = open_store(f"memory://{uuid4()}")
    for name in ("errors/../../evil", "errors/a\\b", "errors/c:d", "errors/good"):
        store.put(name, b"x")
    store.fetch_folder("errors", tmp_path / "target")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["good"]


def test_patterns_name_several_stores(url: str) -> None:
    for run in ("run-1", "run-2", "other"):
        open_store(f"{url}/{run}/part-1-of-1").put("x", b"")
    assert [each.shown.rpartition("run/")[2] for each in find_stores(f"{url}/run-*")] == ["run-1", "run-2"]
    assert [each.get("x") for each in find_stores(f"{url}/run-*/part-*")] == [b"", b""]
    assert len(find_stores(f"{url}/run-1")) == 1


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(StoreUnusable, match="foo://x: Protocol not known: foo"):
        open_store("foo://x")


def test_a_password_is_not_shown() -> None:
    assert open_store("memory://ann:secret@place/run").shown == "memory://place/run"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(StoreUnusable, match=r"pip install 'pytest-taskspec\[store\]'"):
        open_store("s3://bucket/run")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(str(tmp_path / "file"))
    with pytest.raises(StoreError, match="a/b cannot be stored: "):
        store.put("a/b", b"")
    assert store.get("a/b") is None
    assert os.listdir(tmp_path) == ["file"]
