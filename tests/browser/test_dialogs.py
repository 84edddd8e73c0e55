"""Dialogs: answered as Playwright does unless a `dialog` step says otherwise, told, and missed if they do not come."""

from __future__ import annotations

import pytest

from harness.criteria import PageQuery
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("selector", "told", "after"),
    [
        ("#alert", {"type": "alert", "message": "really?", "answer": "accept"}, "answered"),
        ("#confirm", {"type": "confirm", "message": "sure?", "answer": "dismiss"}, "confirm false"),
        ("#prompt", {"type": "prompt", "message": "who?", "answer": "dismiss"}, "prompt null"),
    ],
)
@pytest.mark.sampled(1)
async def test_a_dialog_that_nobody_asked_for_is_answered_as_playwright_does(
    stage: Stage, selector: str, told: dict[str, str], after: str
) -> None:
    session = await stage.at()
    session.begin_step(3, lambda _: None)
    outcome = await passed(session, {"act": "click", "selector": selector})
    assert outcome.details["dialogs"] == [told | {"step": 3, "declared": False}]
    assert await session.text("#out", None, 1) == after
    assert "dialogs" not in (await passed(session, {"act": "click", "selector": "#plain"})).details
    assert [each.message for each in session.dialogs] == [told["message"]]


@pytest.mark.parametrize(
    ("answer", "selector", "told", "after"),
    [
        ({"value": "dismiss"}, "#alert", {"answer": "dismiss"}, "answered"),
        ({"value": "dismiss"}, "#confirm", {"answer": "dismiss"}, "confirm false"),
        ({"value": "accept"}, "#confirm", {"answer": "accept"}, "confirm true"),
        ({"value": "dismiss"}, "#prompt", {"answer": "dismiss"}, "prompt null"),
        ({"text": "Ada"}, "#prompt", {"answer": "accept", "text": "Ada"}, "prompt Ada"),
        ({"text": ""}, "#prompt", {"answer": "accept", "text": ""}, "prompt"),
        ({}, "#prompt", {"answer": "accept", "text": "me"}, "prompt me"),
    ],
)
@pytest.mark.sampled(2)
async def test_the_next_dialog_is_answered_as_declared(
    stage: Stage, answer: dict[str, str], selector: str, told: dict[str, str], after: str
) -> None:
    session = await stage.at()
    assert (await passed(session, {"act": "dialog", **answer})).details == {}
    outcome = await passed(session, {"act": "click", "selector": selector})
    [said] = outcome.details["dialogs"]
    assert {key: said[key] for key in ("answer", "text") if key in said} == told
    assert (await session.read(PageQuery("text", "#out"), 2)).strip() == after


async def test_an_answer_is_kept_until_a_dialog_comes_and_is_used_once(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "dialog", "value": "accept"})
    await passed(session, {"act": "click", "selector": "#plain"})
    await passed(session, {"act": "open", "url": f"http://{SHOP}/?again"})
    for answer in ("confirm true", "confirm false"):
        await passed(session, {"act": "click", "selector": "#confirm"})
        await passed(session, {"act": "wait", "selector": "#out", "value": answer})


async def test_several_answers_wait_for_several_dialogs_each_for_its_own(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "dialog", "message": "sure?"})
    await passed(session, {"act": "dialog", "text": "Eve", "message": {"matches": "^who"}})
    await passed(session, {"act": "click", "selector": "#prompt"})
    assert await session.text("#out", None, 1) == "prompt Eve"
    await passed(session, {"act": "click", "selector": "#confirm"})
    assert await session.text("#out", None, 1) == "confirm true"


async def test_a_declared_dialog_that_does_not_come_is_the_failure_of_the_next_step_alone(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "dialog", "message": "really, really?"})
    session.begin_step(1, lambda _: None)
    await passed(session, {"act": "click", "selector": "#alert"})
    missing = await session.await_dialogs(0.05)
    assert missing is not None
    assert (missing.code, missing.effect, missing.act_done) == ("DIALOG_MISSING", Effect.DONE, True)
    assert "no dialog that says 'really, really?'" in missing.message
    assert "what came instead: alert 'really?' (accepted in step 1)" in missing.message
    session.begin_step(2, lambda _: None)
    assert await session.await_dialogs(0.05) is None
    await passed(session, {"act": "dialog", "optional": True})
    await passed(session, {"act": "click", "selector": "#plain"})
    assert await session.await_dialogs(0.05) is None


@pytest.mark.thorough
async def test_a_dialog_of_a_page_that_is_being_opened(stage: Stage) -> None:
    session = await stage.at("/windows")
    await passed(session, {"act": "dialog", "text": "Ada"})
    await passed(session, {"act": "click", "selector": "#asking"})
    await passed(session, {"act": "switch_page", "value": "Asking"})
    await passed(session, {"act": "wait", "selector": "#said", "value": "Ada"})


async def test_leaving_a_page_may_be_dismissed(stage: Stage) -> None:
    session = await stage.at("/leaving")
    await passed(session, {"act": "press", "selector": "#x", "value": "a"})
    await passed(session, {"act": "dialog", "value": "dismiss"})
    stayed = await passed(session, {"act": "click", "selector": "#go"})
    assert stayed.details["dialogs"][0]["type"] == "beforeunload"
    assert session.url == f"http://{SHOP}/leaving"
    await passed(session, {"act": "click", "selector": "#go"})
    await passed(session, {"act": "wait", "selector": "#ok"})


@pytest.mark.thorough
async def test_a_text_demanded_of_what_has_none_is_said(stage: Stage) -> None:
    session = await stage.at("/leaving")
    await passed(session, {"act": "press", "selector": "#x", "value": "a"})
    await passed(session, {"act": "dialog", "message": "Leave?"})
    session.begin_step(1, lambda _: None)
    await passed(session, {"act": "click", "selector": "#go"})
    missing = await session.await_dialogs(0.05)
    assert missing is not None
    assert "leave out `message`" in missing.hint


@pytest.mark.thorough
async def test_a_text_for_what_takes_none_is_said(stage: Stage) -> None:
    session = await stage.at()
    await passed(session, {"act": "dialog", "text": "Ada"})
    await passed(session, {"act": "click", "selector": "#confirm"})
    assert "[WARNING] the confirm takes no text, so the text of the answer was not entered" in map(
        str, session.tab.watch.console_lines()
    )


@pytest.mark.thorough
async def test_dialogs_without_end_block_the_page(stage: Stage) -> None:
    session = await stage.at("/alerts")
    failure = await failed(session, {"act": "click", "selector": "#go"}, within=2, patience=1)
    assert (failure.code, failure.tainted) == ("DIALOG_BLOCKED", True)
    assert len(failure.details["dialogs"]) == 20


@pytest.mark.parametrize("how", ["restore", "renew"])
@pytest.mark.thorough
async def test_a_prepared_answer_outlives_the_page_it_was_prepared_on(stage: Stage, how: str) -> None:
    session = await stage.at()
    await passed(session, {"act": "dialog", "value": "accept"})
    saved = await session.save(5)
    if how == "renew":
        assert await session.renew(Failure("STEP_TIMEOUT", "it took too long", tainted=True), 10) is None
    else:
        await passed(session, {"act": "click", "selector": "#confirm"})
        assert await session.restore(saved, 15, restart=False) == ()
    for answer in ("confirm true", "confirm false"):
        await passed(session, {"act": "click", "selector": "#confirm"})
        await passed(session, {"act": "wait", "selector": "#out", "value": answer})
