"""How items are dealt to workers of xdist with look-ahead, and what becomes of them when one dies: fake workers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.model.events import StepEnded, StepStarted, TaskEnded, TaskStarted, WriteSeen
from harness.model.ledger import UNKNOWN as UNKNOWN_EFFECT
from harness.model.ledger import ItemFacts
from harness.model.plan import Plan, ReadyRepair
from harness.model.record import Sent, StepRecord
from harness.model.settings import Settings
from harness.pytest_plugin.crashed_workers import (
    AGAIN,
    ALONE,
    ENDED,
    JOURNAL,
    NO_OTHER,
    UNKNOWN,
    WorkerJournal,
    read_journal,
    verdict,
)
from harness.pytest_plugin.run import plan_of
from harness.pytest_plugin.state import AFRESH, DONE, STATE, SessionState
from harness.pytest_plugin.xdist import READ, XdistHooks
from harness.recovery.failure import Passed
from harness.recovery.never_twice import WROTE
from tests.unit.reporting import sample
from tests.unit.spec.files import loaded, task

WRITE = {"act": "submit", "selector": "#order"}
LOOK = {"act": "click", "selector": "#more"}


@dataclass(eq=False)
class Node:
    """What the scheduler knows of a worker; it runs an item when it knows the one after, or that there is none."""

    gateway: Any
    workerinput: dict[str, Any]
    shutting_down: bool = False
    given: list[int] = field(default_factory=list)

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


class Session:
    """The controller: the real scheduler and hooks, and what xdist does with them."""

    def __init__(self, items: Iterable[str], nodes: int, workers: int | str, restarts: int | None = None) -> None:
        self.state = SessionState(Settings(task_workers=cast("Any", workers)))
        self.failed: dict[str, str] = {}
        self.lines: list[str] = []
        self.hooks, self.items, self.nodes = XdistHooks(), list(items), 0
        option = SimpleNamespace(loadscopereorder=False, maxworkerrestart=restarts, numprocesses=None)
        self.config: Any = SimpleNamespace(
            stash={STATE: self.state, READ: {}}, option=option, rootpath=Path(),
            getoption=lambda _name: "load", getvalue=lambda _name: ["popen"] * nodes,
            pluginmanager=SimpleNamespace(getplugin=lambda _name: self),
        )  # fmt: skip
        self.sched = self.hooks.pytest_xdist_make_scheduler(self.config, None)
        self.sched.names = {}
        self.workers = [self.add() for _ in range(nodes)]
        for node in self.workers:
            self.sched.add_node_collection(node, self.items)
        self.sched.schedule()

    def add(self) -> Node:
        name, self.nodes = f"gw{self.nodes}", self.nodes + 1
        node = Node(SimpleNamespace(id=name), {"workerid": name})
        node.config = self.config  # type: ignore[attr-defined]
        self.hooks.pytest_configure_node(node)
        self.sched.add_node(node)
        return node

    def handle_crashitem(self, item: str, _node: Node) -> None:
        assert item not in self.failed
        self.failed[item] = self.sched.why.get(item, "")
        self.sched.go_on()

    def report_line(self, line: str) -> None:
        self.lines.append(line)

    def dies(self, node: Node, journal: str | None = None) -> Node:
        """It died; the next one takes its place. `journal`: what it had written."""
        if journal is not None:
            Path(node.workerinput[JOURNAL]).write_text("".join(map(LINES.get, journal.split())), "utf-8")  # type: ignore[arg-type]
        self.hooks.pytest_testnodedown(node, "killed")
        if crashed := self.sched.remove_node(node):
            self.handle_crashitem(crashed, node)
        return self.add()

    def collects(self, node: Node) -> list[str]:
        self.sched.add_node_collection(node, self.items)
        self.sched.schedule()
        return [self.items[index] for index in node.given]

    def ends(self, node: Node) -> None:
        for index in list(node.given):
            self.sched.mark_test_complete(node, index)


LINES = {
    f"{name[:1]}{number}": f'["{name}", "T-{number}"]\n'
    for name in ("running", "over", "wrote")
    for number in range(30)
}


def tasks(count: int) -> list[str]:
    return [f"{number}.task.yaml::T-{number}" for number in range(count)]


T0, T1, T2, T3 = tasks(4)


@pytest.mark.parametrize("workers", [2, 4, 8, "auto"])
@pytest.mark.parametrize(("count", "nodes"), [(10, 2), (16, 4), (24, 8), (25, 8), (9, 8), (7, 2), (3, 2)])
@pytest.mark.sampled(6)
def test_a_small_suite_is_shared_out_evenly(count: int, nodes: int, workers: int | str) -> None:
    shares = [len(node.given) for node in Session(tasks(count), nodes, workers).workers]
    assert sum(shares) == count or min(shares) >= 4
    assert max(shares) - min(shares) <= 2


@given(count=st.integers(1, 90), nodes=st.integers(1, 9), workers=st.sampled_from([1, 2, 3, 5, "auto"]), draw=st.data())
def test_everything_is_given_out_once_whoever_is_quick(
    count: int, nodes: int, workers: int | str, draw: st.DataObject
) -> None:
    session = Session(tasks(count), nodes, workers)
    done = dict.fromkeys(session.workers, 0)
    while True:  # xdist: an item runs when the one after it is known, or that there is none
        ready = [node for node, over in done.items() if len(node.given) - over > (not node.shutting_down)]
        if not ready:
            break
        node = draw.draw(st.sampled_from(ready))
        done[node] += 1
        session.sched.mark_test_complete(node, node.given[done[node] - 1])
    assert session.sched.tests_finished
    for node in session.workers:  # `triggershutdown`
        done[node] = len(node.given)
    assert sorted(index for node in session.workers for index in node.given) == list(range(count))


RAN, ENDED_WELL = ItemFacts(begun=True), ItemFacts(ended=True)


def judged(pending: list[str], *, last: bool = False, **noted: ItemFacts) -> tuple[dict[str, str], tuple[str, ...]]:
    """The items that fail with their worker, and those that run again. `noted`: `T_2` and so on."""
    found = verdict(pending, {name.replace("_", "-"): facts for name, facts in noted.items()}, last=last)
    return dict(found.lost), found.again


def test_the_only_one_that_ran_has_killed_it_wherever_it_stands() -> None:
    assert judged([T0, T1, T2, T3], T_2=RAN, T_0=ENDED_WELL, T_1=ENDED_WELL) == ({T2: ""}, ())


def test_of_several_that_ran_none_is_condemned_but_those_that_wrote() -> None:
    wrote, over = ItemFacts(begun=True, wrote=True), ItemFacts(ended=True, wrote=True)
    beside = "the process ran at the same time T-0, T-2: any of them may have ended it"
    assert judged([T0, T1, T2, T3], T_0=RAN, T_1=wrote, T_2=RAN, T_3=over) == (
        {T1: f"{beside}; {WROTE}", T3: f"{WROTE}; {ENDED}"},
        (T0, T2),
    )


def test_what_is_in_its_turn_is_a_suspect_though_it_has_not_begun() -> None:
    assert judged([T0, T1, T2], T_1=RAN) == ({}, (T0, T1))
    lost, again = judged(["test_a.py::test_b", T1, T2], T_1=RAN)  # nobody knows what it does
    assert (list(lost), again) == (["test_a.py::test_b"], (T1,))
    assert lost["test_a.py::test_b"].endswith(UNKNOWN_EFFECT)


def test_where_no_worker_follows_all_are_condemned_who_may_have_done_it() -> None:
    lost, again = judged([T0, T1, T2], last=True, T_0=RAN, T_1=RAN)
    assert list(lost) == [T0, T1]
    assert all("the process ran at the same time T-" in why and NO_OTHER in why for why in lost.values())
    assert again == ()


def test_suspects_run_again_one_at_a_time_and_the_killer_alone_fails() -> None:
    session = Session(tasks(4), 1, 4)
    (first,) = session.workers
    second = session.dies(first, "r0 r1 r2 r3")
    assert session.failed == {}
    assert "these run again, one at a time: T-0, T-1, T-2, T-3" in "".join(session.lines)
    assert second.workerinput[ALONE]
    assert JOURNAL not in second.workerinput
    assert not session.sched.tests_finished  # else xdist would end here
    assert session.collects(second) == tasks(4)
    for index in second.given[:2]:
        session.sched.mark_test_complete(second, index)
    third = session.dies(second)
    assert session.failed == {T2: AGAIN}
    assert session.collects(third) == [T3]
    session.ends(third)
    assert session.sched.tests_finished


def test_suspects_are_not_given_to_workers_that_look_ahead() -> None:
    session = Session(tasks(40), 2, 2)
    first, other = session.workers
    given = [session.items[index] for index in first.given]
    running = " ".join(f"r{index}" for index in first.given[:2])
    third = session.dies(first, running)
    session.ends(other)
    assert not set(first.given[:2]) & set(other.given)
    assert session.collects(third)[:2] == given[:2]


def test_a_killer_that_is_known_costs_no_look_ahead() -> None:
    session = Session(tasks(6), 1, 4)
    second = session.dies(session.workers[0], "r0 r1 o0 r2 o1")
    assert session.failed == {T2: ""}
    assert ALONE not in second.workerinput
    assert session.collects(second) == [T0, T1, T3, *tasks(6)[4:]]


def test_all_that_fail_with_a_worker_are_said_before_others_get_its_work() -> None:
    session = Session(tasks(6), 2, 4)
    first, other = session.workers
    mine = first.given[:3]
    before = len(other.given)
    session.dies(first, " ".join(f"r{index} w{index}" for index in mine))
    assert list(session.failed) == [session.items[index] for index in mine]
    assert all(WROTE in why for why in session.failed.values())
    assert not set(mine) & set(other.given)
    assert (len(session.failed), len(other.given)) == (3, before)


def test_a_worker_of_which_nothing_is_known_fails_its_first_item_as_in_xdist() -> None:
    session = Session(tasks(3), 1, 4)
    second = session.dies(session.workers[0])
    assert session.failed == {T0: UNKNOWN}
    assert second.workerinput[ALONE]
    assert session.collects(second) == [T1, T2]


def test_suspects_that_no_worker_can_take_fail() -> None:
    session = Session(tasks(3), 1, 4, restarts=1)
    second = session.dies(session.workers[0], "r0 r1")
    session.dies(second)  # while it collected
    assert set(session.failed) == {T0, T1}
    assert all(NO_OTHER in why for why in session.failed.values())


def test_without_look_ahead_it_is_the_one_whose_turn_it_was() -> None:
    session = Session(tasks(3), 1, 1)
    second = session.dies(session.workers[0])
    assert session.failed == {T0: ""}
    assert not second.workerinput.keys() & {ALONE, JOURNAL}
    assert session.collects(second) == [T1, T2]


def test_a_worker_that_still_collects_is_given_nothing() -> None:
    session = Session(tasks(12), 2, 4)
    one, two = (session.dies(node, "r0") for node in list(session.workers))
    session.collects(one)
    assert two.given == []


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return sample.plan(steps=steps or (LOOK,), task_id="T-1", **fields)


def wrote(folder: Path, *events: Any) -> dict[str, ItemFacts] | None:
    journal = WorkerJournal(folder / "gw0")
    for event in events:
        journal.on_event(event)
    return read_journal(folder / "gw0")


def test_a_journal_says_what_ran_what_was_over_and_what_wrote(tmp_path: Path) -> None:
    made = plan(LOOK, WRITE)
    begun = TaskStarted(made, sample.START)
    looks, writes = (StepStarted(made, index, made.steps[index], sample.START) for index in (0, 1))
    over = TaskEnded(made, cast("Any", None), sample.START)
    for number, (events, expected) in enumerate([
        ([begun, looks], RAN),
        ([begun, looks, writes], ItemFacts(begun=True, wrote=True)),
        ([begun, writes, over], ItemFacts(ended=True, wrote=True)),
        ([begun, writes, over, begun], RAN),  # `--reruns`
    ]):  # fmt: skip
        folder = tmp_path / str(number)
        folder.mkdir()
        assert wrote(folder, *events) == {"T-1": expected}


def test_a_click_that_posted_and_a_task_inside_that_may_write_count(tmp_path: Path) -> None:
    made = plan()
    clicked = plan({"act": "click", "selector": "#a"}).steps[0]
    posted = StepRecord(0, clicked, (sample.attempt(clicked, 0, 0, Passed()),), sent=(Sent("POST", "http://x/"),))
    one = {"T-1": ItemFacts(begun=True, wrote=True)}
    assert wrote(tmp_path, TaskStarted(made, sample.START), StepEnded(made, posted)) == one
    left = WriteSeen(made, 0, Sent("POST", "http://x/"))
    (tmp_path / "left").mkdir()
    assert wrote(tmp_path / "left", TaskStarted(made, sample.START), left, left) == one
    assert (tmp_path / "left" / "gw0").read_text().count("wrote") == 1
    inner = plan(WRITE)
    (tmp_path / "inner").mkdir()
    repair = ReadyRepair(frozenset(), {}, (), inner)
    assert wrote(tmp_path / "inner", TaskStarted(plan(repairs=(repair,)), sample.START)) == one


def test_a_journal_with_a_gap_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.pytest_plugin.crashed_workers.os.write", lambda _file, line: len(line) - 1)
    assert wrote(tmp_path, TaskStarted(plan(), sample.START)) is None
    assert read_journal(tmp_path / "nowhere") is None


def test_what_runs_again_in_another_worker_meets_nothing_that_was_left_behind(tmp_path: Path) -> None:
    state = SessionState(Settings(root=tmp_path))
    (own, shared) = (loaded(tmp_path, task(task_id="A")), loaded(tmp_path, task(task_id="E", episode_id="e")))
    before = plan_of(state, own).world, plan_of(state, shared).world
    state.afresh = "gw4"
    assert (plan_of(state, own).world, plan_of(state, shared).world) == (f"{before[0]}.gw4", before[1])


def test_a_worker_that_follows_another_knows_it_and_what_has_passed() -> None:
    session = Session(tasks(3), 1, 1)
    (first,) = session.workers
    assert not first.workerinput.keys() & {AFRESH, DONE}
    for when in ("setup", "call", "teardown"):
        report = SimpleNamespace(node=first, when=when, passed=when == "call", taskspec={"task_id": "T-0"})
        session.hooks.pytest_runtest_logreport(report)
    second = session.dies(first)
    assert (second.workerinput[AFRESH], second.workerinput[DONE]) == ("gw1", {"T-0": True})
