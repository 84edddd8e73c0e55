"""The pages of a task end with it, also when their context does not close: they would write into what comes next."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import psutil
import pytest

from harness.browser import PlaywrightSession
from harness.recovery import FULL
from harness.resilience.events import PagesEnded
from tests.browser.moments import until
from tests.browser.processes import tree, words
from tests.browser.stage import Stage, passed

SAVED = "/api/save"
SILENT_SECONDS = 0.5
"""The page saves 25 times in it."""


@pytest.fixture
def told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The events of the browsers, with a close that has no time: as if its HAR file took longer to write."""
    events: list[Any] = []
    monkeypatch.setattr("harness.browser.session.CLOSE_SECONDS", 0.0)
    monkeypatch.setattr("harness.browser.evidence.CLOSE_SECONDS", 0.0)
    monkeypatch.setattr(stage.browsers, "tell", events.append)
    return events


async def saving(stage: Stage, **fields: Any) -> PlaywrightSession:
    session = await stage.at("/saving", **fields)
    await until(lambda: stage.site.hits.get(SAVED, 0) > 3)
    return session


async def sent_later(stage: Stage) -> int:
    """The number of requests that come from now on; those that are on their way have arrived then."""
    await asyncio.sleep(0.1)
    before = stage.site.hits[SAVED]
    await asyncio.sleep(SILENT_SECONDS)
    return stage.site.hits[SAVED] - before


async def test_nothing_is_sent_after_a_close_that_takes_too_long_and_other_tasks_go_on(
    stage: Stage, told: list[Any]
) -> None:
    other, session = await stage.at("/fields", world="w-2"), await saving(stage)
    await session.close()
    assert await sent_later(stage) == 0
    assert told == [PagesEnded("w-1", 0.0, "context")]
    await passed(other, {"act": "type", "selector": "#text", "value": "still here"})


@pytest.mark.thorough
async def test_a_stopped_renderer_sends_nothing_when_it_goes_on(stage: Stage, told: list[Any]) -> None:
    session = await saving(stage)
    renderers = [each for each in tree(session) if "--type=renderer" in words(each)]
    for each in renderers:
        each.send_signal(signal.SIGSTOP)
    try:
        await session.close()
    finally:
        for each in renderers:
            if psutil.pid_exists(each.pid):
                each.send_signal(signal.SIGCONT)
    assert await sent_later(stage) == 0
    assert [type(each) for each in told] == [PagesEnded]


@pytest.mark.thorough
async def test_the_evidence_of_a_page_that_goes_on_sending_is_whole(stage: Stage, told: list[Any]) -> None:
    session = await saving(stage)
    (folder := stage.folder / "evidence").mkdir()
    evidence = await session.evidence(FULL, folder)
    assert {item.name: item.status for item in evidence.items}["network_logs.har"] == "taken"
    assert SAVED in (folder / "network_logs.har").read_text()
    assert await sent_later(stage) == 0
    assert told


def test_a_defect_of_ours_costs_one_artifact_and_the_manifest_says_so(
    run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_: object) -> None:
        raise RuntimeError("deque mutated during iteration")

    async def body() -> None:
        session = await stage.at("/fields")
        (folder := stage.folder / "evidence").mkdir()
        evidence = await session.evidence(FULL, folder)
        found = {item.name: item for item in evidence.items}
        why = "a defect of the harness: RuntimeError: deque mutated during iteration"
        assert (found["network_logs.har"].status, found["network_logs.har"].reason) == ("missed", why)
        assert {item.status for name, item in found.items() if name != "network_logs.har"} == {"taken"}

    monkeypatch.setattr("harness.browser.har.merge_har", breaks)
    run(body())
