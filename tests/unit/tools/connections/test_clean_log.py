"""The log of a tool server without secrets: by whole lines, at once, and whatever fails."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.reporting.redaction import Redactor
from harness.tools.stdio import CUT_BACK, LEFT_OUT, LONGEST_LINE, TOO_LONG, CleanLines, CleanLog

SECRET = "hunter2-of-the-shop"
REDACT = Redactor([SECRET]).text


def said(*parts: str, clean: Callable[[str], str] = REDACT) -> list[str]:
    """What is written after each part, and at the end."""
    lines = CleanLines(clean)
    return [*map(lines.add, parts), lines.rest()]


def test_a_line_is_redacted_when_it_is_whole() -> None:
    assert said("a\nkey hun", "ter2-of-the-shop\rb", "\n") == ["a\n", "key [redacted]\r", "b\n", ""]


def test_the_rest_of_a_long_line_is_left_out_and_no_secret_is_cut_in_two() -> None:
    for before in (LONGEST_LINE - 5, LONGEST_LINE - len(SECRET) + 1):
        long = "x" * before + SECRET
        parts = said(long[: LONGEST_LINE + 1], long[LONGEST_LINE + 1 :] + SECRET, "more\nnext\n")
        assert parts[0].startswith("x" * (before - CUT_BACK))
        assert parts[0].strip("x") == TOO_LONG
        assert parts[1:] == ["", "\nnext\n", ""]


def test_what_cannot_be_redacted_is_left_out_and_the_next_lines_are_not() -> None:
    def clean(text: str) -> str:
        if "bad" in text:
            raise RecursionError(text)
        return text

    assert said("bad\n", "good\n", "bad", clean=clean) == [LEFT_OUT, "good\n", "", LEFT_OUT]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "tool.log"


def eventually(holds: Callable[[], bool], within: float = 10.0) -> None:
    until = time.monotonic() + within
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def read(log: Path) -> str:
    return log.read_text("utf-8") if log.exists() else ""


def test_a_line_without_its_end_is_in_the_log_while_the_process_runs(log: Path) -> None:
    copy = CleanLog(log, REDACT)
    os.write(copy.errors, f"Password {SECRET} for é".encode()[:-1])
    eventually(lambda: read(log) == "Password [redacted] for ")
    os.write(copy.errors, "é".encode()[-1:] + b": ok\nlast")
    eventually(lambda: read(log) == "Password [redacted] for é: ok\nlast")
    copy.close()
    eventually(lambda: copy.is_whole)


def test_a_server_can_write_on_when_its_output_cannot_be_redacted(log: Path) -> None:
    def clean(text: str) -> str:
        raise ValueError(text)

    copy = CleanLog(log, clean)
    for number in (1, 2):
        os.write(copy.errors, b"line\n")
        eventually(lambda number=number: read(log) == LEFT_OUT * number)  # type: ignore[misc]
    copy.close()
    eventually(lambda: copy.is_whole)


def test_many_lines_are_redacted_together(log: Path) -> None:
    asked: list[str] = []

    def clean(text: str) -> str:
        asked.append(text)
        return REDACT(text)

    copy = CleanLog(log, clean)
    for _ in range(20):
        os.write(copy.errors, f"ordinary {SECRET}\n".encode() * 1000)
    copy.close()
    eventually(lambda: copy.is_whole)
    assert read(log) == "ordinary [redacted]\n" * 20_000
    assert len(asked) < 2000
