"""Processes that begin where the imports end: forked from one that has made them, a second of work saved for each.

What runs in them is real: a process of its own with its own arguments, folder, environment and output, which loads
its plugins by their entry points, and ends as any Python does: threads are awaited, and what is registered with
`atexit` runs. Only the importing was done before, the driver of Playwright may be shared (shared_driver.py), and at its
very end the memory is left to the system. Tests of signals start their processes themselves.
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
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO

from pydantic import BaseModel

from harness.cli.commands import Imported
from tests.acceptance.shared_driver import SharedDriver, connect_to
from tests.acceptance.warm_workers import fork_workers

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


class Warm:
    """One such process, and those that are forked from it, one after the other."""

    own_driver = False
    """Whether each run starts a driver of Playwright for itself; tests of that are marked `own_driver`."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.acceptance.warm", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=ROOT
        )
        theirs.close()
        self._socket = ours
        self._driver = SharedDriver()

    def start(
        self,
        module: str,
        arguments: Sequence[str],
        stdout: IO[str],
        stderr: IO[str],
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Forked:
        """`python -m module arguments`, in the current folder unless told, with the current environment and more."""
        order = {
            "module": module,
            "arguments": list(arguments),
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, **(environment or {})},
            "driver": None if self.own_driver else self._driver.address(),
        }
        socket.send_fds(self._socket, [json.dumps(order).encode() + b"\n"], [stdout.fileno(), stderr.fileno()])
        return Forked(int(_line(self._socket)), self._socket)

    def run(
        self, module: str, *arguments: str, cwd: Path, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`python -m module arguments` in a folder, to its end. Raises subprocess.TimeoutExpired, having killed it."""
        with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
            forked = self.start(module, arguments, stdout, stderr, cwd=cwd, environment=environment)
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
        self._driver.close()


@functools.cache
def warm() -> Warm:
    """The one of this process."""
    warm = Warm()
    atexit.register(warm.close)
    return warm


def harness(*args: str, cwd: Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command `harness`, to its end."""
    return warm().run("tests.acceptance.command", *args, cwd=cwd, timeout=timeout, **environment)


class Forked:
    """As much of a `subprocess.Popen` as `pytester.run` asks for."""

    stdin = None

    def __init__(self, pid: int, told: socket.socket) -> None:
        self.pid = pid
        self._told = told

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        self._told.settimeout(timeout)
        try:
            return int(_line(self._told))
        except TimeoutError:
            assert timeout is not None
            raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
        finally:
            self._told.settimeout(None)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def _line(connection: socket.socket) -> str:
    line = b""
    while not line.endswith(b"\n"):
        if not (byte := connection.recv(1)):
            raise EOFError("the warm process has ended")
        line += byte
    return line.decode()


def serve(connection: socket.socket) -> Mapping[str, str | list[str]] | None:
    """Fork for each order, and answer with pid and exit code. In the fork: what it is to run."""
    while True:
        message, fds, _, _ = socket.recv_fds(connection, 1 << 20, 2)
        if not message:
            return None
        while not message.endswith(b"\n"):
            message += connection.recv(1 << 20)
        order = json.loads(message)
        pid = os.fork()
        if not pid:
            connection.close()
            _become(order["cwd"], order["environment"], fds)
            if order["driver"]:
                connect_to(order["driver"])
            return {"module": order["module"], "arguments": order["arguments"]}
        for fd in fds:
            os.close(fd)
        with contextlib.suppress(OSError):
            connection.sendall(f"{pid}\n".encode())
            connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def _become(cwd: str, environment: Mapping[str, str], fds: Sequence[int]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, number in zip([nothing, *fds], range(3), strict=True):
        os.dup2(fd, number)
        os.close(fd)
    sys.path[0] = cwd
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
            sys.stdout.flush()
            sys.stderr.flush()
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
        if found["module"] == "pytest" and fork_workers(sys.argv):
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
