"""The gate for the writes of an agent: what the task does not declare never reaches the site."""

from __future__ import annotations

from typing import Any

import pytest

from harness.browser import PlaywrightSession, SessionRequest
from harness.browser.write_gate import WriteGate
from harness.model.policy import AllowedElement, WritePermission
from harness.recovery.failure import Failure
from harness.spec.url_patterns import RequestPattern
from tests.browser.stage import SHOP, Stage, passed, perform

NOTHING = WritePermission()
ORDER, PAY = {"act": "click", "selector": "#order"}, {"act": "click", "selector": "#pay"}
PAGE = f"http://{SHOP}/orders"


async def guarded(stage: Stage, permission: WritePermission | None = NOTHING) -> PlaywrightSession:
    """A session at the page with orders, whose gate lets only this pass."""
    stage.site.hits.clear()
    session = await stage.session(gate=WriteGate())
    await passed(session, {"act": "open", "url": PAGE})
    session.restrict(permission)
    return session


async def held_back(session: PlaywrightSession, step: dict[str, Any]) -> Failure:
    outcome = await perform(session, step)
    assert isinstance(outcome, Failure), outcome
    assert outcome.code == "POLICY_WRITE"
    return outcome


def hits(stage: Stage, path: str) -> int:
    return stage.site.hits.get(path, 0)


async def test_a_script_that_would_post_is_held_back_before_it_leaves(stage: Stage) -> None:
    session = await guarded(stage)
    failure = await held_back(session, ORDER)
    assert failure.details["url"] == f"http://{SHOP}/api/orders"
    assert failure.details["method"] == "POST"
    assert hits(stage, "/api/orders") == 0
    assert not any(each.unsafe for each in session.take_sent()), "it is no evidence of a write"
    seen = await session.observe(5, screenshot=False)
    assert seen.held_back == (f"POST http://{SHOP}/api/orders",)


async def test_a_form_that_would_post_is_held_back_and_its_page_stays(stage: Stage) -> None:
    session = await guarded(stage)
    enter = {"act": "press", "selector": "[name=card]", "value": "Enter"}
    for step in (PAY, enter, {"act": "submit", "selector": "#pay"}):
        session.restrict(NOTHING)
        assert (await held_back(session, step)).details["url"] == f"http://{SHOP}/paid"
    assert (session.url, hits(stage, "/paid")) == (PAGE, 0)


async def test_declared_requests_leave(stage: Stage) -> None:
    session = await guarded(stage, WritePermission(requests=(RequestPattern.parse("POST http://*/api/orders"),)))
    await passed(session, ORDER)
    await passed(session, {"act": "wait", "selector": "#out", "value": "404"})
    assert hits(stage, "/api/orders") == 1
    await held_back(session, PAY)


@pytest.mark.parametrize("selector", ["xpath=//form/button", "#pay", "button:text-is('Pay')"])
@pytest.mark.sampled(1)
async def test_an_act_on_a_declared_element_may_write_however_it_is_named(stage: Stage, selector: str) -> None:
    session = await guarded(stage, WritePermission(elements=(AllowedElement("form #pay"),)))
    await held_back(session, ORDER)
    session.restrict(WritePermission(elements=(AllowedElement("form #pay"),)))
    await passed(session, {"act": "click", "selector": selector})
    assert hits(stage, "/paid") == 1


@pytest.mark.thorough
async def test_an_element_may_be_allowed_for_some_requests_only(stage: Stage) -> None:
    allowed = AllowedElement("#order", None, RequestPattern.parse("POST http://*/refunds"))
    session = await guarded(stage, WritePermission(elements=(allowed,)))
    await held_back(session, ORDER)
    assert hits(stage, "/api/orders") == 0


@pytest.mark.thorough
async def test_a_bad_selector_is_told(stage: Stage) -> None:
    session = await guarded(stage, WritePermission(elements=(AllowedElement("##"),)))
    outcome = await perform(session, ORDER)
    assert isinstance(outcome, Failure)
    assert outcome.code == "INVALID_INPUT"
    assert "the selector ## of `allowed_writes`" in outcome.message


async def test_steps_of_the_file_and_declared_steps_may_write(stage: Stage) -> None:
    for permission in (None, WritePermission(everything=True)):
        session = await guarded(stage, permission)
        await passed(session, PAY)
        assert hits(stage, "/paid") == 1


@pytest.mark.thorough
async def test_what_comes_late_is_held_back_too(stage: Stage) -> None:
    session = await guarded(stage)
    await perform(session, {"act": "click", "selector": "#later"})
    await passed(session, {"act": "wait", "selector": "#out", "value": "failed"})
    assert hits(stage, "/api/orders") == 0


async def test_api_steps_pass_the_gate_too(stage: Stage) -> None:
    session = await guarded(stage)
    send = {"act": "api", "url": f"http://{SHOP}/api/orders", "method": "POST", "status": 404}
    await held_back(session, send)
    assert hits(stage, "/api/orders") == 0
    session.restrict(WritePermission(requests=(RequestPattern.parse(f"POST http://{SHOP}/api/*"),)))
    await passed(session, send)


async def test_a_look_that_makes_the_page_send_something_is_no_failure(stage: Stage) -> None:
    session = await guarded(stage)
    beat = "setInterval(() => navigator.sendBeacon('/api/beat', '1'), 60); undefined"
    await session.tab.page.evaluate(beat)
    await passed(session, {"act": "wait", "value": 0.3})
    await passed(session, {"act": "type", "selector": "[name=card]", "value": "4321"})
    assert hits(stage, "/api/beat") == 0
    assert (await session.observe(5, screenshot=False)).held_back == (f"POST http://{SHOP}/api/beat",)


def test_no_service_worker_sends_past_the_gate(stage: Stage) -> None:
    request = SessionRequest(world="w", folder=stage.folder, uploads=stage.folder, gate=WriteGate())
    assert request.emulated({})["service_workers"] == "block"
