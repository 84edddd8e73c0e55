"""Browser, page and driver are ended for real in the middle of shipped tasks (docs/decisions/006)."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from harness.browser.recovery import WayBack
from harness.engine.run import counts
from harness.model.events import Event, StepStarted
from harness.model.record import TaskResult
from harness.recovery.failure import Failure
from tests.acceptance.kills import (
    LOOP,
    Kills,
    Strike,
    browser_killed,
    browser_stopped,
    driver_killed,
    driver_stopped,
    page_crashed,
    page_looping,
    page_stopped,
    renderers,
    site_killed,
    write_project,
)
from tests.ports import free_ports

RENEWAL, CHECKPOINT, AFTER = "H3-2025-004-ERROR-CHECKPOINT", 12, 18
"""A task with a checkpoint, and a step well after it."""
PURCHASE, TYPED = "B1-2025-001", 15
"""A task without one, and a step on a page into which something was typed."""
THOROUGH = functools.partial(pytest.param, marks=pytest.mark.thorough)
LIMIT = 3
OVERSHOOT, CAPTURE, LOADED = 0.5, 20.0, 2.0
SHOP = {"act": "open", "url": "http://shop.local/"}
names = (f"T-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Iterator[Kills]:
    root = tmp_path_factory.mktemp("kills")
    write_project(root, sites)
    kills = Kills(root)
    the_next_one_passes(kills)  # the first page of a browser takes longer than the others, which have little time
    yield kills
    kills.close()


def shop(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A small task at the shop."""
    return {"timeout": 60, "step_timeout": LIMIT, "steps": [{**SHOP, "timeout": 15}, *steps], **more}


def types(result: TaskResult) -> set[str]:
    return {warning.type for warning in result.warnings}


def the_next_one_passes(kills: Kills) -> None:
    result = kills.run(kills.plan(shop({"act": "click", "selector": "#search-box"}), next(names)))
    assert result.ok, result.failure
    assert not result.warnings


RESTARTED, RESTORED = {"browser_restarted", "checkpoint_restored"}, {"checkpoint_restored"}


@pytest.mark.parametrize(
    ("strike", "warned"),
    [
        (browser_killed, RESTARTED),
        (browser_stopped, RESTARTED),
        (driver_killed, RESTARTED),
        THOROUGH(driver_stopped, RESTARTED),
        (page_crashed, RESTORED),
        THOROUGH(page_stopped, RESTORED),
    ],
)
@pytest.mark.thorough
def test_with_a_checkpoint_the_task_completes(kills: Kills, strike: Strike, warned: set[str]) -> None:
    result = kills.run(kills.plan(RENEWAL, next(names), step_timeout=LIMIT), (AFTER, strike))
    assert result.ok, result.failure
    assert types(result) == warned
    begun = [event.index for event in kills.events if isinstance(event, StepStarted) and event.index >= 0]
    (record,) = [record for record in result.history if record.rewound]
    assert record.index == AFTER
    assert begun[: AFTER + 8] == [*range(AFTER + 1), *range(CHECKPOINT, CHECKPOINT + 7)]
    the_next_one_passes(kills)


@pytest.mark.thorough
@pytest.mark.parametrize(("task", "step"), [(RENEWAL, AFTER), (PURCHASE, TYPED)])
@pytest.mark.sampled(1)
def test_a_page_in_an_endless_loop_is_freed_and_the_step_done_again(kills: Kills, task: str, step: int) -> None:
    """With a checkpoint and without: what was typed is still there."""
    result = kills.run(kills.plan(task, next(names), step_timeout=LIMIT), (step, page_looping))
    assert result.ok, result.failure
    assert not types(result) & RESTARTED
    (record,) = [record for record in result.history if record.extra_attempts]
    first, second = record.attempts
    assert record.index in (step, step + 1)
    assert first.outcome.code == "PAGE_UNRESPONSIVE"  # type: ignore[union-attr]
    assert second.t - first.t - first.seconds < 1 + LOADED
    the_next_one_passes(kills)


@pytest.mark.thorough
def test_a_crashed_page_that_held_nothing_is_opened_again_in_its_context(kills: Kills) -> None:
    logged_in = 5
    result = kills.run(kills.plan(RENEWAL, next(names), checkpoints=[]), (logged_in, page_crashed))
    assert result.ok, result.failure
    assert not types(result) & RESTARTED
    the_next_one_passes(kills)


LOST_WITH_IT = "the input typed into the page is lost"
NOWHERE = "there is no checkpoint at or before step"


