"""What a gate reads of an answer."""

from __future__ import annotations

import pytest

from harness.faults.answers import AnswerHead


def parse(*lines: str) -> AnswerHead:
    found = AnswerHead.parse("\r\n".join(lines).encode() + b"\r\n\r\n")
    assert found is not None
    return found


def test_where_a_body_ends() -> None:
    by_length = parse("HTTP/1.1 200 OK", "content-length: 12")
    assert (by_length.length, by_length.ends_itself) == (12, True)
    in_chunks = parse("HTTP/1.1 200 OK", "Content-Length: 12", "Transfer-Encoding: gzip, Chunked")
    assert (in_chunks.length, in_chunks.ends_itself) == (None, True)
    with_connection = parse("HTTP/1.0 200", "Content-Length: many")
    assert (with_connection.length, with_connection.ends_itself) == (None, False)


@pytest.mark.parametrize(
    ("method", "lines", "expected"),
    [
        (b"GET", ("HTTP/1.1 200 OK",), True),
        (b"HEAD", ("HTTP/1.1 200 OK", "Content-Length: 5"), False),
        (b"GET", ("HTTP/1.1 200 OK", "Content-Length: 0"), False),
        (b"GET", ("HTTP/1.1 304 Not Modified", "Content-Length: 5"), False),
        (b"GET", ("HTTP/1.1 101 Switching Protocols",), True),
    ],
)
def test_whether_there_is_a_body(method: bytes, lines: tuple[str, ...], expected: bool) -> None:
    assert parse(*lines).has_body(method) is expected


@pytest.mark.parametrize(("status", "interim"), [(100, True), (101, False), (103, True), (200, False)])
def test_whether_the_answer_is_still_to_come(status: int, interim: bool) -> None:
    assert parse(f"HTTP/1.1 {status} X").interim is interim


@pytest.mark.parametrize("line", ["HTTP/2 200", "ICY 200 OK", "HTTP/1.1 2000 OK", ""])
def test_what_is_not_http_1(line: str) -> None:
    assert AnswerHead.parse(line.encode()) is None
