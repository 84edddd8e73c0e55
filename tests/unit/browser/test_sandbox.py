"""When the sandbox has to be off."""

from __future__ import annotations

from pathlib import Path

from harness.browser.executable import no_sandbox_reason


def test_reasons(tmp_path: Path) -> None:
    mark = tmp_path / ".dockerenv"
    assert no_sandbox_reason(0, (mark,)) == "root"
    assert no_sandbox_reason(1000, (mark,)) is None
    mark.touch()
    assert no_sandbox_reason(1000, (mark,)) == "container"