@pytest.mark.parametrize(
    ("strike", "code", "why"),
    [
        (browser_killed, "BROWSER_CRASHED", NOWHERE),
        (browser_stopped, "BROWSER_UNRESPONSIVE", NOWHERE),
        (driver_killed, "DRIVER_GONE", NOWHERE),
        THOROUGH(driver_stopped, "DRIVER_GONE", NOWHERE),
        (page_crashed, "PAGE_CRASHED", LOST_WITH_IT),
        THOROUGH(page_stopped, "PAGE_UNRESPONSIVE", LOST_WITH_IT),
    ],
)
@pytest.mark.sampled(1)
def test_without_a_checkpoint_the_report_says_what_was_lost(kills: Kills, strike: Strike, code: str, why: str) -> None:
    result = kills.run(kills.plan(PURCHASE, next(names), step_timeout=LIMIT), (TYPED, strike))
    assert result.final_state == "failed"
    assert result.failure is not None
    assert (result.failure.code, result.failed_index) == (code, TYPED)
    assert why in result.failure.message
    (record,) = [record for record in result.history if record.failure]
    (attempt,) = record.attempts
    assert attempt.seconds < LIMIT + OVERSHOOT + LOADED
    assert result.elapsed < attempt.t + LIMIT + OVERSHOOT + CAPTURE
    _explained(result, code)
    the_next_one_passes(kills)


def _explained(result: TaskResult, code: str) -> None:
    """Its directory has the report; and what could not be had has a reason."""
    assert result.artifacts is not None
    report = json.loads((result.artifacts / "error_report.json").read_text("utf-8"))
    assert report["code"] == code
    manifest = json.loads((result.artifacts / "manifest.json").read_text("utf-8"))
    states = {item["name"]: item["status"] for item in manifest["artifacts"]}
    kept = ("error_report.json", "memory_snapshot.json", "env_snapshot.json", "console_logs.txt", "network_logs.har")
    assert {states[name] for name in kept} == {"taken"}
    assert all(item["reason"] for item in manifest["artifacts"] if item["status"] != "taken")
    har = json.loads((result.artifacts / "network_logs.har").read_text("utf-8"))
    assert har["log"]["entries"]


@pytest.mark.parametrize("strike", [browser_killed, driver_killed])
@pytest.mark.thorough
def test_restart_task_begins_again_without_a_checkpoint(kills: Kills, strike: Strike) -> None:
    plan = kills.plan(PURCHASE, next(names), error_recovery={"on_browser_crash": "restart_task"})
    result = kills.run(plan, (5, strike))
    assert result.ok, result.failure
    assert "browser_restarted" in types(result)
    begun = [event.index for event in kills.events if isinstance(event, StepStarted) and event.index >= 0]
    again = begun.index(0, 1)
    assert begun[:again] in ([*range(6)], [*range(7)])  # the step may have been faster than the strike
    assert begun[again : again + 2] == [0, 1]


@pytest.mark.parametrize("strike", [browser_killed, THOROUGH(driver_killed)])
@pytest.mark.thorough
def test_a_page_that_was_stopped_does_not_outlive_its_browser(kills: Kills, strike: Strike) -> None:
    """Nobody but us would end it: its parent is gone, and it hears no signal but SIGKILL."""
    left: list[psutil.Process] = []

    def both(kills: Kills, world: str) -> None:
        left.extend(renderers(kills, world))
        page_stopped(kills, world)
        strike(kills, world)

    result = kills.run(kills.plan(RENEWAL, next(names)), (AFTER, both))
    assert result.ok, result.failure
    assert left
    assert not psutil.wait_procs(left, timeout=20)[1]


@pytest.mark.thorough
def test_abort_ends_the_task_in_spite_of_its_checkpoint(kills: Kills) -> None:
    plan = kills.plan(RENEWAL, next(names), error_recovery={"on_browser_crash": "abort"})
    result = kills.run(plan, (AFTER, browser_killed))
    assert result.final_state == "aborted"
    assert result.failure is not None
    assert result.failure.code == "BROWSER_CRASHED"
    the_next_one_passes(kills)


@pytest.mark.thorough
def test_the_third_crash_is_permanent_and_said_to_be(kills: Kills) -> None:
    plan = kills.plan(RENEWAL, next(names))
    result = kills.run(plan, (AFTER, browser_killed), (AFTER, page_crashed), (AFTER, driver_killed))
    assert result.final_state == "failed"
    assert result.failure is not None
    assert result.failure.code == "DRIVER_GONE"
    assert "lost 3 times within 5 minutes: permanent for this task" in result.failure.message
    the_next_one_passes(kills)


SEARCH = {"act": "click", "selector": "#search-box"}


