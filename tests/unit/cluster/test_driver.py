"""The driver over simulated slots: every item has exactly one result, and nothing is written twice."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.cluster.batches import Batches, components
from harness.cluster.driver import DIES_OFTEN, NONE_YET, SOON, STARTING, STARTS, UNBORN, Cluster, ClusterDriver
from harness.cluster.equality import NodeFacts
from harness.cluster.lease import LEASE
from harness.cluster.ledger import RunLedger
from tests.unit.cluster.simulation import SAME, Item, Reports, SimulatedSlots, Time, Trouble

LONG = 10_000.0
"""Seconds of simulated time that no run takes."""


def run(
    project: dict[str, Item],
    troubles: dict[str, list[Trouble]] | None = None,
    *,
    slots: int = 2,
    groups: list[list[str]] | None = None,
    episodes: dict[str, str] | None = None,
    facts: dict[str, NodeFacts] | None = None,
    reports: Reports | None = None,
    ordinary: frozenset[str] = frozenset(),
    most: int = 100,
) -> tuple[Reports, SimulatedSlots, str]:
    clock = Time()
    simulated = SimulatedSlots(clock, project, troubles, facts, most)
    reports = reports or Reports()
    ledger = RunLedger({node: node not in ordinary for node in project}, episodes or {})
    batches = Batches(components(groups or [[node] for node in project], {n: i.seconds for n, i in project.items()}))
    wants = {node: item.wants for node, item in project.items()}
    driver = ClusterDriver(Cluster(SAME, wants, 1, slots), ledger, batches, simulated, reports, clock)
    why = driver.run()
    driver.finish()
    assert clock.now() < LONG
    return reports, simulated, why


def project_of(count: int, **item: object) -> dict[str, Item]:
    return {f"t::{number}": Item(**item) for number in range(count)}  # type: ignore[arg-type]


def test_all_items_run_and_the_slots_share_them() -> None:
    reports, _, why = run(project_of(20))
    assert sorted(reports.results) == sorted((f"t::{number}", "passed") for number in range(20))
    assert why == ""


def test_children_that_wait_for_a_driver_that_still_collects_are_used() -> None:
    clock, project = Time(), project_of(4, writes=True)
    simulated, reports = SimulatedSlots(clock, project), Reports()
    simulated.want(2)
    for name in simulated.slots:
        simulated.start(name)
    early = [each.child for each in simulated.slots.values()]
    for _ in range(200):
        clock.seconds += 0.5
        for name, slot in simulated.slots.items():
            simulated.advance(name, slot)
    batches = Batches(components([[node] for node in project], {}))
    driver = ClusterDriver(
        Cluster(SAME, {}, 1, 2), RunLedger(dict.fromkeys(project, True), {}), batches, simulated, reports, clock
    )
    driver.run()
    driver.finish()
    assert sorted(reports.results) == [(node, "passed") for node in sorted(project)]
    assert all(each is not None and each.ended for each in early)


def test_a_task_that_wrote_when_its_child_died_does_not_run_again() -> None:
    reports, simulated, _ = run({"t::A": Item(20, writes=True)}, {"slot1": [Trouble(10, "child")]}, slots=1)
    ((node, result),) = reports.results
    assert node == "t::A"
    assert result.startswith(
        "WORKER_CRASHED: the process of slot slot1 ended with exit code -9; this task had begun to write"
    )
    assert simulated.orders == {"t::A": 1}


def test_with_reruns_the_user_asks_for_a_repetition() -> None:
    trouble = {"slot1": [Trouble(10, "child")]}
    reports, simulated, _ = run({"t::A": Item(20, writes=True)}, trouble, slots=1, reports=Reports(reruns=1))
    assert reports.results == [("t::A", "passed")]
    assert simulated.orders == {"t::A": 2}


def test_a_task_that_had_not_written_runs_again_and_those_that_had_not_begun_as_if_nothing_had_happened() -> None:
    project = {"t::A": Item(20), "t::B": Item(1)}
    reports, _, _ = run(project, {"slot1": [Trouble(10, "child")]}, slots=1, groups=[["t::A", "t::B"]])
    assert sorted(reports.results) == [("t::A", "passed"), ("t::B", "passed")]
    assert any("these run again: A" in line for line in reports.lines)
    assert ("again", "t::A") in reports.kept


TIED = {"t::A": Item(20, writes=True), "t::B": Item(1, wants=("t::A",)), "t::C": Item(1, wants=("t::B",))}
EPISODE = {"t::A": Item(20), "t::B": Item(1, follows="t::A"), "t::C": Item(1, follows="t::B")}
PASSED = [("t::A", "passed"), ("t::B", "passed"), ("t::C", "passed")]


@pytest.mark.parametrize("kind", ["child", "node"])
@pytest.mark.parametrize("tied", [TIED, EPISODE], ids=["dependencies", "episode"])
def test_what_follows_a_lost_task_waits_for_it(tied: dict[str, Item], kind: str) -> None:
    project = {"t::A": Item(20), **{node: item for node, item in tied.items() if node != "t::A"}}
    episodes = dict.fromkeys(project, "e") if tied is EPISODE else {}
    troubles = {"slot1": [Trouble(10, kind)]}
    reports, _, _ = run(project, troubles, slots=3, groups=[list(project)], episodes=episodes)
    assert reports.results == PASSED


def test_what_depends_on_a_task_that_goes_to_another_slot_is_not_skipped() -> None:
    reports, simulated, _ = run(TIED, {"slot1": [Trouble(0.5, "browserless")]}, slots=3, groups=[list(TIED)])
    assert reports.results == PASSED
    assert ("again", "t::A") in reports.kept
    assert simulated.orders == {"t::A": 1}


def test_a_task_that_kills_each_process_is_given_up() -> None:
    troubles = {"slot1": [Trouble(10 + 8 * number, "child") for number in range(6)]}
    reports, _, _ = run({"t::A": Item(60)}, troubles, slots=1)
    ((_, result),) = reports.results
    assert result.startswith("WORKER_CRASHED")


def test_an_ordinary_test_that_ran_does_not_run_again() -> None:
    reports, _, _ = run({"t.py::A": Item(20)}, {"slot1": [Trouble(10, "child")]}, ordinary=frozenset({"t.py::A"}))
    ((_, result),) = reports.results
    assert "what an ordinary test has done is unknown" in result
    assert ("running", "t.py::A") in reports.kept


def test_work_of_a_lost_node_is_given_away_only_when_its_lease_is_over() -> None:
    reports, simulated, _ = run({"t::A": Item(20)}, {"slot1": [Trouble(10, "node")]}, slots=1)
    assert reports.results == [("t::A", "passed")]
    assert simulated.clock.now() > 10 + LEASE - 5


def test_a_frozen_slot_that_wakes_writes_nothing_and_is_not_heard() -> None:
    """It is frozen just before its first write, and wakes when another slot has done its task."""
    project = {"t::A": Item(8, writes=True)}
    reports, simulated, _ = run(project, {"slot1": [Trouble(3.6, "freeze", 60)]}, slots=2)
    assert simulated.orders["t::A"] <= 1
    ((_, result),) = reports.results
    assert result == "passed" or "begun to write" in result


@pytest.mark.parametrize("seconds", [20, 40])
def test_a_cut_line_loses_no_task_and_repeats_no_write(seconds: float) -> None:
    project = {f"t::{number}": Item(5, writes=True) for number in range(4)}
    reports, simulated, _ = run(project, {"slot1": [Trouble(4, "cut", seconds)]})
    assert Counter(node for node, _ in reports.results) == Counter(list(project))
    assert all(count == 1 for count in simulated.orders.values())
    assert not any("CUT_OFF" in result for _, result in reports.results)  # it ran again


def test_a_slot_that_is_not_like_the_driver_is_refused_with_both_values() -> None:
    other = NodeFacts("3.11", "1", "1", "q", host="far")
    reports, _, _ = run(project_of(4), facts={"slot1": other})
    assert Counter(result for _, result in reports.results) == {"passed": 4}
    (line,) = reports.lines
    assert "slot1 on far is refused" in line
    assert "Python: 3.12 here, 3.11 there" in line
    assert "the project's files: p here, q there" in line


def test_a_run_whose_slots_are_all_refused_ends() -> None:
    other = NodeFacts("3.11", "1", "1", "p")
    reports, _, why = run(project_of(4), facts={f"slot{number}": other for number in range(1, 9)})
    assert (reports.results, why) == ([], "every slot of the cluster was refused")


def test_a_run_without_any_slot_ends() -> None:
    reports, _, why = run(project_of(4), most=0)
    assert reports.results == []
    assert reports.lines == [NONE_YET]
    assert why.startswith("no slot of the cluster could be used")


def test_a_slot_without_a_browser_fails_no_tasks_that_another_slot_can_run() -> None:
    reports, simulated, why = run(project_of(20, seconds=5.0), {"slot1": [Trouble(0, "browserless")]})
    assert (why, len(reports.results)) == ("", 20)
    assert {result for _, result in reports.results} == {"passed"}
    assert reports.lines == ["slot slot1 gets no further task: 3 times its browser did not start: no"]
    assert len(simulated.slots) == 2


def test_without_any_browser_a_run_ends_and_says_why() -> None:
    reports, _, why = run(project_of(20), {"slot1": [Trouble(0, "browserless")]}, slots=1)
    assert (why, reports.results) == ("every slot of the cluster was refused", [])
    assert reports.lines == ["slot slot1 gets no further task: 3 times its browser did not start: no"]
    reports, _, why = run(project_of(2), {"slot1": [Trouble(0, "browserless")]}, slots=1)
    assert len(reports.lines) == 1


def test_a_slot_that_cannot_start_is_told_once_and_tried_a_few_times() -> None:
    reports, simulated, why = run(project_of(4), {f"slot{number}": [Trouble(0, "node")] for number in range(1, 50)})
    assert (reports.results, why) == ([], "every slot of the cluster was refused")
    assert reports.lines == [
        "slot slot1 cannot be started: the node is gone",
        "3 slots in a row could not be started (the last: the node is gone); the run goes on with 1 at most",
        "6 slots in a row could not be started (the last: the node is gone); no further one is tried",
    ]
    assert len(simulated.slots) == 6


def test_a_slot_whose_process_never_begins_is_replaced_a_few_times_and_it_is_said_what_is_waited_for() -> None:
    troubles = {f"slot{number}": [Trouble(0, "mute")] for number in range(1, 50)}
    reports, simulated, why = run(project_of(4), troubles, slots=1)
    assert (reports.results, why) == ([], "every slot of the cluster was refused")
    assert reports.lines == [
        STARTING.format("slot1", "its machine", SOON, STARTS),
        f"slot slot1 cannot be started: {UNBORN}",
        f"3 slots in a row could not be started (the last: {UNBORN}); no further one is tried",
    ]
    assert len(simulated.slots) == 3
    assert simulated.clock.now() < 3 * STARTS + SOON


def test_a_machine_on_which_no_process_begins_does_not_take_the_work_of_the_others() -> None:
    troubles = {f"slot{number}": [Trouble(0, "mute")] for number in (1, *range(3, 50))}
    project = project_of(40, seconds=15.0)
    reports, simulated, why = run(project, troubles, slots=2)
    assert (why, Counter(reports.results)) == ("", {(node, "passed"): 1 for node in project})
    assert len(simulated.slots) == 4


def test_slots_that_start_in_between_end_the_row_of_those_that_do_not() -> None:
    silent = {f"slot{number}": [Trouble(0, "mute")] for number in (1, 2, 4, 5)}
    project = project_of(4, seconds=100.0)
    reports, simulated, why = run(project, {**silent, "slot3": [Trouble(400, "node")]}, slots=1)
    assert (why, Counter(reports.results)) == ("", {(node, "passed"): 1 for node in project})
    assert len(simulated.slots) == 6


def test_a_slot_that_starts_at_the_second_try_is_used() -> None:
    reports, _, why = run(project_of(4), {"slot1": [Trouble(0, "node")]}, slots=1)
    assert (len(reports.results), why) == (4, "")


def test_no_write_is_allowed_that_cannot_be_kept() -> None:
    reports, simulated, _ = run({"t::A": Item(2, writes=True)}, reports=Reports(broken=True))
    assert simulated.orders == {}
    assert reports.results == [("t::A", "WORKER_CUT_OFF")]
    assert any("cannot be written" in line for line in reports.lines)


def test_no_item_begins_after_the_run_is_to_stop() -> None:
    reports, _, _ = run(project_of(40), reports=Reports(stop_after=3))
    assert 3 <= len(reports.results) <= 6


def test_the_rest_of_an_episode_is_not_run_without_its_state() -> None:
    project = {"t::1": Item(2), "t::2": Item(20), "t::3": Item(2)}
    episodes = dict.fromkeys(project, "E")
    reports, _, _ = run(project, {"slot1": [Trouble(8, "child")]}, groups=[list(project)], episodes=episodes, slots=1)
    results = dict(reports.results)
    assert results["t::1"] == "passed"
    assert results["t::2"].startswith("WORKER_CRASHED")
    assert "the state of its episode was lost" in results["t::3"]


@pytest.mark.parametrize("kind", ["child", "node", "freeze", "cut"])
def test_a_write_happens_once_whenever_its_slot_is_lost(kind: str) -> None:
    for half_seconds in range(1, 24):
        for seconds in (9.0, 20.0, 28.0, 33.0, 70.0) if kind in ("freeze", "cut") else (0.0,):
            trouble = Trouble(half_seconds / 2, kind, seconds)
            reports, simulated, _ = run({"t::A": Item(6, writes=True)}, {"slot1": [trouble], "slot2": [trouble]})
            ((_, result),) = reports.results
            assert simulated.orders["t::A"] <= 1, trouble
            assert simulated.orders["t::A"] == 1 or result != "passed", trouble
            assert result == "passed" or "begun to write" in result, trouble


TROUBLES = st.builds(
    Trouble,
    st.floats(0.5, 90),
    st.sampled_from(["child", "node", "freeze", "cut"]),
    st.sampled_from([3.0, 12.0, 20.0, 28.0, 40.0, 70.0]),
)


def not_hopeless(troubles: dict[str, list[Trouble]]) -> bool:
    """Whether too few nodes go away for a row of slots that cannot be started, which ends a run."""
    return sum(any(each.kind == "node" for each in several) for several in troubles.values()) < DIES_OFTEN


ITEMS = st.builds(Item, st.floats(0.5, 25), st.booleans(), st.booleans())


@given(
    items=st.lists(ITEMS, min_size=1, max_size=12),
    troubles=st.dictionaries(
        st.integers(1, 6).map(lambda number: f"slot{number}"), st.lists(TROUBLES, max_size=3), max_size=5
    ),
    slots=st.integers(1, 4),
)
def test_every_item_has_exactly_one_result_and_no_write_happens_twice(
    items: list[Item], troubles: dict[str, list[Trouble]], slots: int
) -> None:
    """Of writes that no file declares this holds as long as the driver hears of them (docs/design/cluster.md, Gaps)."""
    assume(not_hopeless(troubles))
    heard = all(each.kind == "child" for several in troubles.values() for each in several)
    project = {f"t::{number}": item for number, item in enumerate(items)}
    reports, simulated, why = run(project, troubles, slots=slots)
    assert why == ""
    assert Counter(node for node, _ in reports.results) == Counter(list(project))
    for node, result in reports.results:
        written = simulated.orders[node]
        if project[node].unseen and not heard:
            continue
        assert written <= 1
        if result == "passed":
            assert written == (project[node].writes or project[node].unseen)


def chained(seconds: list[float], *, episode: bool) -> dict[str, Item]:
    """Items of which each needs the one before it: its success, or the state of their episode."""
    found = {"t::0": Item(seconds[0])}
    for number, each in enumerate(seconds[1:]):
        before = f"t::{number}"
        found[f"t::{number + 1}"] = Item(each, follows=before) if episode else Item(each, wants=(before,))
    return found


@given(
    seconds=st.lists(st.floats(0.5, 25), min_size=2, max_size=5),
    others=st.lists(ITEMS, max_size=4),
    troubles=st.dictionaries(st.sampled_from(["slot1", "slot2", "slot3", "slot4"]), st.lists(TROUBLES, max_size=3)),
    browserless=st.sampled_from(["slot1", "slot2", "none"]),
    slots=st.integers(2, 4),
    episode=st.booleans(),
)
def test_what_is_tied_runs_after_what_it_needs(
    seconds: list[float],
    others: list[Item],
    troubles: dict[str, list[Trouble]],
    browserless: str,
    slots: int,
    episode: bool,
) -> None:
    assume(not_hopeless(troubles))
    chain = chained(seconds, episode=episode)
    project = chain | {f"o::{number}": item for number, item in enumerate(others)}
    groups = [list(chain), *([node] for node in project if node not in chain)]
    troubles = {**troubles, browserless: [Trouble(0.5, "browserless"), *troubles.get(browserless, [])]}
    episodes = dict.fromkeys(chain, "e") if episode else {}
    reports, _, _ = run(project, troubles, slots=slots, groups=groups, episodes=episodes)
    results = dict(reports.results)
    assert len(results) == len(reports.results) == len(project)
    for node, item in chain.items():
        assert results[node] != "WITHOUT_STATE"
        assert results[node] != "SKIPPED" or results[item.wants[0]] != "passed"


def test_a_slot_without_work_is_given_back_but_not_the_last_ones() -> None:
    _, simulated, _ = run({"t::A": Item(200), "t::B": Item(1)})
    assert sorted(each.dropped for each in simulated.slots.values()) == [False, True]
    assert len(simulated.slots) == 2


def test_a_slot_whose_machine_is_taken_away_ends_its_item_and_the_rest_goes_elsewhere() -> None:
    project = project_of(12, seconds=4.0)
    reports, simulated, _ = run(
        project, {"slot1": [Trouble(6, "notice")]}, groups=[list(project)[:6], list(project)[6:]]
    )
    assert Counter(reports.results) == {(node, "passed"): 1 for node in project}
    assert not any("again" in line for line in reports.lines)
    assert simulated.slots["slot1"].dropped
