"""The command `harness` from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
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

from harness.recovery.catalog import CATALOG
from harness.reporting.allure.serve import report_server
from tests.acceptance.conftest import Project
from tests.acceptance.warm import harness, start_harness

ROOT = Path(__file__).parents[2]
GOOD = "task_id: A-1\ngoal: g\nsteps:\n  - {act: open, url: 'http://shop.local/'}\n"


MAIN = "from harness.cli import main; main()"


def test_validate_tells_all_problems_at_once_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("open", "opne"), "utf-8")
    (tmp_path / "c.task.yaml").write_text(GOOD.replace("steps", "stesp"), "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "b.task.yaml:4:" in found.stdout
    assert "did you mean `steps`" in found.stdout
    assert "3 task files, 1 loaded, 2 with errors" in found.stdout


@pytest.mark.thorough
def test_validate_is_content_with_good_files(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    assert harness("validate", "a.task.yaml", cwd=tmp_path).returncode == 0


def test_validate_sees_what_only_several_files_show(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD + "dependencies: [B-1]\n", "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("A-1", "B-1") + "dependencies: [A-1]\n", "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "A-1 -> B-1 -> A-1" in found.stdout or "B-1 -> A-1 -> B-1" in found.stdout


@pytest.mark.parametrize("args", [("validate", "nowhere"), ("validate", "."), ("explain", "NOPE"), ("report",)])
@pytest.mark.sampled(2)
def test_what_cannot_be_done_is_one_clear_line(tmp_path: Path, args: tuple[str, ...]) -> None:
    found = harness(*args, cwd=tmp_path)
    assert found.returncode == 1
    assert found.stdout == ""
    assert len(found.stderr.strip().splitlines()) == 1
    assert "Traceback" not in found.stderr


def test_schema_prints_what_is_shipped(tmp_path: Path) -> None:
    printed = json.loads(harness("schema", cwd=tmp_path).stdout)
    assert printed == json.loads((ROOT / "schemas" / "task_spec.schema.json").read_text("utf-8"))


@pytest.mark.thorough
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
    assert "warning: a.task.yaml:5:" in found.stdout
    assert "\n1 task file, 1 loaded, " in found.stdout


PROJECT = """
[tool.harness.channels.env]
url = "http://world.local/env"
"""


def test_validate_knows_the_channels_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT, "utf-8")
    (tmp_path / "tasks").mkdir()
    text = GOOD + "success_criteria: [\"json('evn', 'a') == 1\"]\n"
    (tmp_path / "tasks" / "a.task.yaml").write_text(text, "utf-8")
    found = harness("validate", str(tmp_path), cwd=tmp_path.parent)
    assert found.returncode == 1
    assert "unknown channel `evn`" in found.stdout
    assert "did you mean `env`?" in found.stdout


def test_validate_knows_the_agents_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD.partition("steps")[0], "utf-8")
    assert "no steps" in harness("validate", ".", cwd=tmp_path).stdout
    (tmp_path / "pyproject.toml").write_text("[tool.harness.agents.mine]\npython = 'a:b'\n", "utf-8")
    assert harness("validate", ".", cwd=tmp_path).returncode == 0


@pytest.mark.thorough
def test_validate_takes_an_agent_and_knows_the_settings_one(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD.partition("steps")[0], "utf-8")
    agents = "[tool.harness.agents.words]\npython = 'a:b'\n[tool.harness.agents.mine]\npython = 'a:c'\n"
    (tmp_path / "pyproject.toml").write_text(agents, "utf-8")
    hint = 'there are 2 agents (words, mine): set agent = "words" in [tool.harness], or use `--task-agent NAME`'
    assert hint in harness("validate", ".", cwd=tmp_path).stdout
    assert harness("validate", ".", "--agent", "mine", cwd=tmp_path).returncode == 0
    assert "steps: no steps" in harness("validate", ".", "--agent", "scripted", cwd=tmp_path).stdout
    found = harness("validate", ".", "--agent", "wrds", cwd=tmp_path)
    assert found.returncode == 1
    assert "--agent: There is no agent `wrds`" in found.stdout
    (tmp_path / "pyproject.toml").write_text(f"[tool.harness]\nagent = 'wrds'\n{agents}", "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "pyproject.toml: tool.harness.agent: There is no agent `wrds`" in found.stdout
    assert "did you mean `words`?" in found.stdout


def test_validate_knows_the_hosts_of_the_project_and_who_runs_inside_of_whom(tmp_path: Path) -> None:
    service = (
        "[tool.harness.services.s]\ncommand = ['x']\nhosts = { 'shop.local' = 1 }\nhealth = 'http://shop.local/'\n"
    )
    (tmp_path / "pyproject.toml").write_text(service, "utf-8")
    slip = GOOD.replace("shop.local", "shop.locl") + "success_criteria: [\"exists('#a')\"]\n"
    (tmp_path / "a.task.yaml").write_text(slip, "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 0
    assert "hint: did you mean `shop.local`?" in found.stdout
    needy = slip.replace("A-1", "B-1").replace("locl", "local") + "preconditions: [\"mem('k') == 1\"]\n"
    (tmp_path / "a.task.yaml").write_text(needy, "utf-8")
    assert "preconditions[0]: never holds" in harness("validate", ".", cwd=tmp_path).stdout
    (tmp_path / "b.task.yaml").write_text(GOOD + "fallback_plan: {enabled: true, alternative_task_id: B-1}\n", "utf-8")
    assert "never holds" not in harness("validate", ".", cwd=tmp_path).stdout


def test_validate_tells_of_settings_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("A-1", "B-1"), "utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\nrecodring = 'full'\n", "utf-8")
    found = harness("validate", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert found.stdout.count("pyproject.toml:2:1: tool.harness: unknown key `recodring`") == 1
    assert "2 task files, 2 loaded, 1 with errors" in found.stdout


@pytest.mark.parametrize("settings", ["[tool]\nharness = 4\n", "[tool.harness]\nbrowser = 3\n"])
@pytest.mark.parametrize("args", [("validate", "."), ("show",), ("new", "x"), ("verify", "."), ("run", ".")])
@pytest.mark.sampled(2)
def test_settings_that_are_no_tables_are_one_clear_line(tmp_path: Path, args: tuple[str, ...], settings: str) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    found = harness(*args, cwd=tmp_path)
    said = found.stdout + found.stderr
    assert found.returncode in (1, pytest.ExitCode.USAGE_ERROR)
    assert said.count("must be a table") == 1
    assert "Traceback" not in said


def test_validate_as_json(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD, "utf-8")
    (tmp_path / "b.task.yaml").write_text(GOOD.replace("open", "opne"), "utf-8")
    found = harness("validate", ".", "--format", "json", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (1, "")
    document = json.loads(found.stdout)
    assert document["files"] == [
        {"file": "a.task.yaml", "task_id": "A-1", "valid": True},
        {"file": "b.task.yaml", "task_id": None, "valid": False},
    ]
    assert document["counts"] == {"files": 2, "loaded": 1, "with_errors": 1, "errors": 1, "warnings": 1}
    warning, error = document["problems"]
    assert (warning["severity"], warning["path"], warning["file"]) == ("warning", "success_criteria", "a.task.yaml")
    assert (error["line"], error["column"], error["path"]) == (4, 11, "steps[0].act")
    assert set(error) == {
        "file", "line", "column", "path", "message", "expected", "found", "hint", "severity",
    }  # fmt: skip


@pytest.mark.thorough
def test_validate_of_nothing_as_json_is_a_document_too(tmp_path: Path) -> None:
    for path in (".", "nowhere"):
        found = harness("validate", path, "--format", "json", cwd=tmp_path)
        assert found.returncode == 1
        assert json.loads(found.stdout)["counts"]["errors"] == 1


@pytest.mark.thorough
def test_validate_counts_a_folder_as_one_task(tmp_path: Path) -> None:
    (tmp_path / "task_spec.json").write_text('{"task_id": "A-1", "goal": "g"}', "utf-8")
    (tmp_path / "oracle_trace.json").write_text('{"steps": [{"act": "submit", "selector": "form"}]}', "utf-8")
    found = harness("validate", ".", "--strict", "--format", "json", cwd=tmp_path)
    document = json.loads(found.stdout)
    assert {each["file"] for each in document["problems"]} == {"task_spec.json", "oracle_trace.json"}
    assert document["counts"]["with_errors"] == 1
    assert document["files"] == [{"file": "task_spec.json", "task_id": "A-1", "valid": False}]


def test_validate_for_github(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD.replace("open", "opne"), "utf-8")
    found = harness("validate", ".", "--format", "github", cwd=tmp_path)
    assert found.returncode == 1
    command, summary = found.stdout.splitlines()
    assert command.startswith("::error file=a.task.yaml,line=4,col=11,title=steps[0].act::not a known act")
    assert summary == "1 task file, 0 loaded, 1 with errors"


def test_validate_strictly_takes_advice_as_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.task.yaml").write_text(GOOD + "memory_keys: [k]\n", "utf-8")
    assert harness("validate", ".", cwd=tmp_path).returncode == 0
    found = harness("validate", "--strict", ".", cwd=tmp_path)
    assert found.returncode == 1
    assert "memory_keys[0]: no step remembers it" in found.stdout
    assert "the key `family` is missing (strict)" in found.stdout
    assert "warning:" not in found.stdout


def test_pytest_shows_what_the_loader_warns_of_and_no_advice(project: Project) -> None:
    project.task("A-1", memory_keys=["k"], mine=1)
    shown = project.run("--collect-only", "-q").stdout.str()
    assert "unknown key `mine`" in shown
    assert "no step remembers it" not in shown
    assert "no step remembers it" in harness("validate", ".", cwd=project.path).stdout


@pytest.mark.parametrize("args", [("nope",), ("validate",), ("validate", "--format", "xml", "."), ("new", "../a")])
@pytest.mark.sampled(2)
def test_a_slip_in_the_usage_is_code_2(tmp_path: Path, args: tuple[str, ...]) -> None:
    found = harness(*args, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr


@pytest.mark.parametrize("command", ["new", "validate", "run", "show", "explain", "schema", "report", "demo"])
@pytest.mark.sampled(2)
def test_every_command_shows_an_example(tmp_path: Path, command: str) -> None:
    found = harness(command, "--help", cwd=tmp_path)
    assert found.returncode == 0
    assert f"Example: harness {command}" in found.stdout


@pytest.mark.thorough
def test_schema_by_name_and_the_list(tmp_path: Path) -> None:
    names = harness("schema", "--list", cwd=tmp_path).stdout.split()
    assert set(names) == {path.name for path in (ROOT / "schemas").glob("*.json")}
    for args in (("trace",), ("trace.schema.json",), ("--name", "trace")):
        printed = harness("schema", *args, cwd=tmp_path).stdout
        assert printed == (ROOT / "schemas" / "trace.schema.json").read_text("utf-8")
    wrong = harness("schema", "trase", cwd=tmp_path)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "did you mean `trace`?" in wrong.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with start_harness("explain", cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE) as process:
        os.close(writes)
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_without_standard_output_nothing_breaks(tmp_path: Path) -> None:
    command = f"import sys; sys.stdout = None; {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", command, "explain", "NET_DNS"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    """It comes while the command reads its first file: a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "a.task.yaml")
    with (
        start_harness("validate", "a.task.yaml", cwd=tmp_path, stderr=subprocess.PIPE) as process,
        (tmp_path / "a.task.yaml").open("wb"),
    ):  # open once the other side reads
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")


