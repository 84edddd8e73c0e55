"""The command `harness` from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD = "task_id: A-1\ngoal: g\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n"


def harness(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from harness.cli import main; main()", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)


def test_validate_tells_all_problems_at_once_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("open", "opne"), "utf-8")
    (tmp_path / "c.task.yaml").write_text(GOOD.replace("steps", "stesp"), "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "b.task.yaml:4:" in found.stderr
    assert "did you mean `steps`" in found.stderr
    assert "3 task files, 1 load, 2 with errors" in found.stdout


def test_validate_is_content_with_good_files(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    assert harness("validate", "a.task.yaml", cwd=tmp_path).returncode == 0


def test_validate_sees_what_only_several_files_show(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD + "dependencies: [B-1]\n", "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("A-1", "B-1") + "dependencies: [A-1]\n", "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "A-1 -> B-1 -> A-1" in found.stderr or "B-1 -> A-1 -> B-1" in found.stderr


@pytest.mark.parametrize("args", [("validate", "nowhere"), ("validate", "."), ("explain", "NOPE"), ("report",)])
def test_what_cannot_be_done_is_one_clear_line(tmp_path: Path, args: tuple[str, ...]) -> None:
    found = harness(*args, cwd=tmp_path)
    assert found.returncode == 1
    assert len(found.stderr.strip().splitlines()) == 1
    assert "Traceback" not in found.stderr


def test_schema_prints_what_is_shipped(tmp_path: Path) -> None:
    printed = json.loads(harness("schema", cwd=tmp_path).stdout)
    assert printed == json.loads((ROOT / "schemas" / "task_spec.schema.json").read_text("utf-8"))


def test_schema_writes_them_all(tmp_path: Path) -> None:
    harness("schema", "--write", "out", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {p.name for p in (ROOT / "schemas").glob("*.json")}


def test_explain_says_cause_and_remedy(tmp_path: Path) -> None:
    text = harness("explain", "net_dns", cwd=tmp_path).stdout
    assert "network_dns_failure" in text
    assert "on_network_error" in text
    assert len(harness("explain", cwd=tmp_path).stdout.splitlines()) > 30


def test_demo_serves_the_sites_shows_a_task_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from harness.cli import main; main()", "demo", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    try:
        lines = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
        url = next(line.split()[1] for line in lines if line.strip().startswith("shop.local"))
        with urllib.request.urlopen(url, timeout=10) as page:
            assert b"Shop" in page.read()
        assert any("task_id: FIRST-001" in line for line in lines)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