def wait(seconds: float) -> dict[str, Any]:
    return {"act": "wait", "value": seconds}


def two(kills: Kills, strike: Strike, checkpoints: list[int]) -> tuple[TaskResult, TaskResult]:
    """A is struck in step 2, while B is in a long one; A is the first to notice."""
    a = kills.plan(shop(wait(0.5), SEARCH, SEARCH, checkpoints=[1], step_timeout=2), next(names))
    b = kills.plan(shop(wait(6), SEARCH, step_timeout=10, checkpoints=checkpoints), next(names))
    waiting = [strike]

    def sink(event: Event) -> None:
        if isinstance(event, StepStarted) and (event.plan.task_id, event.index) == (a.task_id, 2) and waiting:
            waiting.pop()(kills, a.world)

    first, second = kills.together(a, b, sink=sink)
    assert not waiting
    return first, second


def lost(result: TaskResult) -> Failure:
    """The one loss of a page or browser."""
    outcomes = [attempt.outcome for record in result.history for attempt in record.attempts]
    (failure,) = [each for each in outcomes if isinstance(each, Failure)]
    return failure


@pytest.mark.parametrize("checkpoints", [[1], THOROUGH([])])
@pytest.mark.thorough
def test_who_lived_in_a_browser_that_was_ended_for_another_task_goes_on(kills: Kills, checkpoints: list[int]) -> None:
    a, b = two(kills, browser_stopped, checkpoints)
    assert a.ok, a.failure
    assert b.ok, b.failure
    assert lost(a).code == "BROWSER_UNRESPONSIVE"
    assert (lost(b).code, lost(b).circumstances.innocent) == ("BROWSER_CRASHED", True)
    assert not counts(lost(b))
    assert [record.index for record in b.history] == ([0, 1, 2, 1, 2] if checkpoints else [0, 1, 2, 0, 1, 2])
    the_next_one_passes(kills)


@pytest.mark.parametrize("strike", [browser_killed, driver_killed])
@pytest.mark.thorough
def test_a_browser_that_dies_with_several_tasks_in_it_is_no_task_s_fault(kills: Kills, strike: Strike) -> None:
    a, b = two(kills, strike, [])
    assert a.ok, a.failure
    assert b.ok, b.failure
    assert lost(a).circumstances.shared
    assert lost(b).circumstances.others_may_be_to_blame
    the_next_one_passes(kills)


@pytest.mark.parametrize(("method", "params"), [("Page.crash", None), ("Runtime.evaluate", LOOP)])
@pytest.mark.thorough
def test_of_another_task_s_page_nobody_hears(kills: Kills, method: str, params: dict[str, Any] | None) -> None:
    a, b = two(kills, lambda kills, world: kills.send(world, method, params), [])
    assert a.ok, a.failure
    assert b.ok, b.failure
    assert lost(a).code in ("PAGE_CRASHED", "PAGE_UNRESPONSIVE")
    assert not b.warnings
    assert not any(record.extra_attempts for record in b.history)


