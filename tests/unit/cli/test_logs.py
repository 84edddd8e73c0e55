"""The log of a program on a terminal: what would steer it is text, or gone; JSON has the line as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.logs import show_logs

LINE = "\x1b[31mred\x1b[0m \x07bell \x1b]0;title\x07and \x1b[2J\u202eend"


def test_what_a_program_wrote_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "shop.log").write_text(f"{LINE}\n", "utf-8")
    show_logs({"shop": tmp_path / "shop.log"}, "service", 5, wait=False, as_json=False)
    assert capsys.readouterr().out == "red  bell and  end\n"
    show_logs({"shop": tmp_path / "shop.log"}, "service", 5, wait=False, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"service": "shop", "line": LINE}
