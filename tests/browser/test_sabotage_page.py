"""Faults done to pages: what a step meets, on this page and on those that come after, and how it is healed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page

from harness.browser import PlaywrightSession
from harness.criteria import PageQuery
from harness.recovery.failure import Failed, Failure
from tests.browser.hosts import Answer, Asked, Host
from tests.browser.moments import stretched
from tests.browser.stage import SHOP, Stage, failed, passed
from tests.browser.striking import strike

pytestmark = pytest.mark.filterwarnings("default")
STRICT = {"Content-Security-Policy": "default-src 'self'; style-src 'self'; script-src 'self'; form-action 'self'"}
FORM = """<!doctype html><title>Form</title>
<style>.hidden { display: none } #send.big { width: 321px } @media all { .row input { border: 7px solid } }</style>
<form action=/sent class=row><label for=who>Who</label><input id=who name=who aria-describedby="hint out">
<label><input type=radio name=size value=s>S</label><label><input type=radio name=size value=l>L</label>
<button id=send class="big main">Send</button></form>
<p id=hint>hint</p><p id=out>nothing</p><p id=secret class=hidden>secret</p><a class=jump href="#out">jump</a>
<button class=show onclick="document.querySelector('.hidden').classList.remove('hidden')">Show</button>
<script>
  document.getElementById('send').addEventListener('mouseover', () => { out.textContent = 'over ' + size() });
  const size = () => document.querySelectorAll('form.row [name="size"]:checked').length;
</script>"""
LATER = """<!doctype html><title>Later</title><p id=host></p><div id=box></div><script>
  host.attachShadow({mode: 'open'}).innerHTML = '<button id=deep>Deep</button>';
  setInterval(() => { if (!document.querySelector('#new')) box.innerHTML = '<button id=new disabled>New</button>';
    document.querySelector('#new').disabled = false }, 20);
</script>"""
STRIKES = [
    ("missing", "ELEMENT_NOT_FOUND"),
    ("renamed", "ELEMENT_NOT_FOUND"),
    ("moved", "ELEMENT_UNSTABLE"),
    ("covered", "ELEMENT_COVERED"),
    ("disabled", "ELEMENT_DISABLED"),
    ("detached", "ELEMENT_UNSTABLE"),
]


def page_of(session: PlaywrightSession) -> Page:
    return session.tab.page


async def met_with(session: PlaywrightSession, step: dict[str, Any], code: str) -> None:
    """A step that must fail so. Whether an element stands still is known only after some frames were drawn."""
    within, patience = (2.4, stretched(1.6)) if code == "ELEMENT_UNSTABLE" else (1.6, 0.4)
    failure = await failed(session, step, within=stretched(within), patience=patience)
    assert failure.code == code, failure


@pytest.fixture(scope="module")
def host(run: Any, browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A site whose pages forbid all that is not its own: scripts, styles and forms; but for `/` and `/later`.

    A session keeps its browser alive from test to test.
    """

    def answer(asked: Asked) -> Answer:
        if asked.path in ("/", "/later"):
            return Answer(FORM if asked.path == "/" else LATER)
        return Answer("<!doctype html><button id=plain>Plain</button>", headers=STRICT)

    host = Host(answer)
    run(host.start())
    holder = run(Stage(browsers, site, tmp_path_factory.mktemp("host")).session(hosts={SHOP: host.port}))
    yield host
    run(holder.close())
    run(host.stop())


async def at(stage: Stage, host: Host, path: str) -> PlaywrightSession:
    return await stage.at(path, hosts={SHOP: host.port})


@pytest.mark.parametrize(
    "selector", ["#plain", pytest.param("#next", marks=pytest.mark.thorough)], ids=["button", "link"]
)
@pytest.mark.parametrize(("kind", "code"), STRIKES)
@pytest.mark.sampled(1)
async def test_what_a_step_meets(stage: Stage, kind: str, code: str, selector: str) -> None:
    click = {"act": "click", "selector": selector}
    session = await stage.at()
    struck = await strike(session, kind=kind, selector=selector)
    assert await struck.mets() == 1
    await met_with(session, click, code)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    await met_with(session, click, code)
    assert await struck.mets(2) == 2
    await struck.healed()
    await passed(session, click)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    await passed(session, click)
    assert struck.count == 2


