"""Stores: a folder and a storage of fsspec do the same; what cannot be used is refused with a reason."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from fsspec.asyn import AsyncFileSystem

from harness.store import Store, StoreError, StoreUnusable, find_stores, open_store
from harness.store.place import RemoteStore

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


def test_only_an_end_of_line_ends_a_line(store: Store) -> None:
    """A page's text may have other characters that end lines; JSON has them as they are."""
    lines = ['"a\u2028b"', '"c\x85d"', '"e\u2029f"']
    store.append("journal", lines)
    assert store.lines("journal") == lines


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_disk_without_further_names_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(path: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(path), None, str(target))

    monkeypatch.setattr(Path, "hardlink_to", refused)
    store = open_store(str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: store.put_new("wrote/T-1", str(number).encode()), range(8)))
    assert made.count(True) == 1
    assert store.get("wrote/T-1") == str(made.index(True)).encode()
    assert store.names() == ["wrote/T-1"]


class Forgetful(fsspec.AbstractFileSystem):  # type: ignore[misc]  # it has no types
    """A storage that cannot be asked to put a new name only: it refuses the condition, or does not see it."""

    protocol = "forgetful"
    cachable = False

    def __init__(self, refusal: Exception | None = None) -> None:
        super().__init__()
        self.refusal = refusal
        self.kept: dict[str, bytes] = {}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        if mode == "create" and self.refusal is not None:
            raise self.refusal
        self.kept[path] = value

    def cat_file(self, path: str, *_: object, **__: object) -> bytes:
        if path not in self.kept:
            raise FileNotFoundError(path)
        return self.kept[path]

    def find(self, path: str, **_: object) -> dict[str, dict[str, object]]:
        found = sorted(name for name in self.kept if name.startswith(f"{path}/"))
        return {name: {"size": len(self.kept[name])} for name in found}


class Distant(AsyncFileSystem):  # type: ignore[misc]  # it has no types
    """A storage that answers an object after a pause, and counts how many it is asked for at once."""

    protocol = "distant"
    cachable = False

    def __init__(self, kept: dict[str, bytes]) -> None:
        super().__init__()
        self.kept = kept
        self.asked = self.most = 0

    async def _cat_file(self, path: str, start: object = None, end: object = None, **_: object) -> bytes:
        self.asked += 1
        self.most = max(self.most, self.asked)
        await asyncio.sleep(0.01)
        self.asked -= 1
        if path not in self.kept:
            raise FileNotFoundError(path)
        if not self.kept[path]:
            raise PermissionError(errno.EACCES, "Forbidden", path)
        return self.kept[path]


def test_a_storage_of_other_machines_is_asked_for_many_objects_at_once() -> None:
    """One after the other, the journal of 100,000 tasks would take an hour and a half."""
    kept = {f"root/j/{number}[a]": str(number).encode() for number in range(450)}
    files = Distant({**kept, "root/refused": b""})
    store = RemoteStore(files, "root", "distant://root")
    names = [f"j/{number}[a]" for number in range(451)]
    assert list(store.get_each(names)) == [*(str(number).encode() for number in range(450)), None]
    assert files.most > 50
    with pytest.raises(StoreError, match=r"distant://root: refused cannot be read: PermissionError"):
        list(store.get_each(["refused"]))


@pytest.mark.parametrize(
    "refusal", [None, NotImplementedError(), TypeError("mode"), ValueError("xb"), OSError(errno.ENOSYS, "501")]
)
def test_a_storage_without_conditions_keeps_what_is_there(refusal: Exception | None) -> None:
    store = RemoteStore(Forgetful(refusal), "root", "forgetful://root")
    assert [store.put_new("wrote/T-1", b"1"), store.put_new("wrote/T-1", b"2")] == [True, False]
    assert store.get("wrote/T-1") == b"1"


def test_a_condition_that_fails_for_another_reason_is_an_error() -> None:
    store = RemoteStore(Forgetful(OSError(errno.EIO, "broken")), "root", "forgetful://root")
    with pytest.raises(StoreError, match="wrote/T-1 cannot be stored: OSError"):
        store.put_new("wrote/T-1", b"1")
    assert store.get("wrote/T-1") is None


