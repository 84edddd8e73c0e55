"""The ways back to a page in real Chromium: the answer to a write is asked for by none of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.model.record import Sent
from harness.recovery.failure import Failure
from tests.browser.stage import SHOP, Stage, failed, passed
from tests.browser.striking import strike

pytestmark = pytest.mark.filterwarnings("default")
CLICK = {"act": "click", "selector": "#plain"}
PAY = "<form method=%s action=%s><input type=hidden name=to value=/saved><button id=pay>Pay</button></form>"
WRITE = {"act": "submit", "selector": "#pay"}


async def paid(stage: Stage, method: str, action: str, **keys: Any) -> PlaywrightSession:
    """A session on the answer to a form that was sent once."""
    session = await stage.at("/saved")
    await session.tab.page.set_content(PAY % (method, f"http://{SHOP}{action}"))
    await passed(session, {**WRITE, **keys})
    return session


async def crashed(session: PlaywrightSession) -> Failure | None:
    """What the way back from a page that crashed says."""
    await strike(session, kind="page_crash")
    return await session.renew(await failed(session, CLICK), 15)


@pytest.mark.parametrize(
    ("method", "action", "keys"),
    [("post", "/status/200", {}), ("post", "/status/200", {"effect": "idempotent"})],
    ids=["post", "post-said-to-be-idempotent"],
)
@pytest.mark.sampled(1)
async def test_the_answer_to_a_write_is_not_asked_for_again(
    stage: Stage, method: str, action: str, keys: dict[str, Any]
) -> None:
    before = stage.site.hits.get(action, 0)
    session = await paid(stage, method, action, **keys)
    why = await crashed(session)
    assert why is not None
    assert (why.code, stage.site.hits[action] - before) == ("PAGE_CRASHED", 1)
    assert why.message.endswith("the page is the response to a write, and there is no checkpoint")


async def test_an_address_that_is_barred_is_not_asked_for_again(stage: Stage) -> None:
    before = stage.site.hits.get("/whoami", 0)
    session = await paid(stage, "get", "/whoami")
    await strike(session, kind="page_crash")
    why = await session.renew(await failed(session, CLICK), 15, "it came of a write")
    assert why is not None
    assert (why.code, stage.site.hits["/whoami"] - before) == ("OUTCOME_UNKNOWN", 1)
    assert why.message.endswith("it came of a write")


async def test_what_leaves_is_known_with_how_it_was_asked_for(stage: Stage) -> None:
    session = await paid(stage, "post", "/redirect?to=/saved")
    opened, *sent = session.take_sent()
    assert (opened.method, opened.url, opened.page) == ("GET", f"http://{SHOP}/saved", True)
    assert [(each.method, each.url, each.page, each.follows) for each in sent] == [
        ("POST", f"http://{SHOP}/redirect?to=/saved", True, False),
        ("GET", f"http://{SHOP}/saved", True, True),
    ]
    refused = "fetch('http://dead.test/', {method: 'POST'}).catch(() => 0)"
    await session.tab.page.set_content(f'<button id=pay type=button onclick="{refused}">x</button>')
    await passed(session, {"act": "click", "selector": "#pay"})
    (post,) = session.take_sent()
    while post.arrived:  # until the refusal is told
        await asyncio.sleep(0.01)
    assert not post.unsafe
    assert session.take_sent() == ()


@pytest.mark.thorough
async def test_what_leaves_is_told_before_its_answer_also_in_a_new_context(stage: Stage) -> None:
    """The site never answers."""
    session = await stage.at("/saved")
    assert await session.restore(await session.save(5), 15, restart=False) == ()
    heard: asyncio.Queue[Sent] = asyncio.Queue()
    session.begin_step(1, heard.put_nowait)
    never = f"fetch('http://{SHOP}/hang', {{method: 'POST'}}).catch(() => 0)"
    await session.tab.page.set_content(f'<button id=pay type=button onclick="{never}">x</button>')
    await passed(session, {"act": "click", "selector": "#pay"})
    left = await asyncio.wait_for(heard.get(), 10)
    assert (left.method, left.url) == ("POST", f"http://{SHOP}/hang")


@pytest.mark.parametrize(
    ("method", "action", "keys"),
    [("post", "/redirect?to=/saved", {}), ("get", "/redirect", {}), ("get", "/saved", {"effect": "idempotent"})],
    ids=["post-that-redirects", "get-that-redirects", "get-that-does-not-write"],
)
@pytest.mark.sampled(1)
async def test_a_page_that_is_not_itself_the_write_is_opened_again(
    stage: Stage, method: str, action: str, keys: dict[str, Any]
) -> None:
    sent = stage.site.hits.get("/redirect", 0)
    session = await paid(stage, method, action, **keys)
    assert await crashed(session) is None
    assert (session.url or "").startswith(f"http://{SHOP}/saved")
    assert stage.site.hits.get("/redirect", 0) - sent == ("redirect" in action)


@pytest.mark.thorough
async def test_a_page_that_was_opened_after_the_write_is_opened_again(stage: Stage) -> None:
    session = await paid(stage, "post", "/status/200")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert await crashed(session) is None
    await passed(session, CLICK)


INTO = """<a id=open href=/popup target=other>open</a>
<form method=post action=/saved target=other><button id=pay>pay</button></form>
<iframe srcdoc="<form method=post action=/saved><input id=typed oninput='this.form.submit()'></form>"></iframe>"""


@pytest.mark.parametrize(
    "step",
    [
        {"act": "click", "selector": "#pay"},
        {"act": "type", "selector": "#typed", "frame": "iframe", "value": "x"},
    ],
    ids=["into-another-open-page", "in-a-frame"],
)
@pytest.mark.thorough
async def test_a_form_whose_answer_is_shown_elsewhere_is_known_as_one(stage: Stage, step: dict[str, Any]) -> None:
    session = await stage.at("/")
    await session.tab.page.set_content(INTO)
    await passed(session, {"act": "click", "selector": "#open"})
    await passed(session, {"act": "switch_page", "value": 1})
    await passed(session, {"act": "switch_page", "value": 0})
    session.take_sent()
    await passed(session, step)
    sent: tuple[Any, ...] = ()
    while not sent:
        await asyncio.sleep(0.02)
        sent = session.take_sent()
    assert [(each.method, each.url, each.page) for each in sent] == [("POST", f"http://{SHOP}/saved", True)]


@pytest.mark.parametrize(("shown", "known"), [("/saved?clean", True), ("/saved#top", True), ("/other", False)])
@pytest.mark.thorough
async def test_what_a_script_makes_of_the_address_does_not_hide_that_of_the_document(
    stage: Stage, shown: str, known: bool
) -> None:
    session = await stage.at("/saved?order=1")
    await session.tab.page.evaluate("to => history.replaceState({}, '', to)", shown)
    await passed(session, {"act": "wait", "selector": "#ok"})
    expected = (f"http://{SHOP}{shown}", *[f"http://{SHOP}/saved?order=1"] * known)
    assert session.renewed_at == expected
    assert (await session.save(5)).addresses == expected
