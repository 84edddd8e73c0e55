"""A project of a stranger whose tools are those of the counting server, and what the server has counted."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.acceptance.conftest import INI, Project
from tests.acceptance.tools.counting_server import Books

SERVER = Path(__file__).with_name("counting_server.py")
COMMAND = (sys.executable, "-I", "-S", str(SERVER))
"""Without site-packages it starts in 30 ms."""


def stranger(folder: Path, settings: str) -> Project:
    """A project that knows no demo sites and no worlds."""
    project = Project(cast("pytest.Pytester", SimpleNamespace(path=folder)), {"shop.local": 1})
    (folder / "pyproject.toml").write_text(f"[tool.harness]\n{settings}", "utf-8")
    (folder / "pytest.ini").write_text(INI, "utf-8")
    return project


def books_of(folder: Path) -> Books:
    return Books(folder / "books.sqlite3")


def stdio_command(folder: Path, era: str = "new", *habits: str) -> Sequence[str]:
    """The command of a server over standard input and output."""
    return (*COMMAND, str(folder / "books.sqlite3"), "stdio", era, *habits)


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server over HTTP: its address and its process."""
    command = [*COMMAND, str(folder / "books.sqlite3"), "http", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", process
        finally:
            process.kill()


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
