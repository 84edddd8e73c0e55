"""Which task may begin while others run."""

from __future__ import annotations

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from harness.runner.schedule import Job, Schedule, TaskPlaces
from tests.unit.resilience.virtual import now, play


def started(schedule: Schedule, limit: int = 10) -> list[str]:
    """What may begin, begun."""
    names = schedule.startable(limit)
    for name in names:
        schedule.begin(name)
    return names


def test_as_many_as_there_are_places_in_their_order() -> None:
    schedule = Schedule.of([Job("a"), Job("b"), Job("c")])
    assert started(schedule, 2) == ["a", "b"]
    assert started(schedule, 2) == []
    schedule.end("b", True)
    assert started(schedule, 2) == ["c"]


def test_a_dependant_waits_for_a_good_end() -> None:
    schedule = Schedule.of([Job("a"), Job("b", wants=frozenset({"a"})), Job("c", wants=frozenset({"b"}))])
    assert started(schedule) == ["a"]
    schedule.end("a", True)
    assert started(schedule) == ["b"]
    schedule.end("b", False)
    assert started(schedule) == [], "what it wants has failed: pytest skips it"


def test_an_episode_goes_on_after_a_bad_end() -> None:
    schedule = Schedule.of([Job("a"), Job("b", after=frozenset({"a"}))])
    assert started(schedule) == ["a"]
    schedule.end("a", False)
    assert started(schedule) == ["b"]


def test_one_that_wants_to_be_alone_is_not_overtaken() -> None:
    schedule = Schedule.of([Job("a"), Job("b", alone=True), Job("c")])
    assert started(schedule) == ["a"]
    schedule.end("a", True)
    assert started(schedule) == ["b"]
    assert started(schedule) == [], "nothing beside it"
    schedule.end("b", True)
    assert started(schedule) == ["c"]


def test_what_may_not_run_ahead_waits_for_its_call() -> None:
    schedule = Schedule.of([Job("a"), Job("b", ahead=False), Job("c")])
    assert started(schedule) == ["a", "c"]
    schedule.call("b")
    assert started(schedule) == ["b"]


def test_results_that_nobody_has_asked_for_yet_are_bounded() -> None:
    schedule = Schedule.of([Job("a", ahead=False), Job("b"), Job("c"), Job("d")], window=2)
    assert started(schedule) == ["b", "c"]
    schedule.end("b", True)
    schedule.end("c", True)
    assert started(schedule) == []
    schedule.call("b")
    assert started(schedule) == ["d"]


def test_the_one_that_is_waited_for_has_room_beside_them() -> None:
    schedule = Schedule.of([Job("a", ahead=False), Job("b"), Job("c")], window=2)
    assert started(schedule) == ["b", "c"]
    schedule.end("b", True)
    schedule.end("c", True)
    schedule.call("a")
    assert started(schedule) == ["a"]


def test_one_that_runs_again_passes_nobody_over() -> None:
    """`--reruns`: the others go on waiting for their turn."""
    schedule = Schedule.of([Job("a"), Job("b"), Job("c")])
    assert started(schedule, 1) == ["a"]
    schedule.call("a")
    schedule.end("a", False)
    schedule.requeue(Job("a"))
    schedule.call("a")
    assert started(schedule, 1) == ["a"]
    schedule.end("a", True)
    assert started(schedule) == ["b", "c"]
    assert schedule.over == {"a": True}


def test_when_pytest_goes_on_after_all_so_does_the_schedule() -> None:
    """A plugin that ends one task (`pytest-timeout`) breaks into the wait as Ctrl-C does."""
    schedule = Schedule.of([Job("a"), Job("b"), Job("c")])
    assert started(schedule, 1) == ["a"]
    schedule.close()
    schedule.end("a", False)
    assert started(schedule) == []
    schedule.call("b")
    assert started(schedule) == ["b", "c"]


@st.composite
def suites(draw: st.DrawFn) -> list[Job]:
    """Jobs that want only earlier ones, as `order.ordered` puts them."""
    jobs: list[Job] = []
    for number in range(draw(st.integers(1, 12))):
        earlier = [job.name for job in jobs]
        chosen = st.frozensets(st.sampled_from(earlier), max_size=3) if earlier else st.just(frozenset())
        jobs.append(Job(f"t{number:02}", draw(chosen), draw(chosen), draw(st.booleans()), draw(st.booleans())))
    return jobs


