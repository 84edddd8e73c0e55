"""Slots, nodes and lines that die at random moments: every task has one result, and no order is placed twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.clusters import ClusterProject, OrderSite, children, ray_cluster, until

pytestmark = pytest.mark.thorough
TASKS = 10
CUTS = """
import os
import time

from harness.cluster.ray_slots import RaySlots

AT, SECONDS, SLOT = {at}, {seconds}, "slot1"
BEGUN = time.monotonic()
waited, told = RaySlots.wait, RaySlots.tell
held = []


def cut():
    return AT <= time.monotonic() - BEGUN < AT + SECONDS


def wait(self, seconds):
    found = waited(self, seconds)
    if cut():
        held.extend(each for each in found if each.slot == SLOT)
        return [each for each in found if each.slot != SLOT]
    found = held + found
    held.clear()
    return found


def tell(self, slot, message):
    if not (slot == SLOT and cut()):
        told(self, slot, message)


RaySlots.wait, RaySlots.tell = wait, tell
"""
"""A plugin of the driver that cuts the line to the first slot for a while."""


@pytest.fixture
def site() -> Iterator[OrderSite]:
    found = OrderSite()
    yield found
    found.close()


def slots_of(node: Any) -> list[psutil.Process]:
    """All processes of a node: its raylet, its actors, and what these have started."""
    found = []
    for info in node.all_processes.values():
        for each in info:
            with suppress(psutil.Error):
                raylet = psutil.Process(each.process.pid)
                found += [raylet, *raylet.children(recursive=True)]
    return found


def strike(kind: str, cluster: Any, chance: random.Random, project: Path) -> None:
    """Let something die."""
    node = chance.choice([each for each in cluster.worker_nodes if each.any_processes_alive()])
    raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
    below = children(project, raylet.pid)
    if kind == "child" and below:
        chance.choice(below).kill()
    elif kind == "raylet":
        raylet.kill()
    elif kind == "node":
        for each in slots_of(node):
            with suppress(psutil.Error):
                each.kill()
    elif kind.startswith("freeze"):
        frozen = slots_of(node)
        for each in frozen:
            with suppress(psutil.Error):
                each.send_signal(signal.SIGSTOP)
        threading.Timer(float(kind.removeprefix("freeze-")), thaw, (frozen,)).start()


def thaw(processes: list[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.Error):
            each.send_signal(signal.SIGCONT)


KINDS = ("child", "raylet", "node", "freeze-12", "freeze-45", "cut-20", "cut-40")


@pytest.mark.parametrize("seed", range(30))
def test_every_task_has_one_result_and_at_most_one_order(seed: int, tmp_path: Path, site: OrderSite) -> None:
    chance = random.Random(seed)
    kind, moment = KINDS[seed % len(KINDS)], chance.uniform(0.0, 8.0)
    project = ClusterProject(tmp_path / "project", site)
    for number in range(TASKS):
        project.task(f"T{number}", round(chance.uniform(0.2, 2.0), 1), hold=round(chance.uniform(0, 1.5), 1))
    cut = kind.partition("-")[2] if kind.startswith("cut") else ""
    plugin = CUTS.format(at=6.0 + moment, seconds=float(cut)) if cut else ""
    with ray_cluster() as cluster:
        process = project.start("--task-cluster", cluster.address, "--junitxml", "junit.xml", "-v", plugin=plugin)
        if not cut:
            until(lambda: project.site.orders or process.poll() is not None, 60)
            time.sleep(moment)
            strike(kind, cluster, chance, project.path)
        try:
            out, _ = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{kind} at {moment:.1f}: the run did not end\n{process.communicate()[0]}") from None
    results = project.results()
    told = f"{kind} at {moment:.1f}\n{out}"
    assert sorted(results) == sorted(f"T{number}" for number in range(TASKS)), told
    assert all(len(each) == 1 for each in results.values()), told
    assert all(count == 1 for count in site.orders.values()), (site.orders, told)
    for name, (result,) in results.items():
        assert result == "passed" or "WORKER_CRASHED" in result or "has no result" in result, (name, told)
        assert site.orders[name] == 1 or "passed" not in result, (name, told)
    print(f"{kind} at {moment:.1f}: {sum(result == ['passed'] for result in results.values())} of {TASKS} passed")


BREAKS = """
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

PLACE = Path({place!r})


def ports():
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if "_RaySlot" in " ".join(process.cmdline()):
                yield from (each.laddr.port for each in process.net_connections() if each.status == "LISTEN")


def breaks():
    broken = 0
    while True:
        time.sleep(2.0)
        there = set(ports())
        for each in psutil.Process().net_connections():
            if each.raddr and each.raddr.port in there:
                with suppress(OSError), socket.socket(fileno=os.dup(each.fd)) as line:
                    line.shutdown(socket.SHUT_RDWR)
                    broken += 1
        if broken:
            PLACE.write_text(str(broken))


threading.Thread(target=breaks, daemon=True).start()
"""
"""A plugin of the driver that breaks its connections to all slots every two seconds, and counts them."""


def test_a_connection_that_breaks_costs_no_slot_and_no_task(tmp_path: Path, site: OrderSite) -> None:
    project, counted = ClusterProject(tmp_path / "project", site), tmp_path / "broken"
    for number in range(TASKS):
        project.task(f"T{number}", 1.0, hold=1.0)
    plugin = BREAKS.format(place=str(counted))
    code, out = project.run("--task-cluster", "local:2", "--junitxml", "junit.xml", "-v", plugin=plugin)
    assert (code, f"{TASKS} passed" in out) == (pytest.ExitCode.OK, True), out
    assert "run again" not in out
    assert "was lost" not in out
    assert site.orders == {f"T{number}": 1 for number in range(TASKS)}
    assert int(counted.read_text()) >= 4
    print(f"{counted.read_text()} connections were broken")


@pytest.mark.parametrize("frozen", ["child", "all below the slot", "the slot too"])
def test_nothing_of_a_frozen_slot_outlives_its_driver(frozen: str, tmp_path: Path, site: OrderSite) -> None:
    project = ClusterProject(tmp_path / "project", site)
    project.task("LONG", 60)
    with ray_cluster(nodes=1) as cluster:
        process = project.start("--task-cluster", cluster.address)
        until(lambda: any("chrom" in each.name() for child in children(project.path) for each in child.children(True)))
        (child,) = children(project.path)
        slot = child.parents()[1]
        below = slot.children(recursive=True)
        time.sleep(1.0)  # its reaper has been told of the browser
        for each in {"child": [child], "all below the slot": below, "the slot too": [slot, *below]}[frozen]:
            each.send_signal(signal.SIGSTOP)
        process.kill()
        _, left = psutil.wait_procs([slot, *below], timeout=30)
        thaw(left)
        process.communicate(timeout=30)
    assert not left