@pytest.mark.parametrize(
    ("kind", "code"), [STRIKES[0], *(pytest.param(*each, marks=pytest.mark.thorough) for each in STRIKES[1:])]
)
async def test_a_page_with_a_strict_policy(stage: Stage, host: Host, kind: str, code: str) -> None:
    session = await at(stage, host, "/strict")
    struck = await strike(session, kind=kind, selector="#plain")
    await met_with(session, {"act": "click", "selector": "#plain"}, code)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/strict?again"})
    await met_with(session, {"act": "click", "selector": "#plain"}, code)
    await struck.healed()
    await passed(session, {"act": "click", "selector": "#plain"})
    assert not [line for line in map(str, session.tab.watch.console_lines()) if line.startswith("[ERROR] Uncaught")]


@pytest.mark.parametrize(("kind", "code"), STRIKES[:5:2])
@pytest.mark.thorough
async def test_a_context_that_takes_the_place_of_this_one(stage: Stage, kind: str, code: str) -> None:
    session = await stage.at()
    before = page_of(session)
    struck = await strike(session, kind=kind, selector="#plain")
    assert await session.renew(Failure("BROWSER_UNRESPONSIVE", "silent"), 10) is None
    assert page_of(session).context is not before.context
    await met_with(session, {"act": "click", "selector": "#plain"}, code)
    assert await struck.mets(2) == 2
    await struck.healed()
    await passed(session, {"act": "click", "selector": "#plain"})
    assert await session.renew(Failure("BROWSER_UNRESPONSIVE", "silent"), 10) is None
    await passed(session, {"act": "click", "selector": "#plain"})


async def test_frames_and_popups(stage: Stage) -> None:
    session = await stage.at()
    struck = await strike(session, kind="missing", selector="#in, p")
    assert (await failed(session, {"act": "click", "selector": "#in", "frame": "#inner"})).code == "ELEMENT_NOT_FOUND"
    await passed(session, {"act": "click", "selector": "#popup"})
    await passed(session, {"act": "switch_page", "url": f"http://{SHOP}/popup"})
    assert (await failed(session, {"act": "click", "selector": "p"})).code == "ELEMENT_NOT_FOUND"
    assert await struck.mets(3) == 3
    await struck.healed()
    assert await session.text("p", None, 1) == "popup"
    await passed(session, {"act": "switch_page", "value": 0})
    await passed(session, {"act": "click", "selector": "#in", "frame": "#inner"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("missing", "ELEMENT_NOT_FOUND"),
        pytest.param("disabled", "ELEMENT_DISABLED", marks=pytest.mark.thorough),
        pytest.param("moved", "ELEMENT_UNSTABLE", marks=pytest.mark.thorough),
    ],
)
async def test_elements_that_the_pages_scripts_make(stage: Stage, host: Host, kind: str, code: str) -> None:
    session = await at(stage, host, "/later")
    struck = await strike(session, kind=kind, selector="#new, #deep")
    for selector in ("#new", "#deep"):
        await met_with(session, {"act": "click", "selector": selector}, code)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/later?again"})
    for selector in ("#new", "#deep"):
        await met_with(session, {"act": "click", "selector": selector}, code)
    await struck.healed()
    for selector in ("#new", "#deep"):
        await passed(session, {"act": "click", "selector": selector})


@pytest.mark.thorough
async def test_missing_elements_come_back_where_and_as_they_were(stage: Stage) -> None:
    session = await stage.at()
    page = page_of(session)
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    before = await page.evaluate("document.body.innerHTML.replace(/left: \\d+px/, '')")
    struck = await strike(session, kind="missing", selector="form, #name, #plain")
    assert await session.read(PageQuery("count", "#name"), 1) == 0
    await struck.healed()
    assert await page.evaluate("document.body.innerHTML.replace(/left: \\d+px/, '')") == before
    assert await page.evaluate("document.querySelector('#name').value") == "Ada"
    await passed(session, {"act": "click", "selector": "#plain"})
    assert await session.text("#out", None, 1) == "clicked"


