"""Who is blamed when something does not answer, or is gone: the evidence in the order in which it counts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.browser.driver import GONE, DriverLoss
from harness.browser.failures import classify
from harness.browser.failures.classify import failure_of
from harness.browser.failures.liveness import (
    DYING_SECONDS,
    ENDING_SECONDS,
    PROMPT,
    dead,
    hung,
    lost,
    performed,
    who_answers,
)
from harness.browser.failures.scene import LOOK_SECONDS, OVERTIME, SHORTEST_LOOK, CallLog, FailureContext
from harness.recovery.catalog import Effect
from harness.resilience import Deadline
from tests.unit.fakes import FakeClock

CLOSED = "Locator.click: Target page, context or browser has been closed"
WAITING = CLOSED + '\nCall log:\n  - waiting for locator("#b")\n'


class World:
    """A page with its watch, a browser and a driver: each alive until a time, each answering after one."""

    ended_by, lost_many, sessions = None, False, 1
    process = SimpleNamespace(stopped=False)
    silent = blocked = False

    def __init__(self, **changes: Any) -> None:
        self.clock = FakeClock()
        self.page_open, self.browser_ends, self.driver_ends = True, float("inf"), float("inf")
        self.page_after: int | None = 0
        """At which look it answers; None: at none."""
        self.browser_after: float | list[float | None] | None = 0.0
        self.looks: list[float] = []
        self.pages: list[str] = []
        self.pace = SimpleNamespace(floods=False, counts={})
        self.crashed, self.asked, self.unanswered = False, False, None
        for name, value in changes.items():
            setattr(self, name, value)

    @property
    def driver(self) -> World:
        return self

    @property
    def frame(self) -> World:
        return self

    @property
    def loss(self) -> DriverLoss | None:
        return GONE if self.clock.time >= self.driver_ends else None

    async def examine(self, seconds: float) -> None:
        """Its pipe has not ended."""

    @property
    def alive(self) -> bool:
        return self.clock.time < self.browser_ends

    async def answers(self, seconds: float) -> bool:
        after = self.browser_after.pop(0) if isinstance(self.browser_after, list) else self.browser_after
        self.looks.append(seconds)
        self.clock.time += seconds if after is None else min(after, seconds)
        return after is not None and after <= seconds

    async def send(self, *_: Any) -> None:
        self.asked = True
        if self.page_after is None or len(self.looks) + 1 < self.page_after:
            await asyncio.sleep(3600)

    def scene(self, **fields: Any) -> FailureContext:
        page = SimpleNamespace(
            url="http://shop.test/", is_closed=lambda: not self.page_open, context=SimpleNamespace(pages=self.pages)
        )
        given = {"until": Deadline(0.0), "acts": True, **fields}
        control = SimpleNamespace(send=self.send)
        parts = (page, self, self, control, self.clock)
        names = ("page", "watch", "chromium", "control", "clock")
        return FailureContext(**cast("dict[str, Any]", dict(zip(names, parts, strict=True)) | given))


@pytest.mark.parametrize(
    ("changes", "text", "code"),
    [
        ({}, "", None),
        ({"driver_ends": -1.0, "browser_ends": -1.0, "crashed": True}, CLOSED, "DRIVER_GONE"),
        ({"browser_ends": -1.0, "crashed": True}, CLOSED, "BROWSER_CRASHED"),
        ({"crashed": True, "page_open": False}, CLOSED, "PAGE_CRASHED"),
        ({}, "Locator.click: Target crashed", "PAGE_CRASHED"),
        ({"page_open": False}, "", "PAGE_CLOSED"),
    ],
)
def test_the_outermost_process_that_is_gone_is_named(changes: dict[str, Any], text: str, code: str | None) -> None:
    failure = dead(text, World(**changes).scene())
    assert (failure.code if failure else None) == code


@pytest.mark.parametrize(
    ("text", "acts", "effect"),
    [
        (CLOSED, True, Effect.POSSIBLE),
        (CLOSED, False, Effect.NONE),
        (WAITING, True, Effect.NONE),
        (WAITING + "  - performing click action\n  - click action done\n", True, Effect.DONE),
    ],
)
def test_what_an_act_had_done_by_then(text: str, acts: bool, effect: Effect) -> None:
    failure = dead(text, World(page_open=False).scene(acts=acts))
    assert failure is not None
    assert failure.effect is effect


@pytest.mark.parametrize(
    ("pages", "ends", "code", "waited"),
    [
        ([], 0.1, "BROWSER_CRASHED", 0.1),
        ([], float("inf"), "PAGE_CLOSED", ENDING_SECONDS),
        (["another"], 0.1, "PAGE_CLOSED", 0.0),
    ],
    ids=["the browser ends too", "the last page closed itself", "another page is left"],
)
def test_a_closed_page_may_be_the_first_sign_of_a_browser_that_ends(
    pages: list[str], ends: float, code: str, waited: float
) -> None:
    world = World(page_open=False, pages=pages, browser_ends=ends)
    failure = asyncio.run(lost("", world.scene()))
    assert failure is not None
    assert failure.code == code
    assert world.clock.time == pytest.approx(waited, abs=0.03)


@pytest.mark.parametrize(
    ("driver_ends", "code", "waited"),
    [(0.05, "DRIVER_GONE", 0.05), (float("inf"), "BROWSER_CRASHED", DYING_SECONDS)],
    ids=["the driver dies too", "the browser alone"],
)
def test_a_browser_that_is_gone_may_be_the_first_sign_of_a_driver_that_was_killed(
    driver_ends: float, code: str, waited: float
) -> None:
    world = World(browser_ends=-1.0, driver_ends=driver_ends)
    failure = asyncio.run(lost("", world.scene()))
    assert failure is not None
    assert failure.code == code
    assert world.clock.time == pytest.approx(waited, abs=0.03)


@pytest.mark.parametrize(
    ("browser_after", "answer"),
    [(0.0, (False, True)), (None, (False, False))],
    ids=["prompt", "silent"],
)
def test_a_silent_page_is_to_blame_when_its_browser_answers_at_once(
    browser_after: float | None, answer: tuple[bool, bool]
) -> None:
    world = World(page_after=None, browser_after=browser_after)
    assert asyncio.run(who_answers(world.scene())) == answer


FIRST, SECOND = 0.1, 0.2
"""Seconds of the two looks."""
LATE = PROMPT * FIRST + 0.01


@pytest.mark.parametrize(
    ("page_after", "browser_after", "answer"),
    [
        (2, [LATE, 0.0], (True, True)),
        (2, [None, LATE], (True, True)),
        (2, [None, None], (True, True)),
        (None, [LATE, 0.0], (False, True)),
        (None, [None, 0.0], (False, True)),
        (None, [LATE, PROMPT * SECOND + 0.01], (True, True)),
        (None, [None, None], (False, False)),
    ],
    ids=[
        "the page was late, as its browser",
        "both were late",
        "a page that answers has a browser that does",
        "the browser was late, the page hangs",
        "the browser was very late, the page hangs",
        "the browser is late again: nothing is known of the page",
        "nobody answers",
    ],
)
def test_a_machine_too_busy_to_tell_is_looked_at_once_more(
    page_after: int | None,
    browser_after: list[float | None],
    answer: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.browser.failures.liveness.SECOND_LOOK", SECOND)
    world = World(page_after=page_after, browser_after=browser_after)
    assert asyncio.run(who_answers(world.scene(until=Deadline(FIRST - OVERTIME)))) == answer
    assert world.looks == pytest.approx([FIRST, SECOND])


def test_a_browser_that_was_stopped_is_not_waited_for_twice() -> None:
    world = World(page_after=None, browser_after=None, process=SimpleNamespace(stopped=True))
    assert asyncio.run(who_answers(world.scene())) == (False, False)
    assert len(world.looks) == 1


def test_a_page_that_waits_for_a_server_is_not_waited_for() -> None:
    """Each look at it would last to its end, long after the step's limit."""
    world = World(page_after=None, unanswered=object())
    assert asyncio.run(who_answers(world.scene())) == (True, True)
    assert not world.asked


