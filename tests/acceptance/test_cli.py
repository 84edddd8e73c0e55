"""The command `harness` from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from harness.failure import CATALOG
from harness.reporting.serving import report_server

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


def test_explain_lists_the_codes_of_an_error_type(tmp_path: Path) -> None:
    lines = harness("explain", "timeout_step", cwd=tmp_path).stdout.splitlines()
    codes = [row.code for row in CATALOG.values() if row.error_type == "timeout_step"]
    assert [line.split()[0] for line in lines] == codes
    assert len(codes) > 1


def test_explain_of_a_word_that_is_both_tells_the_code_first(tmp_path: Path) -> None:
    lines = harness("explain", "assertion_failed", cwd=tmp_path).stdout.splitlines()
    assert lines[0].startswith("ASSERTION_FAILED  (assertion_failed")


def test_version_and_help(tmp_path: Path) -> None:
    assert harness("--version", cwd=tmp_path).stdout == f"harness {version('pytest-taskspec')}\n"
    for command in ((), ("validate",)):
        assert "<bool>" not in harness(*command, "--help", cwd=tmp_path).stdout


def test_validate_labels_warnings_and_counts_one_file_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD + "mine: 1\ndependencies: [NOT-HERE]\n", "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.stderr.startswith("warning: a.task.yaml:5:")
    assert found.stdout.startswith("1 task file, 1 load, ")


def test_the_report_server_says_nothing_of_a_browser_that_breaks_off(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "large").write_bytes(bytes(30_000_000))
    with report_server(tmp_path) as server:
        server.daemon_threads = False  # closing waits for them
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_port)) as browser:
            browser.sendall(b"GET /large HTTP/1.0\r\n\r\n")
            assert browser.recv(100)
        server.shutdown()
        thread.join()
    assert capfd.readouterr().err == ""


DEMO = "from harness.cli import main; main()"


@contextlib.contextmanager
def demo(port: int = 0, before: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`harness demo` in a process of its own, and what it has said once the sites run."""
    command = [sys.executable, "-c", before + DEMO, "demo", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and "Ctrl-C" not in lines[-1]:
            lines.append(process.stdout.readline())
        try:
            yield process, lines
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def shop_of(lines: list[str]) -> str:
    return next(line.split()[1] for line in lines if line.strip().startswith("shop.local"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("before", ["", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "])
def test_demo_ends_with_its_sites(number: signal.Signals, before: str) -> None:
    with demo(before=before) as (process, lines):
        with urllib.request.urlopen(shop_of(lines), timeout=10) as page:
            assert b"Shop" in page.read()
        assert any("task_id: FIRST-001" in line for line in lines)
        process.send_signal(number)
        assert process.wait(10) == 0
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(shop_of(lines), timeout=10)


def test_demo_that_runs_already_is_shown(sites: dict[str, int]) -> None:
    with demo(sites["world.local"]) as (process, lines):
        assert process.wait(10) == 0
        assert lines[0].startswith(f"The demo sites already run on port {sites['world.local']}")
        assert shop_of(lines) == f"http://127.0.0.1:{sites['shop.local']}/"


def test_demo_on_a_port_of_someone_else_fails(tmp_path: Path) -> None:
    with report_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        done = harness("demo", "--port", str(server.server_port), cwd=tmp_path)
        server.shutdown()
        thread.join()
    assert done.returncode == 1
    assert "cannot listen" in done.stderr
