"""The shared ground of all contestants: the demo sites, the browser, and folders with the same work in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workload import PICTURE, Job, python_text, slug, yaml_text
from harness.browser.domains import resolver_rules
from harness.browser.executable import BASE, find
from harness.model.browser_settings import BrowserSettings

ROOT = Path(__file__).parents[1]
PYPROJECT = """
[tool.harness.services.demo]
hosts = {{ {hosts} }}
health = "http://world.local/health"
identity = {{ service = "taskspec-demo" }}
ready_timeout = 20
"""
CHANNEL = """
[tool.harness.channels.env]
url = "http://world.local/env"
clock = "world.now"
"""
CONFTEST = """\
import pytest


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    return {{**browser_type_launch_args, "executable_path": {executable!r}, "args": {args!r}}}


@pytest.fixture
def browser_context_args(browser_context_args, request):
    return {{**browser_context_args, "user_agent": {agent!r} + " harness-world/" + request.node.name.split("[")[0]}}
"""


@dataclass(frozen=True, slots=True)
class Ground:
    """Running sites, and the browser that all contestants use."""

    hosts: dict[str, int]
    executable: Path
    agent: str
    """The User-Agent of the browser."""
    version: str
    temp: Path

    @property
    def args(self) -> list[str]:
        return [*BASE, f"--host-resolver-rules={resolver_rules(self.hosts, {})}"]

    def folder(self, name: str) -> Path:
        """Make an empty folder."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.temp))


def ending_in_order() -> None:
    """Unwind on SIGTERM, as on Ctrl-C, so that sites and runs end too."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


@contextlib.contextmanager
def ground(temp: Path | None = None) -> Iterator[Ground]:
    """Start the sites, and find the browser; a temporary folder is removed at the end unless one is given."""
    with contextlib.ExitStack() as stack:
        folder = temp or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True))
        )
        hosts = stack.enter_context(sites())
        executable, version, agent = asyncio.run(_browser())
        yield Ground(hosts, executable, agent, version, folder)


@contextlib.contextmanager
def sites() -> Iterator[dict[str, int]]:
    """Host -> port of the demo sites and of the page with fields, running in processes of their own."""
    with _site("harness.demo", "--port", "0") as demo, _site("benchmarks.form_site") as form:
        yield {**demo, **form}


@contextlib.contextmanager
def _site(*command: str) -> Iterator[dict[str, int]]:
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["hosts"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


async def _browser() -> tuple[Path, str, str]:
    """The executable that the harness would use, its version and User-Agent."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        executable = find(BrowserSettings(), Path(playwright.chromium.executable_path), os.environ)
        browser = await playwright.chromium.launch(executable_path=executable)
        page = await browser.new_page()
        agent = await page.evaluate("navigator.userAgent")
        version = browser.version
        await browser.close()
        return executable, version, agent


def table_of_hosts(hosts: dict[str, int], channel: bool = False) -> str:
    """The pyproject.toml of a project on running sites; without `channel` a task requests only its pages."""
    names = ", ".join(f'"{host}" = {port}' for host, port in hosts.items())
    return PYPROJECT.format(hosts=names) + (CHANNEL if channel else "")


def our_project(ground: Ground, work: Sequence[Job], each: int = 1000) -> Path:
    """A project with the work as task files, at most `each` in a folder."""
    folder = ground.folder("ours")
    (folder / "pyproject.toml").write_text(table_of_hosts(ground.hosts), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    _write(folder / "tasks", work, each, lambda job: (f"{job.name}.task.yaml", yaml_text(job)))
    if any(act.kind == "upload" for job in work for act in job.acts):
        shutil.copy(PICTURE, folder / "tasks")
    return folder


def their_project(ground: Ground, work: Sequence[Job], each: int = 1000) -> Path:
    """A project with the work as tests of pytest-playwright."""
    folder = ground.folder("theirs")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    conftest = CONFTEST.format(executable=str(ground.executable), args=ground.args, agent=ground.agent)
    (folder / "conftest.py").write_text(conftest, "utf-8")
    _write(folder / "tests", work, each, lambda job: (f"test_{slug(job)}.py", python_text(job)))
    return folder


def _write(folder: Path, work: Sequence[Job], each: int, form: Callable[[Job], tuple[str, str]]) -> None:
    for number, job in enumerate(work):
        name, text = form(job)
        place = folder if len(work) <= each else folder / f"part{number // each:03}"
        place.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text, "utf-8")