def test_a_page_that_floods_its_browser_is_blamed_for_the_late_answer() -> None:
    world = World(page_after=None, browser_after=PROMPT * OVERTIME + 0.05)
    world.pace = SimpleNamespace(floods=True, counts={"requests": 400, "console lines": 7})
    assert asyncio.run(who_answers(world.scene())) == (False, True)
    failure = hung(world.scene(what="click #x", within=3.0), browser_answers=True)
    assert failure.code == "PAGE_UNRESPONSIVE"
    assert failure.message == (
        "the page floods the browser (400 requests, 7 console lines in a second): click #x exceeded 3s"
    )
    assert failure.details["flood"] == {"requests": 400, "console lines": 7}


@pytest.mark.parametrize(
    ("until", "look"), [(30.0, LOOK_SECONDS), (0.5, 0.5 + OVERTIME), (0.0, OVERTIME), (-1.0, SHORTEST_LOOK)]
)
def test_a_look_may_take_what_is_left_and_a_little_more(until: float, look: float) -> None:
    assert World().scene(until=Deadline(until)).look == pytest.approx(look)


def test_a_form_may_have_been_submitted_by_a_script_that_hangs() -> None:
    found = CallLog(('waiting for locator("#f")', "locator resolved to <form>"))
    assert performed(World().scene(submits=True), found) is Effect.POSSIBLE
    assert performed(World().scene(), found) is Effect.NONE
    assert performed(World().scene(submits=True), CallLog(found.lines[:1])) is Effect.NONE


@pytest.mark.fake_clock
@pytest.mark.parametrize("heavy", [True, False])
async def test_a_page_that_floods_is_asked_all_at_once(monkeypatch: pytest.MonkeyPatch, heavy: bool) -> None:
    """Who answers and what it shows are two questions with one bound, or its step would end long after its limit."""

    async def never(*_: object, **__: object) -> None:
        await asyncio.sleep(3600)

    async def late(*_: object) -> None:
        await asyncio.sleep(0.3)

    monkeypatch.setattr(classify, "ask", never)
    world = World(pace=SimpleNamespace(floods=True, heavy=heavy, counts={"requests": 400}), send=late)
    scene = world.scene(selector="#buy", what="click #buy", acts=False)
    began = asyncio.get_running_loop().time()
    failure = await failure_of(TimeoutError(), scene)
    assert asyncio.get_running_loop().time() - began <= OVERTIME + 0.01
    assert failure.code == ("PAGE_UNRESPONSIVE" if heavy else "STEP_TIMEOUT")
    assert ("floods the browser (400 requests" in failure.message) is heavy
