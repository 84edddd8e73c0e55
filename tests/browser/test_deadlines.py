"""Hard deadlines: whatever hangs, a call ends at most half a second late, and the next one works."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.dialogs import DIALOGS
from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from tests.browser.moments import LOADED, hung, stretched
from tests.browser.processes import gone, signal_tree
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
OVERSHOOT = 0.5
STEPS: tuple[dict[str, Any], ...] = (
    {"act": "click", "selector": "#x"},
    {"act": "wait", "selector": "#never"},
    {"act": "scroll"},
    {"act": "press", "value": "Tab"},
    {"act": "submit", "selector": "#x"},
    {"act": "open", "url": f"http://{SHOP}/saved"},
)


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    spent = time.monotonic() - started
    assert spent <= seconds + OVERSHOOT + LOADED


async def timed(session: PlaywrightSession, step: dict[str, Any], within: float | None = None) -> Failure:
    within = stretched(0.5) if within is None else within
    with at_most(within):
        return await failed(session, step, within=within, patience=within)


@pytest.mark.parametrize("tracing", ["off", "on"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["act"])
@pytest.mark.sampled(1)
async def test_page_in_an_endless_loop(stage: Stage, step: dict[str, Any], tracing: str) -> None:
    session = await stage.at("/loop", tracing=tracing)
    await hung(session)
    failure = await timed(session, step)
    assert (failure.code, failure.tainted) == ("PAGE_UNRESPONSIVE", True)


@pytest.mark.parametrize("tracing", ["off", pytest.param("on", marks=pytest.mark.thorough)])
@pytest.mark.thorough
async def test_loop_in_a_click_handler(stage: Stage, tracing: str) -> None:
    session = await stage.at(tracing=tracing)
    failure = await timed(session, {"act": "click", "selector": "#loop"})
    assert (failure.code, failure.tainted) == ("PAGE_UNRESPONSIVE", True)
    assert failure.effect is Effect.POSSIBLE


@pytest.mark.thorough
async def test_page_that_hangs_while_parsing(stage: Stage) -> None:
    session = await stage.session()
    failure = await timed(session, {"act": "open", "url": f"http://{SHOP}/parse-loop"})
    assert (failure.code, failure.tainted) == ("PAGE_UNRESPONSIVE", True)


@pytest.mark.parametrize("act", ["open", "api"])
@pytest.mark.sampled(1)
async def test_server_that_never_answers(stage: Stage, act: str) -> None:
    session = await stage.at()
    failure = await timed(session, {"act": act, "url": f"http://{SHOP}/hang"})
    assert (failure.code, failure.tainted) == ("NET_TIMEOUT", False)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "code"), [("to-hang", "NET_TIMEOUT"), ("half-headers", "NET_TIMEOUT"), ("half", "STEP_TIMEOUT")]
)
@pytest.mark.sampled(1)
async def test_server_that_stops_half_way(stage: Stage, path: str, code: str) -> None:
    session = await stage.at()
    assert (await timed(session, {"act": "open", "url": f"http://{SHOP}/{path}"})).code == code
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})


async def test_endless_dialogs(stage: Stage) -> None:
    session = await stage.at("/alerts")
    failure = await timed(session, {"act": "click", "selector": "#go"})
    assert (failure.code, failure.tainted) == ("DIALOG_BLOCKED", True)
    assert 0 < len(failure.details["dialogs"]) <= DIALOGS
    with at_most(5):
        assert await session.renew(failure, 5) is None
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})


@pytest.mark.thorough
async def test_reading_a_hung_page(stage: Stage) -> None:
    session = await stage.at("/loop")
    await hung(session)
    for function in ("title", "exists"):
        with at_most(0.5), pytest.raises(Failed) as raised:
            await session.read(PageQuery(function, "#x"), 0.5)
        assert raised.value.failure.code == "PAGE_UNRESPONSIVE"
    with at_most(0.5):
        text = await session.text("#x", None, 0.5)
    assert isinstance(text, Failure)
    assert text.code == "PAGE_UNRESPONSIVE"
    with at_most(0.5):
        assert await session.screenshot("shot", 0.5) is None


@pytest.mark.thorough
@pytest.mark.parametrize("step", [STEPS[0], STEPS[2], STEPS[5]], ids=lambda step: step["act"])
@pytest.mark.sampled(1)
async def test_stopped_browser(stage: Stage, step: dict[str, Any]) -> None:
    session = await stage.at(hosts={SHOP: stage.site.port}, recording="minimal")
    pid = session.chromium.pid
    signal_tree(session, signal.SIGSTOP)
    failure = await timed(session, step)
    assert (failure.code, failure.tainted) == ("BROWSER_UNRESPONSIVE", True)
    with at_most(3.5):
        await session.close()
    assert gone(pid)


async def test_stopped_browser_is_replaced(stage: Stage) -> None:
    session = await stage.at(hosts={SHOP: stage.site.port})
    signal_tree(session, signal.SIGSTOP)
    failure = await timed(session, {"act": "click", "selector": "#plain"})
    with at_most(10):
        assert await session.renew(failure, 10) is None
    await passed(session, {"act": "click", "selector": "#plain"})
