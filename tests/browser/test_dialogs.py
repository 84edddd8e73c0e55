"""Dialogs: accepted unless a `dialog` step says otherwise, and told."""

from __future__ import annotations

from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.failure import Failure
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("selector", "told", "after"),
    [
        ("#alert", {"type": "alert", "message": "really?", "answer": "accept"}, "answered"),
        ("#confirm", {"type": "confirm", "message": "sure?", "answer": "accept"}, "confirm true"),
        ("#prompt", {"type": "prompt", "message": "who?", "answer": "accept", "text": "me"}, "prompt me"),
    ],
)
@pytest.mark.sampled(1)
def test_dialogs_are_accepted_and_told(run: Any, stage: Stage, selector: str, told: dict[str, str], after: str) -> None:
    async def body() -> None:
        session = await stage.at()
        outcome = await passed(session, {"act": "click", "selector": selector})
        assert outcome.details["dialogs"] == [told]
        assert await session.text("#out", None, 1) == after
        assert "dialogs" not in (await passed(session, {"act": "click", "selector": "#plain"})).details

    run(body())


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
@pytest.mark.sampled(4)
def test_the_next_dialog_is_answered_as_declared(
    run: Any, stage: Stage, answer: dict[str, str], selector: str, told: dict[str, str], after: str
) -> None:
    async def body() -> None:
        session = await stage.at()
        assert (await passed(session, {"act": "dialog", **answer})).details == {}
        outcome = await passed(session, {"act": "click", "selector": selector})
        [said] = outcome.details["dialogs"]
        assert {key: said[key] for key in ("answer", "text") if key in said} == told
        assert (await session.read(PageQuery("text", "#out"), 2)).strip() == after

    run(body())


def test_an_answer_is_kept_until_a_dialog_comes_and_is_used_once(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "dialog", "value": "dismiss"})
        await passed(session, {"act": "click", "selector": "#plain"})
        await passed(session, {"act": "open", "url": f"http://{SHOP}/?again"})
        for answer in ("confirm false", "confirm true"):
            await passed(session, {"act": "click", "selector": "#confirm"})
            await passed(session, {"act": "wait", "selector": "#out", "value": answer})

    run(body())


def test_a_later_answer_takes_the_place_of_an_earlier_one(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "dialog", "value": "dismiss"})
        await passed(session, {"act": "dialog", "text": "Eve"})
        await passed(session, {"act": "click", "selector": "#prompt"})
        assert await session.text("#out", None, 1) == "prompt Eve"

    run(body())


def test_a_dialog_of_a_page_that_is_being_opened(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at("/windows")
        await passed(session, {"act": "dialog", "text": "Ada"})
        await passed(session, {"act": "click", "selector": "#asking"})
        await passed(session, {"act": "switch_page", "value": "Asking"})
        await passed(session, {"act": "wait", "selector": "#said", "value": "Ada"})

    run(body())


def test_leaving_a_page_may_be_dismissed(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at("/leaving")
        await passed(session, {"act": "press", "selector": "#x", "value": "a"})
        await passed(session, {"act": "dialog", "value": "dismiss"})
        stayed = await passed(session, {"act": "click", "selector": "#go"})
        assert stayed.details["dialogs"][0]["type"] == "beforeunload"
        assert session.url == f"http://{SHOP}/leaving"
        await passed(session, {"act": "click", "selector": "#go"})
        await passed(session, {"act": "wait", "selector": "#ok"})

    run(body())


def test_a_text_for_what_takes_none_is_said(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "dialog", "text": "Ada"})
        await passed(session, {"act": "click", "selector": "#confirm"})
        assert (
            "[WARNING] the confirm takes no text, so the text of the answer was not entered"
            in session.tab.watch.console()
        )

    run(body())


def test_dialogs_without_end_block_the_page(run: Any, stage: Stage) -> None:
    async def body() -> None:
        session = await stage.at("/alerts")
        failure = await failed(session, {"act": "click", "selector": "#go"}, within=2, patience=1)
        assert (failure.code, failure.tainted) == ("DIALOG_BLOCKED", True)
        assert len(failure.details["dialogs"]) == 20

    run(body())


@pytest.mark.parametrize("how", ["restore", "renew"])
@pytest.mark.sampled(1)
def test_a_prepared_answer_outlives_the_page_it_was_prepared_on(run: Any, stage: Stage, how: str) -> None:
    async def body() -> None:
        session = await stage.at()
        await passed(session, {"act": "dialog", "value": "dismiss"})
        saved = await session.save(5)
        if how == "renew":
            assert await session.renew(Failure("STEP_TIMEOUT", "it took too long", tainted=True), 10) is None
        else:
            await passed(session, {"act": "click", "selector": "#confirm"})
            assert await session.restore(saved, 15, restart=False) == ()
        for answer in ("confirm false", "confirm true"):
            await passed(session, {"act": "click", "selector": "#confirm"})
            await passed(session, {"act": "wait", "selector": "#out", "value": answer})

    run(body())
