"""What a run on a cluster refuses, and what of a task's files travels."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cluster.place import ClusterPlace
from harness.model.settings import Settings
from harness.pytest_plugin.cluster import REFUSED, refuse_options
from harness.pytest_plugin.cluster_child import ChildSession
from harness.pytest_plugin.cluster_line import DriverLink
from harness.pytest_plugin.state import STATE, SessionState
from harness.recovery.failure import Failed, Failure
from harness.runner.slot_store import StoredFolder

SERVICE = {"hosts": {"shop.test": "auto"}, "health": "http://shop.test/"}


def refused(tmp_path: Path, place: str = "local:2", settings: dict[str, Any] | None = None, **given: object) -> str:
    options = {"task_cluster": ClusterPlace.parse(place), **given}
    config: Any = SimpleNamespace(getoption=lambda name, default=None: options.get(name, default))
    state = SessionState(Settings.model_validate({"root": tmp_path, "isolation": "world", **(settings or {})}))
    try:
        refuse_options(config, state)
    except pytest.UsageError as error:
        return str(error)
    return ""


def test_a_usual_run_is_not_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, numprocesses=None, dist="no", usepdb=False, task_models="live") == ""


@pytest.mark.parametrize("option", REFUSED, ids=lambda option: option.dest)
def test_an_option_that_cannot_act_is_named_with_the_reason(tmp_path: Path, option: Any) -> None:
    given = {option.dest: "record" if option.dest == "task_models" else 3 if option.dest == "numprocesses" else "x"}
    assert refused(tmp_path, **given) == f"--task-cluster: {option.name} cannot be used: {option.why}"
    for fine in option.fine:
        assert refused(tmp_path, **{option.dest: fine}) == ""


def test_all_reasons_are_told_at_once(tmp_path: Path) -> None:
    assert len(refused(tmp_path, usepdb=True, task_update_baselines=True).splitlines()) == 2


def test_a_store_goes_on_by_itself(tmp_path: Path) -> None:
    assert refused(tmp_path, task_store="s3://bucket/run") == ""
    said = refused(tmp_path, task_store="s3://bucket/run", task_resume="20261125T111924-8935")
    assert "--task-resume cannot be used with --task-store" in said


class Gate:
    """Something that is asked before a write: the driver, or the store."""

    def __init__(self, name: str, asked: list[str], *, allows: bool) -> None:
        self.name, self.asked, self.allows = name, asked, allows

    async def before_write(self, _: Any) -> None:
        self.asked.append(self.name)
        if not self.allows:
            raise Failed(Failure("WORKER_CUT_OFF", self.name))


@pytest.mark.parametrize(
    ("driver", "store", "asked"),
    [
        (True, True, ["driver", "store"]),
        (True, False, ["driver", "store"]),
        (False, True, ["driver"]),  # the store would keep for ever that the task has written
    ],
)
def test_a_write_needs_the_driver_and_then_the_store(driver: bool, store: bool, asked: list[str]) -> None:
    found: list[str] = []
    link = DriverLink(cast("Any", None), cast("Any", Gate("driver", found, allows=driver)))
    waits: list[Any] = []
    harness: Any = SimpleNamespace(record_writes=waits.append)
    link.attach(harness, cast("Any", Gate("store", found, allows=store)))
    with nullcontext() if driver and store else pytest.raises(Failed):
        asyncio.run(waits[0](None))
    assert found == asked


def test_evidence_of_passed_tasks_would_stay_elsewhere(tmp_path: Path) -> None:
    assert 'evidence = "all" cannot be used' in refused(tmp_path, settings={"evidence": "all"})


@pytest.mark.parametrize(
    ("settings", "place", "shared"),
    [
        ({"isolation": "reset", "reset": ["true"]}, "head:6379", "the site"),
        (
            {"isolation": "reset", "reset": ["true"], "services": {"shop": {**SERVICE, "hosts": {"shop.test": 8123}}}},
            "auto",
            "service `shop`",
        ),
        ({"isolation": "none"}, "auto", "the site"),
        ({"isolation": "none", "parallel": True}, "auto", ""),
        ({"isolation": "none"}, "local:2", ""),
        ({"isolation": "none", "services": {"shop": SERVICE | {"command": ["x", "{port}"]}}}, "auto", ""),
    ],
)
def test_machines_must_not_share_a_state_that_tasks_need_for_themselves(
    tmp_path: Path, settings: dict[str, Any], place: str, shared: str
) -> None:
    said = refused(tmp_path, place, settings)
    assert (f"the machines of the cluster share {shared}" in said) if shared else said == ""


def test_a_fixed_port_serves_one_slot_of_a_machine(tmp_path: Path) -> None:
    fixed = {"services": {"shop": {**SERVICE, "hosts": {"shop.test": 8123}, "command": ["x"]}}}
    assert "shop: shop.test = 8123" in refused(tmp_path, "local:2", fixed)
    assert refused(tmp_path, "local:1", fixed) == ""


class Interrupted:
    """A store that is asked when Ctrl-C comes."""

    def put(self, folder: Path, number: int) -> StoredFolder:
        assert (folder.name, number) == ("K", 0)
        raise KeyboardInterrupt


class Hangs:
    """A store that did not answer."""

    def put(self, folder: Path, number: int) -> StoredFolder:
        return StoredFolder(trouble="it hangs")


def child_with_a_failed_task(folder: Path, store: object) -> tuple[ChildSession, list[Any], Any]:
    """A child, what it has sent, and the protocol of an item that is to end now."""
    (folder / "errors" / "K").mkdir(parents=True)
    (folder / "errors" / "K" / "error_report.json").write_text("{}")
    sent: list[Any] = []
    child = ChildSession(cast("Any", SimpleNamespace(send=sent.append)), folder, "slot1", "run", "")
    told = {"taskspec": {"key": "K", "artifacts": str(folder / "errors" / "K")}}
    hook = SimpleNamespace(pytest_report_to_serializable=lambda **_: dict(told))
    state = SimpleNamespace(stored=SimpleNamespace(slot=store))
    child.pytest_configure(cast("Any", SimpleNamespace(stash={STATE: state}, hook=hook)))
    child.pytest_runtest_logstart("t::K")
    child.pytest_runtest_logreport(cast("Any", SimpleNamespace(nodeid="t::K")))
    item: Any = SimpleNamespace(nodeid="t::K", location=("t", 0, "K"))
    protocol = child.pytest_runtest_protocol(item)
    next(protocol)
    return child, sent, protocol


def test_an_item_keeps_its_result_though_ctrl_c_ends_the_wait_for_the_store(tmp_path: Path) -> None:
    child, sent, protocol = child_with_a_failed_task(tmp_path / "child", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        protocol.send(None)
    done = sent[-1]
    assert (done.node, done.stored, len(done.reports)) == ("t::K", "", 1)
    child.pytest_unconfigure()
    assert [each.name for each in tmp_path.iterdir()] == ["child-1.tar"]
    assert Path(done.files).is_file()  # its slot may not have read it yet


def test_the_trouble_of_the_store_is_told_with_the_result(tmp_path: Path) -> None:
    _, sent, protocol = child_with_a_failed_task(tmp_path / "child", Hangs())
    with pytest.raises(StopIteration):
        protocol.send(None)
    assert (sent[-1].stored, sent[-1].lost) == ("", "it hangs")