RUN = ("-c", MAIN, "run", "tasks", "--")


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "pytest"),
        pytest.param((*RUN, "-p", "no:cacheprovider"), marks=pytest.mark.thorough),
        (*RUN, "-p", "conftest"),
    ],
    ids=["pytest", "run", "before-plugins"],
)
@pytest.mark.sampled(1)
def test_ctrl_c_while_pytest_loads_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    """It comes in a conftest.py, after our plugin was loaded, and with `harness run` also before it."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "a.task.yaml").write_text("task_id: A\ngoal: g\n", "utf-8")
    (tmp_path / "conftest.py").write_text("raise KeyboardInterrupt\n", "utf-8")
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "\ninterrupted before the run began\n")


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


@contextlib.contextmanager
def demo(before: str = "") -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """`harness demo` in a process of its own, and what it has said once the sites run."""
    command = [sys.executable, "-c", before + MAIN, "demo", "--port", "0"]
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


IGNORED = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
"""As a shell without job control starts what shall run beside it."""


def shop_of(lines: list[str]) -> str:
    return next(line.split()[1] for line in lines if line.strip().startswith("shop.local"))


@pytest.mark.parametrize(
    ("number", "before"),
    [
        (signal.SIGINT, ""),
        (signal.SIGINT, IGNORED),
        (signal.SIGTERM, ""),
        (signal.SIGHUP, ""),
        *(pytest.param(each, IGNORED, marks=pytest.mark.thorough) for each in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
@pytest.mark.sampled(1)
def test_demo_ends_with_its_sites(number: signal.Signals, before: str) -> None:
    with demo(before=before) as (process, lines):
        with urllib.request.urlopen(shop_of(lines), timeout=10) as page:
            assert b"Shop" in page.read()
        assert any("task_id: FIRST-001" in line for line in lines)
        process.send_signal(number)
        assert process.wait(60) == 0
        with pytest.raises(OSError, match="refused"):
            urllib.request.urlopen(shop_of(lines), timeout=10)


def test_demo_that_runs_already_is_shown(tmp_path: Path, sites: dict[str, int]) -> None:
    done = harness("demo", "--port", str(sites["world.local"]), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"The demo sites already run on port {sites['world.local']}")
    assert shop_of(done.stdout.splitlines()) == f"http://127.0.0.1:{sites['shop.local']}/"


def test_demo_on_a_port_of_someone_else_fails(tmp_path: Path) -> None:
    with report_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        done = harness("demo", "--port", str(server.server_port), cwd=tmp_path)
        server.shutdown()
        thread.join()
    assert done.returncode == 1
    assert "cannot listen" in done.stderr


def ports_as(sites: dict[str, int], pyproject: Path) -> None:
    """The demo sites of the test session instead of those that would be started."""
    text = pyproject.read_text("utf-8")
    text = re.sub(r'"(\w+\.local)" = \d+', lambda found: f'"{found[1]}" = {sites[found[1]]}', text)
    pyproject.write_text(text.replace('"8470"', f'"{sites["world.local"]}"'), "utf-8")


def test_a_new_task_runs_in_an_empty_folder(tmp_path: Path, sites: dict[str, int]) -> None:
    made = harness("new", "my-first", "--with-demo", cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert "run it:  harness run tasks/my-first.task.yaml" in made.stdout
    ports_as(sites, tmp_path / "pyproject.toml")
    checked = harness("validate", ".", cwd=tmp_path)
    assert (checked.stdout, checked.stderr) == ("1 task file, 1 loaded, 0 with errors\n", "")
    ran = harness("run", "tasks/my-first.task.yaml", "-p", "no:cacheprovider", cwd=tmp_path, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    assert "1 completed" in ran.stdout


@pytest.mark.thorough
def test_a_new_task_for_a_page_of_ones_own_runs(tmp_path: Path, sites: dict[str, int]) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    url = f"http://127.0.0.1:{sites['shop.local']}/"
    made = harness("new", "mine", "--dir", "flows", "--url", url, cwd=tmp_path)
    assert (made.returncode, made.stderr) == (0, "")
    assert "pyproject" not in made.stdout
    ran = harness("run", "--task-timeout-scale", "2", "flows", "--", "-k", "mine", cwd=tmp_path, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


@pytest.mark.thorough
def test_new_says_what_the_project_lacks(tmp_path: Path) -> None:
    made = harness("new", cwd=tmp_path)
    assert made.returncode == 0
    assert "[tool.harness.services.demo]" in made.stdout
    assert "harness schema --write schemas" in made.stdout
    assert not (tmp_path / "pyproject.toml").exists()
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "task_spec.schema.json").write_text("{}", "utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100", "utf-8")
    again = harness("new", "--with-demo", "--force", cwd=tmp_path)
    assert "schema" not in again.stdout
    text = (tmp_path / "pyproject.toml").read_text("utf-8")
    own, harness_, service, *_ = text.split("\n\n")
    assert (own, harness_) == ("[tool.ruff]\nline-length = 100", '[tool.harness]\nisolation = "world"')
    assert service.startswith("[tool.harness.services.demo]\n")
    assert "add" not in harness("new", "other", "--with-demo", cwd=tmp_path).stdout
    assert (tmp_path / "pyproject.toml").read_text("utf-8") == text


OWN = """
[tool.harness.services.desk]
command = ["{python}", "desk.py", "--port", "{port}"]
hosts = ["desk.test", "www.desk.test"]
health = "http://desk.test/health"
"""


@pytest.mark.parametrize(
    ("settings", "begins"),
    [(OWN, "http://desk.test/"), ('[tool.harness]\nbase_url = "https://staging.test/app"', "https://staging.test/app")],
)
@pytest.mark.sampled(1)
def test_new_begins_at_the_projects_own_site(tmp_path: Path, settings: str, begins: str) -> None:
    """The demo shop is no site of such a project, and the task would fail with NET_DNS."""
    (tmp_path / "pyproject.toml").write_text(settings, "utf-8")
    made = harness("new", "mine", cwd=tmp_path)
    assert "services.demo" not in made.stdout, made.stderr
    assert f'{{act: open, url: "{begins}"}}' in (tmp_path / "tasks" / "mine.task.yaml").read_text("utf-8")
    assert harness("validate", "tasks/", cwd=tmp_path).stdout == "1 task file, 1 loaded, 0 with errors\n"
    assert harness("new", "shop", "--with-demo", cwd=tmp_path).returncode == 0
    assert "http://shop.local/" in (tmp_path / "tasks" / "shop.task.yaml").read_text("utf-8")


def test_new_never_overwrites(tmp_path: Path) -> None:
    file = tmp_path / "tasks" / "mine.task.yaml"
    file.parent.mkdir()
    file.write_text("task_id: other\n", "utf-8")
    refused = harness("new", "mine", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "exists already" in refused.stderr
    assert "--force" in refused.stderr
    assert file.read_text("utf-8") == "task_id: other\n"
    assert harness("new", "mine", "--force", cwd=tmp_path).returncode == 0
    assert "task_id: mine" in file.read_text("utf-8")


def test_new_takes_no_id_of_another_task(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "x.task.yaml").write_text(GOOD, "utf-8")
    refused = harness("new", "a-1", cwd=tmp_path)
    assert refused.returncode == 1
    assert "taken by tasks/x.task.yaml" in refused.stderr


@pytest.mark.parametrize("url", ["ftp://x/", "shop.local", "http://", "http://a b/", "http://x:99999/"])
@pytest.mark.sampled(1)
def test_new_wants_the_url_of_a_page(tmp_path: Path, url: str) -> None:
    refused = harness("new", "--url", url, cwd=tmp_path)
    assert refused.returncode == 2
    assert "is not the URL of a page" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_new_does_not_spoil_settings(tmp_path: Path) -> None:
    before = "[tool]\nharness = {}\n"
    (tmp_path / "pyproject.toml").write_text(before, "utf-8")
    refused = harness("new", "--with-demo", cwd=tmp_path)
    assert refused.returncode == 1
    assert "add them by hand" in refused.stderr
    assert (tmp_path / "pyproject.toml").read_text("utf-8") == before


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    for args in (("new", "--dir", "file/inside"), ("schema", "--write", "file")):
        found = harness(*args, cwd=tmp_path)
        assert (found.returncode, found.stdout) == (1, "")
        assert len(found.stderr.splitlines()) == 1
        assert "file" in found.stderr


@pytest.mark.thorough
def test_run_passes_on_pytests_exit_code(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    nothing = harness("run", "-k", "x", cwd=tmp_path)
    assert nothing.returncode == 1
    assert "there is no folder `tasks` here" in nothing.stderr
    (tmp_path / "tasks").mkdir()
    assert harness("run", cwd=tmp_path).returncode == 5
    assert harness("run", "nowhere", cwd=tmp_path).returncode == 4
    assert "usage: " in harness("run", "--", "--help", cwd=tmp_path).stdout


def test_show_reads_what_a_failure_left(project: Project) -> None:
    project.task(
        "LOST-1", steps=[{"act": "open", "url": "http://shop.local/"}, {"act": "click", "selector": "#not-there"}]
    )
    assert project.run().ret == 1
    listed = harness("show", cwd=project.path)
    assert "LOST-1 failed: ELEMENT_NOT_FOUND at step 1 (of 0-1)" in listed.stdout
    shown = harness("show", "LOST-1", cwd=project.path).stdout
    assert shown == harness("show", "errors/LOST-1", cwd=project.path).stdout
    assert "  >   1  click  #not-there" in shown
    assert "  hint: " in shown
    assert "    screenshot.png " in shown
    wrong = harness("show", "LOST-2", cwd=project.path)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "did you mean `LOST-1`?" in wrong.stderr
    _of_an_earlier_run(project)


@pytest.mark.thorough
def test_show_lists_the_cases_of_a_task_and_marks_what_is_old(project: Project) -> None:
    click = {"act": "click", "selector": "#${param.x}"}
    project.task("T-1", steps=[{"act": "open", "url": "http://shop.local/"}, click], parametrize={"x": ["a", "b"]})
    project.task("U-1")
    assert project.run().ret == 1
    listed = harness("show", "T-1", cwd=project.path)
    assert listed.returncode == 0
    assert listed.stdout.count("failed: ELEMENT_NOT_FOUND") == 2
    assert "one of them: harness show 'T-1[" in listed.stdout
    assert "not of the last run" not in harness("show", cwd=project.path).stdout
    assert project.run("U-1.task.json").ret == 0
    assert harness("show", cwd=project.path).stdout.count("(not of the last run)") == 2


def _of_an_earlier_run(project: Project) -> None:
    run = json.loads((project.path / "errors" / "LOST-1" / "manifest.json").read_text("utf-8"))["run"]
    project.task("LOST-1")
    assert project.run().ret == 0
    hint = harness("show", "LOST-1", cwd=project.path)
    assert hint.returncode == 1
    assert f"harness show LOST-1 --run {run}" in hint.stderr
    assert f"earlier run {run}: LOST-1" in harness("show", cwd=project.path).stdout
    assert "#not-there" in harness("show", "LOST-1", "--run", run, cwd=project.path).stdout
    wrong = harness("show", "--run", "never", cwd=project.path)
    assert wrong.returncode == 1
    assert run in wrong.stderr
