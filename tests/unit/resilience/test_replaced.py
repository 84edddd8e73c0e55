"""A file that is written as a whole: a reader sees the old one or the new one, whoever else writes it."""

from __future__ import annotations

import threading
from pathlib import Path

from harness.resilience.replaced import replaced, write_whole


def test_two_threads_that_write_one_file_do_not_write_into_one_place(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with replaced(file) as first, replaced(file) as second:
        first.write_bytes(b"first")
        second.write_bytes(b"second")
    assert file.read_bytes() == b"first", "the one that ended last"
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    file, failed = tmp_path / "a.json", list[BaseException]()

    def write(letter: bytes) -> None:
        try:
            for _ in range(50):
                write_whole(file, letter * 1000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(letter,)) for letter in (b"a", b"b", b"c")]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
    assert len(set(file.read_bytes())) == 1
