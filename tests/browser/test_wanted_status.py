"""`status` of acts that open pages, and `until` of `open`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from harness.recovery.failure import Failure, Passed
from harness.spec.step_keys import as_statuses
from tests.browser.conftest import Run
from tests.browser.parts_site import PartsSite
from tests.browser.stage import SHOP, Stage, failed, passed


@pytest.fixture(scope="module")
def answers(run: Run[Any], browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PartsSite]:
    """The site, and a session that keeps its browser alive from test to test."""
    answers, stage = PartsSite(), Stage(browsers, site, tmp_path_factory.mktemp("answers"))
    holder = run(session_of(stage, answers))
    yield answers
    run(holder.close())
    answers.shutdown()
    answers.server_close()


LOGIN = "<form method=post action=/403/login?{}><input type=password id=p><button id=in>Log in</button></form>"
REFUSED = f"<p id=why>wrong password</p>{LOGIN.format('again')}"


def at(path: str, html: str = "") -> str:
    return f"http://{SHOP}{path}?{quote(html)}"


async def session_of(stage: Stage, site: PartsSite) -> Any:
    return await stage.session(hosts={SHOP: site.port}, allowed_domains=(SHOP,))


def test_a_wanted_answer_is_a_page_like_any_other(run: Run[Any], stage: Stage, answers: PartsSite) -> None:
    """Its text is read, its elements are acted on, and neither a missing element nor a password field makes it one
    that refuses; an answer without a body, for which the browser shows its own page, is one, too."""

    async def play() -> list[Any]:
        session = await session_of(stage, answers)
        await passed(session, {"act": "open", "url": at("/page", LOGIN.format(quote(REFUSED)))})
        await passed(session, {"act": "type", "selector": "#p", "value": "wrong"})
        sent = await passed(session, {"act": "submit", "selector": "#in", "status": [401, 403]})
        why = await session.text("#why", None, 5)
        absent = await failed(session, {"act": "click", "selector": "#none"})
        found = [await passed(session, {"act": "open", "url": at(f"/{status}/empty"), "status": status})
                 for status in (401, 404, 500, 503)]  # fmt: skip
        assert answers.hits["POST /403/login"] == 1
        link = await session_of(stage, answers)
        for step in ({"act": "click"}, {"act": "press", "value": "Enter"}):
            html = f"<a id=a href='{at('/404/x', '<p id=no>no</p>')}'>x</a>"
            await passed(link, {"act": "open", "url": at("/page", html)})
            found.append(await passed(link, {**step, "selector": "#a", "status": 404}))
            assert await link.text("#no", None, 5) == "no"
        return [sent, why, absent, *found]

    sent, why, absent, *found = run(play())
    assert sent.details["status"] == 403
    assert why == "wrong password"
    assert absent.code == "ELEMENT_NOT_FOUND"
    assert [each.details["status"] for each in found] == [401, 404, 500, 503, 404, 404]


UNLIKE: dict[str, tuple[dict[str, Any], str, int | None]] = {
    "found-200": ({"act": "open", "url": at("/page"), "status": 404}, "HTTP 200 from", 200),
    "found-403": ({"act": "open", "url": at("/403/x", "x"), "status": [404, 410]}, "expected 404 or 410", 403),
    "click": ({"act": "click", "selector": "#a", "status": 403}, "HTTP 404 from", 404),
    "no-page": ({"act": "click", "selector": "#b", "status": 403}, "no page was requested within", None),
    "new-page": ({"act": "click", "selector": "#c", "status": 404}, "declare `status` at its `switch_page`", None),
}


@pytest.mark.parametrize("name", UNLIKE)
@pytest.mark.sampled(2)
def test_another_answer_than_the_wanted_one_is_a_failure(
    run: Run[Any], stage: Stage, answers: PartsSite, name: str
) -> None:
    step, words, status = UNLIKE[name]

    async def play() -> Failure:
        session = await session_of(stage, answers)
        links = (
            f"<a id=a href={at('/404/x', 'x')}>a</a><b id=b>b</b><a id=c target=_blank href={at('/404/x', 'x')}>c</a>"
        )
        await passed(session, {"act": "open", "url": at("/page", links)})
        return await failed(session, step, 20, 1)

    failure = run(play())
    assert failure.code == "HTTP_UNEXPECTED_STATUS"
    assert words in failure.message
    assert failure.details["status"] == status
    assert failure.details["expected_status"] == list(as_statuses(step["status"]))


def test_what_a_retry_may_change_keeps_its_own_code(run: Run[Any], stage: Stage, answers: PartsSite) -> None:
    async def play() -> list[Failure]:
        session = await session_of(stage, answers)
        down = await failed(session, {"act": "open", "url": at("/503/x", "x"), "status": 404}, 20)
        plain = await failed(session, {"act": "open", "url": at("/403/x", "x")}, 20)
        return [down, plain]

    down, plain = run(play())
    assert (down.code, down.message.partition(", ")[2]) == ("HTTP_UNAVAILABLE", "expected 404")
    assert plain.code == "AUTHENTICATION_FAILED"
    assert "if the refusal is wanted" in plain.hint
    assert "`status: 403`" in plain.hint


@pytest.mark.thorough
def test_a_new_page_may_be_answered_as_wanted(run: Run[Any], stage: Stage, answers: PartsSite) -> None:
    async def play() -> tuple[Failure, Passed, Any]:
        session = await session_of(stage, answers)
        opened = f"<a id=c target=_blank href='{at('/404/x', '<p id=no>no</p>')}'>c</a>"
        await passed(session, {"act": "open", "url": at("/page", opened)})
        await passed(session, {"act": "click", "selector": "#c"})
        refused = await failed(session, {"act": "switch_page", "value": -1}, 20, 5)
        await passed(session, {"act": "switch_page", "value": 0})
        return refused, await passed(session, {"act": "switch_page", "value": -1, "status": 404}), session

    refused, turned, session = run(play())
    assert refused.code == "HTTP_NOT_FOUND"
    assert turned.details["status"] == 404
    assert run(session.text("#no", None, 5)) == "no"


@pytest.mark.thorough
def test_a_wanted_answer_may_come_again_when_its_page_was_lost(run: Run[Any], stage: Stage, answers: PartsSite) -> None:
    async def play() -> tuple[Any, Any]:
        session = await session_of(stage, answers)
        await passed(session, {"act": "open", "url": at("/404/x", "<p id=no>no</p>"), "status": 404})
        return await session.renew(Failure("STEP_TIMEOUT", "late", tainted=True), 20), session

    failure, session = run(play())
    assert failure is None
    assert run(session.text("#no", None, 5)) == "no"


def test_a_page_counts_as_opened_when_the_step_says(run: Run[Any], stage: Stage) -> None:
    """`/slow` has a picture that never comes."""

    async def play() -> list[Any]:
        session = await stage.session()
        step = {"act": "open", "url": f"http://{SHOP}/slow"}
        early = [await passed(session, {**step, "until": until}) for until in ("commit", "domcontentloaded")]
        text = await session.text("#x", None, 5)
        return [*early, text, await failed(session, step, 1)]

    *early, text, late = run(play())
    assert [each.details["status"] for each in early] == [200, 200]
    assert text == "x"
    assert late.code == "STEP_TIMEOUT"
    assert f"http://{SHOP}/hang has not ended; the page itself has loaded" in late.message
    assert "`until: domcontentloaded`" in late.hint


@pytest.mark.thorough
def test_a_screenshot_says_which_fonts_it_waits_for(run: Run[Any], stage: Stage) -> None:
    font = "<script>document.fonts.add(new FontFace('f', 'url(/hang)')); document.fonts.forEach(f => f.load())</script>"

    async def play() -> Failure:
        session = await stage.at("/saved")
        await session.tab.page.evaluate("html => { document.write(html) }", font + "<p style='font-family: f'>x</p>")
        return await failed(session, {"act": "screenshot", "screenshot_id": "s"}, 2)

    failure = run(play())
    assert failure.code == "STEP_TIMEOUT"
    assert f"it waits for the page's fonts, and http://{SHOP}/hang did not end" in failure.message
