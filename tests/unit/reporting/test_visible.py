"""Nothing in a text steers a terminal."""

from __future__ import annotations

from harness.reporting.files import printable, visible


def test_control_characters_become_blanks_and_lines_stay() -> None:
    assert visible("a\x1b[31mb\r\n  c\u202ed") == "a [31mb \n  c d"


def test_one_line() -> None:
    assert printable("a\x1b]0;title\x07\n\u202eb\tc") == "a ]0;title b c"