def test_names_that_no_file_can_have_are_told_and_do_not_keep_the_others(tmp_path: Path) -> None:
    store = RemoteStore(Forgetful(), "root", "forgetful://root")
    others = ["errors/T-1/b", f"errors/{'x' * 300}", "errors/nul\0"]
    for name in ("errors/T-1", *others, "errors/T-2"):
        store.put(name, b"x")
    assert store.fetch_folder("errors", tmp_path / "target") == sorted(others)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["T-1", "T-2"]


def test_a_pipe_is_no_file_of_a_store_and_no_name_for_a_new_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    store = open_store(str(tmp_path))
    assert (store.get("run.json"), store.names()) == (None, [])
    with pytest.raises(StoreError, match=r"run\.json cannot be stored: File exists"):
        store.put_new("run.json", b"")


def test_a_file_that_is_being_written_has_no_name_yet(tmp_path: Path) -> None:
    for name in (f".{uuid4().hex}.part", "report.part"):
        (tmp_path / name).write_text("")
    assert open_store(str(tmp_path)).names() == ["report.part"]


def test_a_folder_goes_there_and_back_without_links(store: Store, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file.bin").write_bytes(b"\x00\xff")
    (source / "link").symlink_to("/etc/passwd")
    store.put_folder(source, "errors/T-1")
    assert store.fetch_folder("errors", target) == []
    assert [path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()] == [
        "T-1/deep/file.bin"
    ]


def test_a_link_in_a_store_is_no_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "errors").mkdir()
    (tmp_path / "errors" / "link").symlink_to("/etc/passwd")
    assert open_store(str(tmp_path)).names() == []


def test_a_name_that_leads_out_is_not_fetched(tmp_path: Path) -> None:
    store = open_store(f"memory://{uuid4()}")
    for name in ("errors/../../evil", "errors/a\\b", "errors/c:d", "errors/good"):
        store.put(name, b"x")
    assert len(store.fetch_folder("errors", tmp_path / "target")) == 3
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


@pytest.mark.parametrize("user", ["ann:secret@", "ann:sec/ret@", "ann@", "ann:p%40ss@"])
def test_a_password_is_not_shown(user: str) -> None:
    assert open_store(f"memory://{user}place/run").shown == "memory://place/run"


@pytest.mark.parametrize("url", ["memory://place/run@5", "memory://place:9000/run@5", "memory://place/a:b@c"])
def test_what_is_no_password_is_shown(url: str) -> None:
    assert open_store(url).shown == url


def test_a_password_is_not_in_the_reason_either() -> None:
    class Talkative(Forgetful):
        def cat_file(self, path: str, *_: object, **__: object) -> bytes:
            raise OSError(f"ftp://ann:sec/ret@place/{path} is gone")

    store = RemoteStore(Talkative(), "root", "ftp://place", "ann:sec/ret@").at("part")
    with pytest.raises(StoreError, match="ftp://place/root/part/x is gone"):
        store.get("x")


def test_a_bucket_has_no_password() -> None:
    with pytest.raises(StoreUnusable, match=r"^s3://bucket/run: expected the name of a bucket .* AWS_ACCESS_KEY_ID"):
        open_store("s3://AKIA:sec/ret@bucket/run")


def test_the_home_folder_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/run").local == tmp_path / "run"
    assert open_store("~nobody-of-this-name/run").local == Path.cwd() / "~nobody-of-this-name/run"


def test_a_url_of_this_machine_is_a_folder(tmp_path: Path) -> None:
    assert open_store(f"file://localhost{tmp_path}/a%20b").local == tmp_path / "a b"


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(StoreUnusable, match=r"pip install 'pytest-taskspec\[store\]'"):
        open_store("s3://bucket/run")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(str(tmp_path / "file"))
    with pytest.raises(StoreUnusable, match="a/b cannot be stored: "):
        store.put("a/b", b"")
    assert store.get("a/b") is None
    assert os.listdir(tmp_path) == ["file"]