@pytest.mark.thorough
async def test_a_renamed_page_works_as_before(stage: Stage, host: Host) -> None:
    session = await at(stage, host, "/")
    struck = await strike(session, kind="renamed")
    for _ in range(2):  # as it stands, and as it loads
        await passed(session, {"act": "type", "selector": "role=textbox[name='Who']", "value": "Ada"})
        await passed(session, {"act": "check", "selector": "role=radio[name='S']"})
        await passed(session, {"act": "check", "selector": "role=radio[name='L']"})
        await passed(session, {"act": "hover", "selector": "role=button[name='Send']"})
        assert await session.text("text=over", None, 1) == "over 1"
        sizes = "e => [e.offsetWidth, getComputedStyle(document.querySelector('form input')).borderTopWidth]"
        assert await page_of(session).get_by_role("button", name="Send").evaluate(sizes) == [321, "7px"]
        await passed(session, {"act": "click", "selector": "role=button[name='Show']"})
        await passed(session, {"act": "click", "selector": "text=secret"})
        assert (await failed(session, {"act": "click", "selector": "#send"})).code == "ELEMENT_NOT_FOUND"
        assert await session.read(PageQuery("count", ".main, [name=who], .row"), 1) == 0
        await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    await passed(session, {"act": "type", "selector": "role=textbox[name='Who']", "value": "Eve"})
    await passed(session, {"act": "click", "selector": "role=button[name='Send']"})
    assert host.asked[-1].query == {"who": "Eve"}
    assert struck.count >= 3


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_names(run: Any, stage: Stage) -> None:
    async def names(seed: int) -> list[str]:
        session = await stage.at()
        struck = await strike(session, seed=seed, kind="renamed")
        read = "[...document.querySelectorAll('[id]')].map(e => e.id)"
        found: list[str] = await page_of(session).evaluate(read)
        await struck.healed()
        assert "plain" in await page_of(session).evaluate(read)
        return found

    async def body() -> None:
        first, again, other = await names(1), await names(1), await names(2)
        assert first == again
        assert len(set(first)) == len(first) > 10
        assert not {"plain", "out", *other} & set(first)

    run(body())


@pytest.mark.thorough
async def test_late_elements_appear_after_their_time_on_each_page(stage: Stage) -> None:
    click = {"act": "click", "selector": "#plain"}
    session = await stage.at()
    struck = await strike(session, kind="late", selector="#plain", seconds=1.2)
    for _ in range(2):
        assert (await failed(session, click, within=0.4, patience=0.3)).code == "ELEMENT_NOT_FOUND"
        await passed(session, click, patience=3)
        assert await session.text("#out", None, 1) == "clicked"
        await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert struck.count == 3


@pytest.mark.parametrize("kind", ["alert", "confirm", "prompt"])
@pytest.mark.sampled(1)
async def test_a_dialog_comes_up_during_the_step(stage: Stage, kind: str) -> None:
    session = await stage.at()
    struck = await strike(session, kind="dialog", type=kind, message="surprise")
    outcome = await passed(session, {"act": "wait", "value": 0.5})
    assert [each["message"] for each in outcome.details["dialogs"]] == ["surprise"]
    assert struck.count == 1
    await struck.healed()


@pytest.mark.thorough
async def test_a_question_on_leaving(stage: Stage) -> None:
    session = await stage.at()
    struck = await strike(session, kind="dialog", type="beforeunload")
    assert struck.count == 0
    outcome = await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    assert [each["type"] for each in outcome.details["dialogs"]] == ["beforeunload"]
    assert struck.count == 1


@pytest.mark.thorough
async def test_an_alert_on_each_load(stage: Stage) -> None:
    session = await stage.at()
    struck = await strike(session, kind="alert_on_load", message="cookies!")
    assert struck.count == 0
    outcome = await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert [each["message"] for each in outcome.details["dialogs"]] == ["cookies!"]
    await struck.healed()
    assert "dialogs" not in (await passed(session, {"act": "open", "url": f"http://{SHOP}/"})).details
    assert struck.count == 1


@pytest.mark.thorough
async def test_a_popup(stage: Stage) -> None:
    session = await stage.at()
    struck = await strike(session, kind="popup", url="/popup")
    failure = await failed(session, {"act": "click", "selector": "#never"})
    assert failure.details["popups"] == [f"http://{SHOP}/popup"]
    await passed(session, {"act": "switch_page", "url": f"http://{SHOP}/popup"})
    assert struck.count == 1


@pytest.mark.thorough
async def test_a_selector_that_is_none(stage: Stage) -> None:
    session = await stage.at()
    with pytest.raises(Failed) as raised:
        await strike(session, kind="missing", selector="role=button[")
    assert raised.value.failure.code == "INVALID_INPUT"
    assert "not a CSS selector" in raised.value.failure.message
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert not [line for line in map(str, session.tab.watch.console_lines()) if "Uncaught" in line]


@pytest.mark.thorough
async def test_an_element_that_is_not_there_is_not_struck(stage: Stage) -> None:
    session = await stage.at("/saved")
    struck = await strike(session, kind="missing", selector="#plain")
    await passed(session, {"act": "click", "selector": "#ok"})
    assert struck.count == 0
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    assert await struck.mets() == 1


async def test_without_a_fault_nothing_is_in_the_page(stage: Stage) -> None:
    session = await stage.at()
    traces = "['__harness_met' in window, Object.getOwnPropertySymbols(document).length, Date.name]"
    assert await page_of(session).evaluate(traces) == [False, 0, "Date"]