@given(suites(), st.integers(1, 5), st.data())
def test_every_job_that_can_begin_does_and_rules_hold(jobs: list[Job], limit: int, data: st.DataObject) -> None:
    """Called in their order, as pytest does, with ends at any time, no run stands still."""
    schedule = Schedule.of(jobs, window=2)
    by_name = {job.name: job for job in jobs}
    order: list[str] = []

    def end_one() -> None:
        name = data.draw(st.sampled_from(sorted(schedule.running)))
        schedule.end(name, data.draw(st.booleans()))

    def begin() -> None:
        for name in schedule.startable(limit):
            job = by_name[name]
            assert all(schedule.over.get(other) for other in job.wants)
            assert all(other in schedule.over for other in job.after)
            schedule.begin(name)
            order.append(name)
        assert len(schedule.running) <= limit
        assert not any(job.alone for job in schedule.running.values()) or len(schedule.running) == 1

    for job in jobs:
        schedule.call(job.name)
        if not all(map(schedule.over.get, job.wants)):
            schedule.end(job.name, False)  # skipped: what it wants did not end well
        while job.name not in schedule.over:
            begin()
            assert schedule.running, f"{job.name} is waited for, and nothing runs"
            end_one()
    assert len(order) == len(set(order))


def test_where_a_state_is_shared_there_are_only_so_many_slots() -> None:
    schedule = Schedule.of([Job("a"), Job("b"), Job("c")], slots=2)
    assert started(schedule) == ["a", "b"]
    schedule.end("a", True)
    assert started(schedule) == ["c"]


def test_an_episode_keeps_its_slot_between_its_jobs() -> None:
    jobs = [Job("a", episode="E"), Job("b", episode="E", wants=frozenset({"c"})), Job("c"), Job("d")]
    schedule = Schedule.of(jobs, slots=2)
    assert started(schedule) == ["a", "c"]
    schedule.end("a", True)
    assert started(schedule) == [], "d would take the slot of the episode, which goes on"
    schedule.end("c", True)
    assert started(schedule) == ["b", "d"]
    schedule.end("b", True)
    assert schedule.startable(10) == []
    schedule.end("d", True)
    for name in "ef":
        schedule.add(Job(name))
    assert started(schedule) == ["e", "f"], "no slot is held any more"


def test_what_is_called_does_not_wait_for_an_episode_that_cannot_go_on() -> None:
    schedule = Schedule.of([Job("x"), Job("a", episode="E"), Job("b", episode="E", ahead=False)], slots=1)
    schedule.waiting["x"] = Job("x", ahead=False)
    assert started(schedule) == ["a"]
    schedule.end("a", True)
    assert started(schedule) == []
    schedule.call("x")
    assert started(schedule) == ["x"]


def test_two_episodes_under_way_do_not_run_at_once_in_one_slot() -> None:
    """The second was let in because the first could not go on; then both can, one after the other."""
    jobs = [Job(name, episode=name[0], ahead=name == "F2") for name in ("E1", "F1", "E2", "F2")]
    schedule = Schedule.of(jobs, slots=1)
    for name in ("E1", "F1"):
        schedule.call(name)
        assert started(schedule) == [name]
        schedule.end(name, True)
    schedule.call("E2")
    assert started(schedule) == ["E2"]
    assert started(schedule) == [], "F2 shares the one state"
    schedule.end("E2", True)
    assert started(schedule) == ["F2"]


@example(jobs=[("E", False), ("F", False), ("E", False), ("F", True)], slots=1)
@given(
    jobs=st.lists(st.tuples(st.sampled_from(["", "E", "F"]), st.booleans()), min_size=1, max_size=8),
    slots=st.integers(1, 3),
)
def test_every_job_begins_whatever_the_slots(jobs: list[tuple[str, bool]], slots: int) -> None:
    made, last = [], {}
    for number, (episode, ahead) in enumerate(jobs):
        after = frozenset({last[episode]} if episode in last else ())
        made.append(Job(f"j{number}", after=after, episode=episode, ahead=ahead))
        if episode:
            last[episode] = f"j{number}"
    schedule, over = Schedule.of(made, slots=slots), set[str]()
    for job in made:  # pytest asks for each in turn, and waits for it
        schedule.call(job.name)
        while job.name not in over:
            begun = [*started(schedule), *schedule.running]
            assert begun, f"{job.name} waits for ever"
            assert len({each.episode or name for name, each in schedule.running.items()}) <= slots
            name = begun[0]
            schedule.end(name, True)
            over.add(name)


def test_a_place_alone_waits_for_all_and_nothing_overtakes_it() -> None:
    begun: list[str] = []

    async def job(places: TaskPlaces, name: str, *, alone: bool = False) -> None:
        async with places.place(alone=alone):
            begun.append(f"{name} at {now():g}")
            await asyncio.sleep(10)

    async def main() -> None:
        places = TaskPlaces(2)
        waits = asyncio.create_task(job(places, "first"))
        await asyncio.sleep(1)
        jobs = [asyncio.create_task(job(places, name, alone=name == "alone")) for name in ("alone", "second", "third")]
        given_up = asyncio.create_task(job(places, "given up", alone=True))
        await asyncio.sleep(11)
        given_up.cancel()
        await asyncio.gather(waits, *jobs)
        await job(places, "last", alone=True)

    play(main())
    assert begun == ["first at 0", "alone at 10", "second at 20", "third at 20", "last at 30"]
