"""A Ray cluster of several nodes on this machine, and projects that run on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from xml.etree.ElementTree import parse

import psutil

SITE = Path(__file__).with_name("order_site.py")
PYPROJECT = """
[tool.harness]
isolation = "none"
parallel = true

[tool.harness.services.shop]
hosts = {{ "shop.test" = {port} }}
health = "http://shop.test/"
"""
INI = "[pytest]\naddopts = -p no:hypothesispytest -p no:pytest_httpserver -p no:anyio -p no:faker -p no:cacheprovider\n"


class OrderSite:
    """A site that counts orders."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, str(SITE), "0"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def orders(self) -> Counter[str]:
        with urlopen(f"http://127.0.0.1:{self.port}/orders", timeout=10) as answer:
            return Counter(json.load(answer))

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)


class ClusterProject:
    """A folder with tasks for a site that counts orders."""

    def __init__(self, path: Path, site: OrderSite) -> None:
        self.path, self.site = path, site
        path.mkdir(parents=True, exist_ok=True)
        (path / "pyproject.toml").write_text(PYPROJECT.format(port=site.port), "utf-8")
        (path / "pytest.ini").write_text(INI, "utf-8")

    def task(self, task_id: str, slow: float = 0.0, *, writes: bool = True, hold: float = 0.0, **spec: Any) -> None:
        """A task that opens a page, which takes a while, and orders something there if it writes."""
        steps: list[dict[str, Any]] = [
            {"act": "open", "url": f"http://shop.test/?order={task_id}&slow={slow}&hold={hold}"},
            {"act": "wait", "selector": "#buy"},
        ]
        if writes:
            steps += [{"act": "click", "selector": "#buy", "effect": "write"}, {"act": "wait", "selector": "#done"}]
        document = {"task_id": task_id, "goal": "g", "timeout": 120, "step_timeout": 90, "steps": steps, **spec}
        (self.path / f"{task_id}.task.json").write_text(json.dumps(document, indent=1), "utf-8")

    def start(self, *arguments: str, plugin: str = "") -> subprocess.Popen[str]:
        """pytest as a process; `plugin`: the text of a plugin that the driver loads."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
        if plugin:
            folder = self.path.parent / f"{self.path.name}-plugins"
            folder.mkdir(exist_ok=True)
            (folder / "drivers_plugin.py").write_text(plugin, "utf-8")
            environment["PYTHONPATH"] = f"{folder}{os.pathsep}{environment['PYTHONPATH']}"
            environment["PYTEST_PLUGINS"] = "drivers_plugin"
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, timeout: float = 180, plugin: str = "") -> tuple[int, str]:
        """Exit status and output."""
        process = self.start(*arguments, plugin=plugin)
        try:
            out, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise AssertionError(f"it did not end:\n{out}") from None
        return process.returncode, out

    def report(self, task_id: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.path / "errors" / task_id / "error_report.json").read_text("utf-8"))
        return document

    def results(self, junit: str = "junit.xml") -> dict[str, list[str]]:
        """Test case -> its results in junit.xml: `passed`, or the message of its failure."""
        found: dict[str, list[str]] = {}
        for case in parse(self.path / junit).iter("testcase"):
            bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
            text = " ".join(f"{child.get('message')} {child.text}" for child in bad)
            found.setdefault(str(case.get("name")), []).append(text or "passed")
        return found


@contextmanager
def ray_cluster(nodes: int = 2, cpus: int = 1) -> Iterator[Any]:
    """A head without processors of its own, and nodes with so many. `address` is the head's."""
    from ray.cluster_utils import Cluster
    from ray.exceptions import RpcError

    def begun() -> Any:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        try:
            for _ in range(nodes):
                cluster.add_node(num_cpus=cpus)
        except BaseException:
            cluster.shutdown()
            raise
        return cluster

    try:
        cluster = begun()
    except RpcError:  # Ray gives up after a few seconds on a machine that is busy
        cluster = begun()
    try:
        yield cluster
    finally:
        cluster.shutdown()


def children(project: Path, of: int | None = None) -> list[psutil.Process]:
    """The pytest processes of a project's slots: all of this machine, or those below a process."""
    found = psutil.process_iter() if of is None else psutil.Process(of).children(recursive=True)
    return [each for each in found if _is_child(each, project)]


def _is_child(process: psutil.Process, project: Path) -> bool:
    try:
        command, folder = process.cmdline(), process.cwd()
    except psutil.Error:
        return False
    own = "harness.pytest_plugin.cluster_child" in command and "watchdog.py" not in " ".join(command)
    return own and Path(folder) == project.resolve()


def until(condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come true in time")
