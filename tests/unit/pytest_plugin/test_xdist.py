"""Which node ids stay on one worker."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from xdist import newhooks

from harness.pytest_plugin import selection, xdist
from harness.pytest_plugin.gc import RARE
from harness.pytest_plugin.xdist import XdistHooks, group_names, tasks_in
from tests.unit.spec.files import task, write

CASES = {"goal": "${param.x}", "parametrize": {"x": ["a", "b"]}}


def put(folder: Path, name: str, **fields: Any) -> None:
    write(folder, task(task_id=name, **fields), f"{name}.task.json")


def ids(*names: str) -> list[str]:
    return [f"{name.partition('[')[0]}.task.json::{name}" for name in names]


def test_cases_are_dealt_one_by_one(tmp_path: Path) -> None:
    put(tmp_path, "T", **CASES)
    found = group_names(tmp_path, ids("T[a]", "T[b]"))
    assert len(set(found.values())) == 2


def test_cases_stay_together_where_files_do(tmp_path: Path) -> None:
    put(tmp_path, "T", **CASES)
    put(tmp_path, "U")
    found = group_names(tmp_path, ids("T[a]", "T[b]", "U"), by_file=True)
    assert found[ids("T[a]")[0]] == found[ids("T[b]")[0]] != found[ids("U")[0]]


def test_cases_of_an_episode_and_those_depended_on_stay_together(tmp_path: Path) -> None:
    put(tmp_path, "T", **CASES)
    put(tmp_path, "E", **CASES, episode_id="e")
    put(tmp_path, "A", dependencies=["T"])
    put(tmp_path, "B", dependencies=["T[b]"])
    put(tmp_path, "F", episode_id="e")
    everything = ids("T[a]", "T[b]", "E[a]", "E[b]", "A", "B", "F")
    found = group_names(tmp_path, everything)
    assert {found[name] for name in ids("T[a]", "T[b]", "A", "B")} == {found[ids("A")[0]]}
    assert {found[name] for name in ids("E[a]", "E[b]", "F")} == {found[ids("F")[0]]}
    assert len(set(found.values())) == 2


def test_a_directory_named_as_a_dependency_ties_too(tmp_path: Path) -> None:
    write(tmp_path / "login", task(task_id="L-1"), "task_spec.json")
    put(tmp_path, "A", dependencies=["login"])
    found = group_names(tmp_path, ["login/task_spec.json::L-1", *ids("A")])
    assert len(set(found.values())) == 1


def test_only_tasks_that_are_there_have_a_group(tmp_path: Path) -> None:
    put(tmp_path, "T", **CASES)
    write(tmp_path, "steps: 3\n", "broken.task.yaml")
    asked = ["test_a.py::test_b", "broken.task.yaml::X", *ids("T[a]", "T[zz]")]
    assert list(group_names(tmp_path, asked)) == ids("T[a]")


def test_the_controller_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For its history, for fault plans and for the groups; and it looks for garbage rarely meanwhile."""
    put(tmp_path, "T", **CASES)
    put(tmp_path, "U")
    loads: list[tuple[str, bool]] = []
    real = selection.load_file

    def load(path: Path, **options: Any) -> Any:
        loads.append((path.name, gc.get_threshold()[0] == RARE))
        return real(path, **options)

    monkeypatch.setattr(selection, "load_file", load)
    config: Any = SimpleNamespace(rootpath=tmp_path, stash=pytest.Stash())
    usual, asked = gc.get_threshold(), ids("T[a]", "T[b]", "U")
    first, second = tasks_in(config, asked), tasks_in(config, asked)
    assert list(first) == list(second) == asked
    assert list(group_names(tmp_path, asked, read=config.stash[xdist.READ])) == asked
    assert loads == [("T.task.json", True), ("U.task.json", True)]
    assert gc.get_threshold() == usual


@pytest.mark.parametrize("answer", [True, None, ValueError()])
def test_what_a_dead_worker_leaves_goes_on_whatever_another_plugin_says(answer: Any) -> None:
    """The first one that answers is the last one that is asked (`firstresult`)."""
    done: list[str] = []

    class Other:
        @pytest.hookimpl
        def pytest_handlecrashitem(self) -> Any:
            done.append("other")
            if isinstance(answer, Exception):
                raise answer
            return answer

    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(newhooks)
    for plugin in (Other(), XdistHooks()):
        manager.register(plugin)
    with pytest.raises(ValueError) if isinstance(answer, Exception) else nullcontext():
        manager.hook.pytest_handlecrashitem(
            crashitem="a", report=None, sched=SimpleNamespace(go_on=lambda: done.append("on"))
        )
    assert done == ["other", "on"]


class LateWorkers:
    """A controller that was interrupted. Ending its workers takes a moment, in which they report."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self.heard: list[str] = []

    def pytest_sessionfinish(self) -> None:
        for name in ("setup of T-1", "T-1"):
            self.queue.put(("testreport", {"node": "gw0", "rep": name}))
        self.queue.put(("workerfinished", {"node": "gw0"}))

    def worker_testreport(self, node: str, rep: str) -> None:
        self.heard.append(f"{node}: {rep}")


def test_an_interrupted_controller_hears_what_its_workers_have_ended() -> None:
    manager, workers = pytest.PytestPluginManager(), LateWorkers()
    manager.register(XdistHooks())
    manager.register(workers, "dsession")
    session = SimpleNamespace(config=SimpleNamespace(pluginmanager=manager))
    manager.hook.pytest_sessionfinish(session=session, exitstatus=2)
    assert workers.heard == ["gw0: setup of T-1", "gw0: T-1"]