ENDED = [browser_killed, THOROUGH(browser_stopped), THOROUGH(driver_killed)]
"""Between two preconditions, in a repair and so on: nothing hangs, and it is said what was lost."""


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.thorough
def test_lost_between_two_preconditions(kills: Kills, strike: Strike) -> None:
    """No step has been done: nothing is lost with the browser."""
    plan = kills.plan(shop(preconditions=["title() == ''", "count('h1') == 0"]), next(names))
    result = kills.run(plan, (-1, lambda *_: None), (-1, strike))
    assert result.ok, result.failure
    assert "browser_restarted" in types(result)


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.thorough
def test_lost_during_a_repair(kills: Kills, strike: Strike) -> None:
    repair = {"steps": [SHOP, wait(0.5), {**SEARCH, "remember": {"ready": "'yes'"}}]}
    recovery = {"on_precondition_fail": "attempt_repair"}
    spec = shop(preconditions=["mem('ready') == 'yes'"], repairs=[repair], error_recovery=recovery)
    strikes = [(-1, lambda *_: None), (-1, lambda *_: None), (-1, strike)]
    result = kills.run(kills.plan(spec, next(names)), *strikes)
    assert result.ok, result.failure
    assert {"browser_restarted", "precondition_repaired"} <= types(result)


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.parametrize("checkpoints", [[1], []])
@pytest.mark.thorough
def test_lost_during_the_success_criteria(kills: Kills, strike: Strike, checkpoints: list[int]) -> None:
    spec = shop(SEARCH, success_criteria=["exists('#search-box')", "title() != ''"], checkpoints=checkpoints)
    result = kills.run(kills.plan(spec, next(names)), (2, strike))
    if checkpoints:
        assert result.ok, result.failure
        assert types(result) == RESTARTED
    else:
        assert result.failure is not None
        assert result.failure.code in ("BROWSER_CRASHED", "BROWSER_UNRESPONSIVE", "DRIVER_GONE")
        assert result.failed_index == 2
    the_next_one_passes(kills)


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.sampled(1)
def test_lost_while_a_checkpoint_is_saved(kills: Kills, strike: Strike) -> None:
    """The one before it serves; done again, it is saved."""
    kills.as_it_is_to("save", lambda *_: None, strike)
    plan = kills.plan(shop(SEARCH, SEARCH, checkpoints=[1, 2]), next(names))
    result = kills.run(plan)
    assert result.ok, result.failure
    assert types(result) == RESTARTED


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.thorough
def test_lost_as_the_way_back_begins(kills: Kills, strike: Strike) -> None:
    """The page is lost, and its browser before the checkpoint's context can be had of it."""
    kills.as_it_is_to("restore", strike)
    result = kills.run(kills.plan(shop(SEARCH, wait(0.5), SEARCH, checkpoints=[1]), next(names)), (2, page_crashed))
    assert result.ok, result.failure
    assert types(result) >= RESTORED
    the_next_one_passes(kills)


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.thorough
def test_lost_on_the_way_back(kills: Kills, monkeypatch: pytest.MonkeyPatch, strike: Strike, times: int) -> None:
    """The page is lost, and its browser while the checkpoint's page is opened; once more is the third time."""
    plan, waiting, way_back = (
        kills.plan(shop(SEARCH, wait(0.5), SEARCH, checkpoints=[1]), next(names)),
        [strike] * times,
        WayBack.to_checkpoint,
    )

    async def struck(self: WayBack, saved: Any, barred: Any) -> Any:
        if waiting:
            waiting.pop()(kills, plan.world)
        return await way_back(self, saved, barred)

    monkeypatch.setattr(WayBack, "to_checkpoint", struck)
    result = kills.run(plan, (2, page_crashed))
    assert not waiting
    if times == 1:
        assert result.ok, result.failure
        assert types(result) == RESTARTED
    else:
        assert result.failure is not None
        assert "permanent for this task; this happened on the way back to" in result.failure.message
    the_next_one_passes(kills)


@pytest.mark.parametrize("strike", ENDED)
@pytest.mark.sampled(1)
def test_lost_while_evidence_is_taken(kills: Kills, strike: Strike) -> None:
    kills.as_it_is_to("evidence", strike)
    recovery = {"on_element_not_found": {"wait_seconds": 0.3}}
    result = kills.run(kills.plan(shop({"act": "click", "selector": "#no"}, error_recovery=recovery), next(names)))
    assert result.failure is not None
    assert result.failure.code == "ELEMENT_NOT_FOUND"
    assert result.elapsed < LIMIT + CAPTURE
    _explained(result, "ELEMENT_NOT_FOUND")
    the_next_one_passes(kills)


@pytest.mark.parametrize("strike", [*ENDED, THOROUGH(driver_stopped)])
def test_lost_before_and_while_a_session_is_opened(kills: Kills, strike: Strike) -> None:
    """The next task's: it starts another browser."""
    the_next_one_passes(kills)
    strike(kills, "")
    the_next_one_passes(kills)
    browsers = kills.harness.browsers
    opening = browsers.open_tab

    async def struck(*args: Any) -> Any:
        browsers.open_tab = opening  # type: ignore[method-assign]
        strike(kills, "")
        return await opening(*args)

    browsers.open_tab = struck  # type: ignore[assignment, method-assign]
    the_next_one_passes(kills)


@pytest.fixture
def own_site(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Iterator[Kills]:
    """Sites that the harness itself has started, and starts again; twice within five minutes."""
    root = tmp_path_factory.mktemp("site")
    write_project(root, dict(zip(sites, free_ports(len(sites)), strict=True)), own=True)
    kills = Kills(root)
    yield kills
    kills.close()


@pytest.mark.parametrize("step", [14, 18, 21])
@pytest.mark.thorough  # test_dead_services.py has a task whose service crashes
def test_a_site_that_is_killed_comes_back_and_the_task_completes(own_site: Kills, step: int) -> None:
    """As a form is sent, as the page waits for data, and as what counts is sent: a write, which is not done twice."""
    result = own_site.run(own_site.plan(RENEWAL, next(names)), (step, site_killed))
    assert result.ok, result.failure
    the_next_one_passes(own_site)
