"""Processes that begin where the imports end: forked from one that has made them, a second of work saved for each.

What runs in them is real: a process of its own with its own arguments, folder, environment and output, which loads
its plugins by their entry points, and ends as any Python does: threads are awaited, and what is registered with
`atexit` runs. Only the importing was done before, the driver of Playwright may be shared (shared_driver.py), and at its
very end the memory is left to the system.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel

from harness.cli.commands import Imported
from tests.acceptance.shared_driver import SharedDriver, connect_to
from tests.acceptance.warm_workers import fork_workers, number_of_workers

OF_PYTEST = (
    "_argcomplete", "faulthandler", "helpconfig", "junitxml", "pastebin", "pytester", "setuponly", "setupplan",
    "skipping", "threadexception", "tracemalloc", "unittest", "unraisableexception", "warnings",
)  # fmt: skip
"""What pytest itself imports only when it starts."""
MODULES = (
    "pytest", *(f"_pytest.{name}" for name in OF_PYTEST), "playwright.sync_api",
    "doctest", "pdb", "unittest.mock", "xml.etree.ElementTree",
    "harness.pytest_plugin.plugin", "harness.pytest_plugin.running", "harness.pytest_plugin.parallel",
    "harness.pytest_plugin.playwright", "harness.pytest_plugin.session", "harness.environment.http_channel",
    "harness.cli.main", "cryptography.x509", "httpcore2",
    "allure_pytest.plugin", "execnet", "pytest_playwright.pytest_playwright",
    "faker.contrib.pytest.plugin", "anyio.pytest_plugin", "anyio._backends._asyncio",
    "pytest_httpserver.pytest_plugin", "pytest_rerunfailures", "xdist.plugin", "xdist.dsession", "xdist.looponfail",
    "xdist.remote",
    "harness.tools.session", "harness.models.wire", "harness.agents.llm", "pydantic_ai.models.openai",
)  # fmt: skip
REWRITTEN = (
    "_pytest.", "allure_pytest", "anyio", "faker", "harness", "pytest_httpserver", "pytest_playwright",
    "pytest_rerunfailures", "xdist",
)  # fmt: skip
"""What pytest would say of: that it is too late to rewrite its assertions."""
UNUSED = ("hypothesispytest", "pytest_httpserver", "anyio", "platformdirs", "faker", "llmock")
"""Plugins of the environment for which what is run here has no use; loading them takes longer than pytest itself."""
ROOT = Path(__file__).parents[2]
COMMAND = "tests.acceptance.command"


class Warm:
    """One such process, and those that are forked from it. Whoever is forked from its owner may use it too."""

    own_driver = False
    """Whether each run starts a driver of Playwright for itself; tests of that are marked `own_driver`.

    One that leads a process group does so anyway: what it has started is looked at, or killed.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "tests.acceptance.warm", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL)
        theirs.close()
        self._socket = ours

    def start(
        self,
        module: str,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[str] = subprocess.PIPE,
        stderr: int | IO[str] = subprocess.STDOUT,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> Forked:
        """`python -m module arguments`, in the current folder unless told, with the current environment and more."""
        order = {
            "module": module,
            "arguments": arguments,
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, **(environment or {})},
            "start_new_session": start_new_session,
            "driver": "" if self.own_driver or start_new_session else shared_driver(os.getpid()).address(),
        }
        text = json.dumps(order).encode() + b"\n"
        told, tells = socket.socketpair()
        with contextlib.ExitStack() as theirs:
            theirs.enter_context(tells)
            reads, our_stdin = _channel(stdin, "w", theirs)
            writes, our_stdout = _channel(stdout, "r", theirs)
            errors, our_stderr = (writes, None) if stderr == subprocess.STDOUT else _channel(stderr, "r", theirs)
            socket.send_fds(self._socket, [b"\n"], [tells.fileno()])
            socket.send_fds(told, [b"\n"], [reads, writes, errors])
            told.sendall(text)
            return Forked(told, our_stdin, our_stdout, our_stderr)

    def run(
        self, module: str, *arguments: str, cwd: Path, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`python -m module arguments` in a folder, to its end. Raises subprocess.TimeoutExpired, having killed it."""
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            forked = self.start(module, *arguments, stdout=stdout, stderr=stderr, cwd=cwd, environment=environment)
            try:
                code = forked.wait(timeout)
            except subprocess.TimeoutExpired:
                forked.kill()
                forked.wait()
                raise
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess([module, *arguments], code, stdout.read(), stderr.read())

    def close(self) -> None:
        self._socket.close()
        self._process.wait(10)


def _channel(wanted: int | IO[str], ours: str, theirs: contextlib.ExitStack) -> tuple[int, IO[str] | None]:
    """What the process gets for a standard stream, and our end if it is a pipe; `theirs` closes what only it needs."""
    if wanted == subprocess.PIPE:
        reads, writes = os.pipe()
        kept, given = (reads, writes) if ours == "r" else (writes, reads)
        theirs.callback(os.close, given)
        return given, os.fdopen(kept, ours)
    if wanted == subprocess.DEVNULL:
        return theirs.enter_context(open(os.devnull, "r+")).fileno(), None
    return (wanted if isinstance(wanted, int) else wanted.fileno()), None


@functools.cache
def shared_driver(pid: int) -> SharedDriver:
    """The one of this process, which starts when it is first asked for; a fork has another."""
    return SharedDriver()


@functools.cache
def warm() -> Warm:
    """The one of this process, or of the one that this has been forked from."""
    warm = Warm()
    atexit.register(warm.close)
    return warm


def harness(*args: str, cwd: Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command `harness`, to its end."""
    return warm().run(COMMAND, *args, cwd=cwd, timeout=timeout, **environment)


def start_harness(*args: str, **options: Any) -> Forked:
    """The command `harness`, as a process; the options are those of `Warm.start`."""
    return warm().start(COMMAND, *args, **options)


class Forked:
    """As much of a `subprocess.Popen` of text as the tests ask for."""

    def __init__(
        self, told: socket.socket, stdin: IO[str] | None, stdout: IO[str] | None, stderr: IO[str] | None
    ) -> None:
        self._told, self._rests = told, list[_Rest]()
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.returncode: int | None = None
        self.pid = int(_line(told))

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(_line(self._told))
            except (TimeoutError, BlockingIOError):
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
            self._told.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """End its input; what it writes until its end. Raises subprocess.TimeoutExpired: then it may be asked again."""
        if self.stdin is not None:
            self.stdin.close()
        end = None if timeout is None else time.monotonic() + timeout
        self._rests = self._rests or [_Rest(self.stdout), _Rest(self.stderr)]
        for rest in self._rests:
            rest.join(end and max(0, end - time.monotonic()))
            if rest.is_alive():
                assert timeout is not None
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
        self.wait(end and max(0, end - time.monotonic()))
        stdout, stderr = self._rests
        return stdout.text, stderr.text

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Rest(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: IO[str] | None) -> None:
        super().__init__(daemon=True)
        self._pipe, self.text = pipe, ""
        self.start()

    def run(self) -> None:
        if self._pipe is not None:
            with self._pipe:
                self.text = self._pipe.read()


def _line(connection: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := connection.recv(1)):
            raise EOFError("the warm process has ended")
        line += byte
    return line.decode()


class _Children:
    """The processes that run: of each, the exit code is told as it ends."""

    def __init__(self) -> None:
        self._telling: dict[int, socket.socket] = {}
        signal.signal(signal.SIGCHLD, self._reap)

    def fork(self, tells: socket.socket) -> bool:
        """Fork, and tell the pid. In the fork: true, and nothing is left of the others."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})  # until it is known whom to tell
        try:
            if pid := os.fork():
                self._telling[pid] = tells
                with contextlib.suppress(OSError):  # whoever wanted it has ended meanwhile
                    tells.sendall(f"{pid}\n".encode())
                return False
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (tells, *self._telling.values()):
                each.close()
            return True
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _reap(self, _number: int, _frame: object) -> None:
        for pid in list(self._telling):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:  # another signal has come inside this handler, and told of it
                continue
            if ended:
                with contextlib.suppress(OSError), self._telling.pop(pid) as tells:
                    tells.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def serve(connection: socket.socket) -> Mapping[str, str | list[str]] | None:
    """Fork for each order. In the fork: what it is to run."""
    children = _Children()
    while given := socket.recv_fds(connection, 1, 1)[1]:
        tells = socket.socket(fileno=given[0])
        streams = socket.recv_fds(tells, 1, 3)[1]
        with tells.makefile("rb") as lines:
            text = lines.readline()
        if text and children.fork(tells):  # without a text, who wanted it has ended meanwhile
            connection.close()
            order = json.loads(text)
            _become(order, streams)
            if order["driver"]:
                connect_to(order["driver"])
            return {"module": order["module"], "arguments": order["arguments"]}
        for fd in streams:
            os.close(fd)
    return None


def _become(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    if order["start_new_session"]:
        os.setsid()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    for fd in streams:
        os.close(fd)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through="PYTHONUNBUFFERED" in os.environ)
    tempfile.tempdir = None  # it is for TMPDIR to say
    sys.path[0] = order["cwd"]
    sys.path.append(str(ROOT))
    of_workers: list[str] = vars(sys.modules["xdist.plugin"])["_sys_path"]
    of_workers[:] = sys.path  # it is kept from the moment in which xdist is imported


def _build_models() -> None:
    """Those of the package, which are otherwise built when they are first used."""
    models = [BaseModel]
    for model in models:
        models += model.__subclasses__()
        if model.__module__.startswith("harness.") and not model.__pydantic_complete__:
            model.model_rebuild()


def _read_metadata_once() -> None:
    """What pytest reads of the packages at each start: what they offer, and the files of those that have plugins."""
    offered, files = {}, {}
    for each in metadata.distributions():
        path = vars(each)["_path"]
        offered[path] = type(each.entry_points)(one for one in each.entry_points if one.name not in UNUSED)
        if offered[path].select(group="pytest11"):
            files[path] = each.files
    metadata.Distribution.entry_points = _known(offered, metadata.Distribution.entry_points)
    metadata.Distribution.files = _known(files, metadata.Distribution.files)


def _known(values: Mapping[Path, object], read: property) -> property:
    """The same property of distributions, for those in these folders already read."""

    def value(distribution: metadata.Distribution) -> object:
        path = vars(distribution)["_path"]
        return values[path] if path in values else read.__get__(distribution)

    return property(value)


class _End:
    """The end of a fork without the last work of Python, which frees one object after the other.

    It would touch, and so copy, all of the memory that was shared until then: more work than most commands do.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code; None leaves everything to Python."""
        atexit.register(self)

    def __call__(self) -> None:
        if self.code is not None:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(ValueError, OSError):  # a program may have closed it, and whoever reads it too
                    stream.flush()
            os._exit(self.code)


def main() -> None:
    end = _End()  # registered first: it is called last
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)
    for name in MODULES:
        importlib.import_module(name)
    tuple(Imported().values())  # each command is imported as it is looked up
    _build_models()
    _read_metadata_once()
    for name, module in list(sys.modules.items()):
        if name.startswith(REWRITTEN):
            module.__doc__ = f"{module.__doc__ or ''} PYTEST_DONT_REWRITE"
    gc.collect()
    gc.freeze()  # pytest collects garbage as it ends: not what is shared by all
    if found := serve(connection):
        sys.argv = [str(found["module"]), *found["arguments"]]
        if found["module"] == "pytest" and fork_workers(number_of_workers(sys.argv)):
            end.code = 0
            return
        try:
            runpy.run_module(str(found["module"]), run_name="__main__", alter_sys=True)
            end.code = 0
        except SystemExit as ended:
            end.code = ended.code if isinstance(ended.code, int) else None if ended.code else 0
            raise


if __name__ == "__main__":
    main()
