"""What a cluster costs, and how evenly its slots end. `make bench ARGS=scale` measures the same with larger suites."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clusters import ClusterProject, OrderSite, ray_cluster

pytestmark = pytest.mark.thorough
NOTHING = 10_000
WITNESS = """
import json, resource, time
import psutil, pytest

BORN = psutil.Process().create_time()
reports, first = [], []


def processor():
    # Of this process, of those below it, and of those that these have waited for.
    here = psutil.Process()
    return sum(sum(each.cpu_times()[:4]) for each in (here, *here.children(recursive=True)))


def pytest_runtest_logreport(report):
    first.append(time.time() - BORN) if not first else None
    reports.append((report.start, report.stop, report.duration, report.nodeid))


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config):
    if hasattr(config, "workerinput") or not reports:
        return
    seconds = {}
    for _, _, duration, node in reports:
        seconds[node] = seconds.get(node, 0.0) + duration
    document = {
        "span": max(stop for _, stop, _, _ in reports) - min(start for start, _, _, _ in reports),
        "ideal": max(*seconds.values(), sum(seconds.values()) / 2),
        "processor": processor(),
        "first": first[0],
        "whole": time.time() - BORN,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    with open(config.rootpath / "witness.json", "w") as file:
        json.dump(document, file)
"""
"""A plugin of the driver. The ideal: two slots are busy until the end, or with the longest task."""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ClusterProject]:
    site = OrderSite()
    yield ClusterProject(tmp_path / "project", site)
    site.close()


def witnessed(project: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((project / "witness.json").read_text("utf-8"))
    print(document)
    return document


def test_an_uneven_suite_ends_at_nearly_the_same_time_on_all_slots(project: ClusterProject) -> None:
    """One long task and many short ones that wait: durations are known from a run before."""
    project.task("LONG", 24, writes=False)
    for number in range(48):
        project.task(f"T{number:02}", 0.35, writes=False)
    with ray_cluster(nodes=2) as cluster:
        for _ in range(2):
            code, out = project.run("--task-cluster", cluster.address, plugin=WITNESS)
            assert (code, "49 passed" in out) == (pytest.ExitCode.OK, True), out
    took = witnessed(project.path)
    assert took["span"] < 1.1 * took["ideal"]


def test_ten_thousand_tests_that_do_nothing_cost_little(project: ClusterProject) -> None:
    text = f"import pytest\n\n@pytest.mark.parametrize('n', range({NOTHING}))\ndef test_nothing(n):\n    pass\n"
    (project.path / "test_nothing.py").write_text(text, "utf-8")
    found = []
    for on in ((), ("--task-cluster", "local:2")):
        code, out = project.run("-q", *on, timeout=600, plugin=WITNESS)
        assert (code, re.search(rf"^{NOTHING} passed", out, re.MULTILINE) is not None) == (0, True), out[-2000:]
        found.append(witnessed(project.path))
    alone, together = found
    more = {clock: 1000 * (together[clock] - alone[clock]) / NOTHING for clock in ("whole", "processor")}
    assert min(more.values()) < 5.0, more  # a busy machine adds to the one more than to the other
    assert together["peak"] < 300
    assert together["first"] < 60  # 8 on a quiet machine
