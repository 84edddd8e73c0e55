"""The two commands and the scripts that call them, with real processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bootstrap import command, machine
from bootstrap.machine import TIMED_OUT, Finished, ThisMachine
from tests.acceptance.fake_machine import FAILED, program
from tests.acceptance.warm import warm

PROJECT = Path(__file__).resolve().parents[2]
MAKES_OWN = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "ARGS", "PYTHON")
"""What `make test` exports to this suite: with them, a make in it speaks as a part of that make."""


def test_a_command_that_hangs_ends_with_all_it_started(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    done = ThisMachine().run(("sh", "-c", f"sleep 600 & echo $! > {pid_file}; wait"), seconds=1)
    assert done == Finished(TIMED_OUT, "gave up after 1 s")
    pid, deadline = int(pid_file.read_text()), time.monotonic() + 10
    while not ended(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended(pid)


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and not yet collected by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_command_that_takes_long_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "TELL_SECONDS", 0.2)
    done = ThisMachine().run(("sh", "-c", "echo Collecting playwright; sleep 1; echo done"))
    assert done == Finished(0, "Collecting playwright\ndone\n")
    assert "s: Collecting playwright" in capsys.readouterr().out


def test_a_program_that_is_not_there_is_a_failed_command() -> None:
    assert not ThisMachine().run(("no-such-program-here",)).ok


def test_the_reason_is_the_line_that_speaks_of_the_error() -> None:
    assert FAILED.reason == "Error: no such package"
    assert Finished(3).reason == "exit code 3"


def test_two_set_ups_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bootstrap").mkdir()
    order: list[str] = []

    def second() -> None:
        with command.one_at_a_time(tmp_path):
            order.append("second")

    with command.one_at_a_time(tmp_path):
        other = threading.Thread(target=second)
        other.start()
        other.join(0.2)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
    assert "waiting for another set-up" in capsys.readouterr().out


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose tools are scripts that note their calls; mypy fails."""
    monkeypatch.delenv("TASKSPEC_TESTS", raising=False)
    tools = tmp_path / "venv" / "bin"
    for name, code in (("ruff", 0), ("mypy", 3), ("lint-imports", 0), ("sphinx-build", 0), ("pytest", 1)):
        program(tools / name, f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\nexit {code}\n')
    return tmp_path / "venv"


def test_a_quick_check_that_fails_comes_before_the_suite(tmp_path: Path, venv: Path) -> None:
    program(venv / "bin" / "ruff", f'#!/bin/sh\necho "ruff $*" >> {tmp_path}/calls\nexit 4\n')
    assert command.run_tests(venv, ()) == 4
    assert (tmp_path / "calls").read_text().splitlines() == ["ruff check"]


@pytest.mark.parametrize("arguments", [(), ("-x",)])
def test_a_slow_check_that_fails_ends_the_suite_beside_it(
    tmp_path: Path, venv: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    program(
        venv / "bin" / "mypy", f"#!/bin/sh\nuntil test -e {tmp_path}/up; do sleep 0.05; done\necho no type\nexit 3\n"
    )
    waits = f"import pathlib, time\npathlib.Path({str(tmp_path / 'up')!r}).touch()\ntime.sleep(300)\n"
    program(venv / "bin" / "pytest", f"#!{sys.executable}\n{waits}")
    assert command.run_tests(venv, arguments) == 3
    said = capfd.readouterr()
    assert "no type" in said.out
    assert "failed: mypy --strict harness bootstrap tools (exit code 3)" in said.err


def test_a_slow_check_is_awaited_and_counts_although_the_suite_passes(
    tmp_path: Path, venv: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program(venv / "bin" / "pytest", f"#!/bin/sh\ntouch {tmp_path}/over\n")
    program(venv / "bin" / "mypy", "#!/bin/sh\n")
    program(
        venv / "bin" / "lint-imports",
        f"#!/bin/sh\nuntil test -e {tmp_path}/over; do sleep 0.05; done\nsleep 0.2\necho circle\nexit 1\n",
    )
    assert command.run_tests(venv, ()) == 1
    said = capfd.readouterr()
    assert "circle" in said.out
    assert said.err == "bootstrap: failed: lint-imports (exit code 1)\n"


def test_a_suite_that_is_interrupted_ends_the_slow_checks(tmp_path: Path, venv: Path) -> None:
    program(venv / "bin" / "mypy", f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 300\n")
    program(venv / "bin" / "pytest", f"#!/bin/sh\nuntil test -s {tmp_path}/pid; do sleep 0.05; done\nexit 2\n")
    assert command.run_tests(venv, ()) == 2
    assert ended(int((tmp_path / "pid").read_text()))


def test_the_quick_checks_come_before_the_suite_and_the_slow_ones_beside_it(tmp_path: Path, venv: Path) -> None:
    program(venv / "bin" / "mypy", f'#!/bin/sh\necho "mypy $*" >> {tmp_path}/calls\n')
    assert command.run_tests(venv, ("-x",)) == 1
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[:2] == ["ruff check", "ruff format --check"]
    assert set(calls[2:]) == {
        "mypy --strict harness bootstrap tools",
        "lint-imports ",
        " ".join(command.SITE),
        f"pytest tests/ {' '.join(command.SUITE)} -x",
    }


BESIDE = f"pytest tests/ {' '.join(command.SUITE)}"
ALONE = f"pytest tests/ {' '.join(command.ALONE)}"
FAILING = """#!/bin/sh
echo "pytest $*" >> {calls}
case "$*" in *--last-failed*) exit {alone} ;; esac
mkdir -p .pytest_cache/v/cache
echo '{failed}' > .pytest_cache/v/cache/lastfailed
exit {beside}
"""


@pytest.mark.parametrize(
    ("failed", "beside", "alone", "code", "runs"),
    [
        (1, 1, 0, 0, [BESIDE, ALONE]),
        (10, 1, 1, 1, [BESIDE, ALONE]),
        (11, 1, 0, 1, [BESIDE]),
        (1, 2, 0, 2, [BESIDE]),
        (0, 1, 0, 1, [BESIDE]),
        (0, 0, 0, 0, [BESIDE]),
    ],
    ids=["passes-alone", "fails-alone", "too-many", "interrupted", "failed-outside-tests", "green"],
)
def test_the_few_tests_that_failed_beside_others_are_judged_alone(
    tmp_path: Path,
    venv: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    failed: int,
    beside: int,
    alone: int,
    code: int,
    runs: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    program(venv / "bin" / "mypy", "#!/bin/sh\n")
    names = json.dumps({f"tests/test_{number}.py": True for number in range(failed)})
    calls = tmp_path / "calls"
    program(venv / "bin" / "pytest", FAILING.format(calls=calls, failed=names, beside=beside, alone=alone))
    assert command.run_tests(venv, ()) == code
    assert [line for line in calls.read_text().splitlines() if line.startswith("pytest")] == runs
    told = "failed beside others and passed alone: tests/test_0.py" in capfd.readouterr().out
    assert told == (runs == [BESIDE, ALONE] and not code)


def test_a_full_run_gets_a_real_model_first(
    tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TASKSPEC_TESTS", "full")
    program(venv / "bin" / "python", f'#!/bin/sh\necho "python $*" >> {tmp_path}/calls\nexit 1\n')
    assert command.run_tests(venv, ()) == 3
    first, second, third, fourth, *_ = (tmp_path / "calls").read_text().splitlines()
    assert first.endswith("install --no-deps --group full")
    assert second.endswith("install --group stores")
    assert third.endswith("install --group cluster")
    assert fourth == "ruff check"
    assert "the group `full` of pyproject.toml could not be installed" in capfd.readouterr().out


@pytest.mark.parametrize("code", [0, 1, 2, 4])
def test_run_keeps_pytests_exit_code(venv: Path, capfd: pytest.CaptureFixture[str], code: int) -> None:
    program(venv / "bin" / "pytest", f'#!/bin/sh\necho "$@ in $VIRTUAL_ENV"\nexit {code}\n')
    assert command.run_tasks(venv, ("-k", "shop")) == code
    output = capfd.readouterr().out
    options = "--no-header --task-models replay --task-workers 6 --alluredir=allure-results"
    assert f"tasks/ {options} -k shop in {venv}" in output


def test_run_takes_the_workers_that_are_asked_for(venv: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(venv / "bin" / "pytest", '#!/bin/sh\necho "$@"\n')
    assert command.run_tasks(venv, ("--task-workers=1",)) == 0
    output = capfd.readouterr().out
    assert "--task-workers=1" in output
    assert "--task-workers 6" not in output


def test_run_says_what_comes_and_what_to_do_next(venv: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The commands are run as they are typed by the next test but one."""
    program(venv / "bin" / "pytest", "#!/bin/sh\necho RUN\nexit 1\n")
    assert command.run_tasks(venv, ()) == 1
    first, _, after = capfd.readouterr().out.partition("RUN")
    assert "about a minute" in first
    assert ".venv/bin/harness dashboard" in after
    program(venv / "bin" / "pytest", "#!/bin/sh\nexit 2\n")
    command.run_tasks(venv, ())
    assert "Next:" not in capfd.readouterr().out


def test_what_make_run_says_comes_next_works_as_typed(tmp_path: Path) -> None:
    """Three runs of pytest in Chromium: the first commands that a newcomer types."""
    for name in ("tasks", "examples"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    program(tmp_path / "pytest.ini", "[pytest]\naddopts = -p no:hypothesispytest -p no:faker\n")
    lines = re.findall(r"\.venv/bin/((?:pytest|harness) .+?)(?:  |$)", command.NEXT, re.MULTILINE)
    task = tmp_path / "tasks/B1-2025-001.task.yaml"
    assert "write #search-bx for #search-box in tasks/B1-2025-001.task.yaml" in command.NEXT
    task.write_text(task.read_text("utf-8").replace("#search-box", "#search-bx"), "utf-8")
    said = {}
    for line in lines:
        tool, *arguments = line.split()
        module = "pytest" if tool == "pytest" else "tests.acceptance.command"
        said[line] = warm().run(module, *arguments, cwd=tmp_path, timeout=180).stdout
    assert (
        list(said)
        == lines
        == [
            "harness dashboard",
            "pytest examples/RED-2025-001.task.yaml",
            "pytest tasks/B1-2025-001.task.yaml",
            "harness new my-first",
            "pytest tasks/my-first.task.yaml",
        ]
    )
    assert "RED-2025-001 failed: CRITERIA_UNMET" in said["pytest examples/RED-2025-001.task.yaml"]
    assert "healed selectors (update the spec):" in said["pytest tasks/B1-2025-001.task.yaml"]
    assert "1 passed" in said["pytest tasks/my-first.task.yaml"]


def test_ctrl_c_lets_the_tool_finish(tmp_path: Path) -> None:
    tool = "import signal, sys, time\nsignal.signal(signal.SIGINT, lambda *_: sys.exit(7))\nprint('up', flush=True)\n"
    program(tmp_path / "bin" / "tool", f"#!{sys.executable}\n{tool}time.sleep(30)\n")
    code = "import sys; from pathlib import Path; from bootstrap.command import in_environment as run;"
    code += f"sys.exit(run(Path({str(tmp_path)!r}), ['tool']))"
    with subprocess.Popen(
        (sys.executable, "-c", code), cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 7


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(("walk",)) == 2
    assert "usage" in capsys.readouterr().err


def find_python(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("/bin/sh", PROJECT / "bootstrap" / "find-python"),
        env={"PATH": str(path), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    program(tmp_path / "python3.14", "#!/bin/sh\nexit 1\n")
    (tmp_path / "python3.12").symlink_to(sys.executable)
    found = find_python(tmp_path)
    assert found.returncode == 0
    assert Path(found.stdout.strip()).exists()


def test_a_python_of_an_environment_is_answered_with_its_base(tmp_path: Path) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("this Python is no virtual environment's")
    found = find_python(tmp_path, PYTHON=sys.executable)
    assert not Path(found.stdout.strip()).is_relative_to(sys.prefix)


def test_a_python_that_only_pyenv_has_is_found_by_its_version(tmp_path: Path) -> None:
    program(tmp_path / "python3.12", "#!/bin/sh\necho 'pyenv: python3.12: command not found' >&2\nexit 127\n")
    own = tmp_path / "versions" / "3.12.1"
    program(tmp_path / "pyenv", f'#!/bin/sh\n[ "$*" = "prefix 3.12" ] && echo "{own}"\n')
    program(own / "bin" / "python3.12", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    found = find_python(tmp_path, PYTHON="python3.12")
    assert (found.returncode, found.stderr) == (0, "")
    assert Path(found.stdout.strip()).exists()
    other = find_python(tmp_path, PYTHON="python3.13")
    assert (other.returncode, other.stdout) == (1, "")
    assert "python3.13 is not a Python that starts; install it" in other.stderr


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "apt-get install python3"),
        ({"PYTHON": "/bin/true"}, "PYTHON=/bin/true is not a Python that starts"),
        ({"PYTHON": "python3.10"}, "PYTHON=python3.10 is Python 3.10; Python 3.11 or newer is needed"),
    ],
    ids=["none", "no-python", "too-old"],
)
def test_no_python_is_one_clear_line(tmp_path: Path, environ: dict[str, str], said: str) -> None:
    program(tmp_path / "python3.10", "#!/bin/sh\necho 3.10 /usr/bin/python3.10\nexit 1\n")
    found = find_python(tmp_path, **environ)
    assert found.returncode == 1
    assert said in found.stderr
    assert found.stderr.count("\n") == 1
    assert found.stdout == ""


@pytest.mark.parametrize("target", ["run", "test"])
def test_make_hands_the_target_and_the_arguments_on(target: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in MAKES_OWN}
    shown = subprocess.run(
        (shutil.which("make") or "make", "-n", target, "ARGS=-k shop"),
        cwd=PROJECT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.endswith(f"-m bootstrap {target} -k shop\n")


def test_ci_calls_both_commands_and_stops_at_a_failure(tmp_path: Path) -> None:
    assert ci(tmp_path, failing="none") == (0, ["make test", "harness validate ../shared/compat", "make run"])
    assert ci(tmp_path, failing="validate") == (1, ["make test", "harness validate ../shared/compat"])
    assert ci(tmp_path, failing="test") == (1, ["make test"])


def ci(tmp_path: Path, failing: str) -> tuple[int, list[str]]:
    """Runs .ci/run of a copy without standard input; answers its exit code and the commands it called."""
    clone, calls = tmp_path / "clone", tmp_path / "calls"
    calls.write_text("")
    (tmp_path / "shared" / "compat").mkdir(parents=True, exist_ok=True)
    script = f'#!/bin/sh\necho "$(basename "$0") $*" >> {calls}\ncase $1 in {failing}) exit 1;; esac\n'
    script += "read -r typed && exit 9\nexit 0\n"
    program(tmp_path / "bin" / "make", script)
    program(clone / ".venv" / "bin" / "harness", script)
    run = program(clone / ".ci" / "run", (PROJECT / ".ci" / "run").read_text())
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        (shutil.which("bash") or "bash", run), cwd=tmp_path, env=environ, input="typed\n", text=True, check=False
    )
    return done.returncode, calls.read_text().splitlines()


@pytest.mark.parametrize("name", ["bootstrap/find-python", ".ci/run"])
def test_the_scripts_can_be_executed_and_parse(name: str) -> None:
    assert os.access(PROJECT / name, os.X_OK)
    interpreter = re.match(r"#!.*\b(sh|bash)\n", (PROJECT / name).read_text())
    assert interpreter is not None
    subprocess.run((interpreter[1], "-n", PROJECT / name), check=True)


def test_the_set_up_needs_only_the_standard_library() -> None:
    known = {*sys.stdlib_module_names, "bootstrap"}
    for file in (PROJECT / "bootstrap").glob("*.py"):
        imported = re.findall(r"^\s*(?:from|import) (\w+)", file.read_text(), re.MULTILINE)
        assert set(imported) <= known, file.name


def test_the_scripts_name_no_registry_and_no_place_of_one_machine() -> None:
    files = [PROJECT / "Makefile", PROJECT / ".ci" / "run", *(PROJECT / "bootstrap").glob("[a-z_]*")]
    for file in (file for file in files if file.is_file()):
        assert not re.search(r"https?://|pypi\.|/home/\w|/root/|/work/|/tmp/", file.read_text()), file.name
