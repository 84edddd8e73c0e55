"""A page without one of its scripts or stylesheets is not there; what is refused or late is named later."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from tests.browser.conftest import Run
from tests.browser.parts_site import PartsSite
from tests.browser.stage import SHOP, STEP, Stage, failed, passed

HOSTS = (SHOP, "cdn.test", "ads.test")


@pytest.fixture(scope="module")
def parts(run: Run[Any], browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PartsSite]:
    """The site, and a session that keeps its browser alive from test to test."""
    parts, stage = PartsSite(), Stage(browsers, site, tmp_path_factory.mktemp("parts"))
    holder = run(session_of(stage, parts))
    yield parts
    run(holder.close())
    parts.shutdown()
    parts.server_close()


def page(html: str) -> str:
    return f"http://{SHOP}/page?{quote(html)}"


def script(path: str, more: str = "") -> str:
    return f"<script src={path} {more}></script>"


async def session_of(stage: Stage, parts: PartsSite, **fields: Any) -> Any:
    hosts = dict.fromkeys(HOSTS, parts.port)
    return await stage.session(hosts=hosts, **{"allowed_domains": (SHOP, "cdn.test"), **fields})


NEEDED = {
    "reset": (script("/reset/a.js"), "NET_CONNECTION_RESET", "script", "/reset/a.js: net::ERR_CONNECTION_RESET"),
    "500": (script("/500/a.js"), "HTTP_SERVER_ERROR", "script", "/500/a.js: HTTP 500"),
    "503": (script("/503/a.js", "defer"), "HTTP_UNAVAILABLE", "script", "/503/a.js: HTTP 503"),
    "async": (script("/reset/b.js", "async"), "NET_CONNECTION_RESET", "script", "/reset/b.js"),
    "module": (script("/reset/c.js", "type=module"), "NET_CONNECTION_RESET", "script", "/reset/c.js"),
    "stylesheet": ("<link rel=stylesheet href=/reset/d.css>", "NET_CONNECTION_RESET", "stylesheet", "/reset/d.css"),
    "other-host": (script("http://cdn.test/500/e.js"), "HTTP_SERVER_ERROR", "script", "http://cdn.test/500/e.js"),
    "written": (
        "<script>document.head.append(Object.assign(document.createElement('script'), {src: '/reset/f.js'}))</script>",
        "NET_CONNECTION_RESET", "script", "/reset/f.js",
    ),
    "in-a-frame": (
        f"<iframe src='/page?{quote(script('/reset/h.js'))}'></iframe>", "NET_CONNECTION_RESET", "script", "/reset/h.js"
    ),
    "module-preload": (
        "<link rel=modulepreload href=/reset/i.js><script type=module>import '/reset/i.js'</script>",
        "NET_CONNECTION_RESET", "script", "/reset/i.js",
    ),
}  # fmt: skip


def test_a_page_without_a_part_that_it_needs_is_not_there(run: Run[Any], stage: Stage, parts: PartsSite) -> None:
    async def play() -> dict[str, Failure]:
        session = await session_of(stage, parts)
        return {name: await failed(session, {"act": "open", "url": page(html)}, 20)
                for name, (html, *_) in NEEDED.items()}  # fmt: skip

    for name, failure in run(play()).items():
        _, code, kind, named = NEEDED[name]
        assert (failure.code, failure.effect) == (code, Effect.POSSIBLE), (name, failure)
        assert failure.message.startswith(f"the page http://{SHOP}/page"), name
        assert f"without its {kind} " in failure.message, name
        assert named in failure.message, name
        assert failure.details["url"].startswith(f"http://{SHOP}/page"), name
        assert failure.details["resource"] in failure.message, name
        assert "routes:" in failure.hint, name


SPARE = {
    "not-found": script("/404/a.js"),
    "refused-by-status": script("/403/a.js"),
    "not-allowed": script("http://ads.test/ok/a.js"),
    "picture": "<img src=/reset/a.png>",
    "print": "<link rel=stylesheet media=print href=/reset/a.css>",
    "alternate": "<link rel='alternate stylesheet' title=x href=/reset/a.css>",
    "preload": "<link rel=preload as=script href=/reset/a.js>",
    "prefetch": "<link rel=prefetch as=script href=/reset/a.js>",
    "retried": '<script src=/once-reset/again.js onerror="document.head.append(Object.assign('
    "document.createElement('script'), {src: '/once-reset/again.js?retry=1'}))\"></script>",
    "late": "<script>addEventListener('load', () => setTimeout(() => import('/reset/l.js').catch(() => 0)))</script>",
}


def test_what_a_page_can_do_without_fails_no_step(run: Run[Any], stage: Stage, parts: PartsSite) -> None:
    async def play() -> dict[str, Passed]:
        session = await session_of(stage, parts)
        return {name: await passed(session, {"act": "open", "url": page(html)}) for name, html in SPARE.items()}

    opened = run(play())
    assert [name for name, outcome in opened.items() if "status" in outcome.details] == [*SPARE]


@pytest.mark.thorough
def test_without_allowed_domains_only_the_own_host_counts(run: Run[Any], stage: Stage, parts: PartsSite) -> None:
    async def play() -> Failure:
        session = await session_of(stage, parts, allowed_domains=())
        await passed(session, {"act": "open", "url": page(script("http://cdn.test/reset/a.js"))})
        return await failed(session, {"act": "open", "url": page(script("/reset/a.js"))}, 20)

    assert run(play()).details["resource"] == f"http://{SHOP}/reset/a.js"


@pytest.mark.thorough
def test_a_click_fails_by_the_page_that_it_opened(run: Run[Any], stage: Stage, parts: PartsSite) -> None:
    """Its GET may be sent again; the answer to a POST is not, unless the file says that the step may be repeated."""
    bad = script("/reset/a.js")

    async def play() -> list[Failure]:
        found = []
        for step in ({"act": "click"}, {"act": "submit"}, {"act": "submit", "effect": "idempotent"}):
            session = await session_of(stage, parts)
            form = f"<form method=post action='/posted?{quote(bad)}'><button id=post>go</button></form>"
            await passed(session, {"act": "open", "url": page(f"<a id=get href='{page(bad)}'>go</a>{form}")})
            found.append(await failed(session, {**step, "selector": "#get" if step["act"] == "click" else "#post"}, 20))
        return found

    click, submit, repeated = run(play())
    assert (click.details["method"], click.effect, click.retryable) == ("GET", Effect.DONE, True)
    assert click.details["url"] == page(bad)
    assert (submit.details["method"], submit.retryable, submit.act_done) == ("POST", False, True)
    assert "not sent again" in submit.message
    assert (repeated.details["method"], repeated.retryable) == ("POST", True)


@pytest.mark.thorough
def test_a_page_that_comes_while_a_step_waits_is_requested_again_before_it(
    run: Run[Any], stage: Stage, parts: PartsSite
) -> None:
    async def play(target: str) -> Failure:
        session = await session_of(stage, parts)
        leads = f'<script>setTimeout(() => location = "{target}", 500)</script>'
        await passed(session, {"act": "open", "url": page(leads)})
        return await failed(session, {"act": "wait", "selector": "#there"}, 20)

    for target in (page(script("/reset/a.js") + "<b id=there>b</b>"), f"http://{SHOP}/reset/page"):
        failure = run(play(target))
        assert (failure.code, failure.effect, failure.tainted) == ("NET_CONNECTION_RESET", Effect.NONE, True)
        assert failure.circumstances.opened_before


@pytest.mark.thorough
def test_a_later_failure_names_what_the_page_lacks(run: Run[Any], stage: Stage, parts: PartsSite) -> None:
    """Something was done on the page, so it is not opened again; on an untouched page, that is the failure."""
    late = "<button id=b onclick=\"import('/reset/lazy.js').catch(() => 0)\">b</button>"

    async def play() -> list[Failure]:
        session = await session_of(stage, parts)
        await passed(session, {"act": "open", "url": page(script("/404/x.js") + late)})
        named = await session.by_page(await failed(session, {"act": "click", "selector": "#none"}))
        await passed(session, {"act": "click", "selector": "#b", "expect_request": {"url": "*/lazy.js"}})
        both = await session.by_page(await failed(session, {"act": "click", "selector": "#none"}))
        other = await session_of(stage, parts)
        opened = await other.perform(STEP.validate_python({"act": "open", "url": page(script("/reset/x.js"))}), 20, 9)
        assert isinstance(opened, Failure)
        await passed(other, {"act": "open", "url": page(script("/reset/y.js", "async")), "until": "commit"})
        await other.perform(STEP.validate_python({"act": "wait", "value": 0.3}), 5, 5)
        again = await other.by_page(await failed(other, {"act": "click", "selector": "#none"}))
        return [named, both, again]

    named, both, again = run(play())
    assert (named.code, named.tainted) == ("ELEMENT_NOT_FOUND", False)
    assert f"came without its script http://{SHOP}/404/x.js: HTTP 404" in named.message
    assert named.hint.endswith(f"If the page needs http://{SHOP}/404/x.js (HTTP 404), look there first.")
    assert both.code == "ELEMENT_NOT_FOUND"
    assert "and 1 more" in both.message
    assert both.hint.startswith(f"Look first at http://{SHOP}/reset/lazy.js")
    assert [each.split(": ")[1] for each in both.details["missing_parts"]] == ["net::ERR_CONNECTION_RESET", "HTTP 404"]
    assert (again.code, again.tainted) == ("NET_CONNECTION_RESET", True)
    assert again.circumstances.opened_before
    assert again.details["instead_of"] == "ELEMENT_NOT_FOUND"


UNMET = Failure("ASSERTION_FAILED", "no element matches '#done'")
ASKING = """<script>fetch('/404/at-load.json')</script><button onclick="ask('/404/later.json')">A</button>
<button id=b onclick="ask('/500/save.json', {method: 'POST', body: 'x'})">B</button>
<script>const ask = (url, how) => fetch(url, how).then(() => document.title = url)</script>"""


async def test_bad_answers_to_a_page_and_its_scripts_are_named_in_a_later_failure(
    stage: Stage, parts: PartsSite
) -> None:
    session = await session_of(stage, parts)
    await passed(session, {"act": "open", "url": page(ASKING), "until": "load"})
    assert await session.by_page(UNMET) == UNMET, "what a page asks for as it loads it may be meant to do without"
    await passed(session, {"act": "click", "selector": "text=A"})
    await session.tab.page.wait_for_function("document.title === '/404/later.json'")
    named = await session.by_page(UNMET)
    assert named.details["bad_answers"] == [f"GET http://{SHOP}/404/later.json: HTTP 404"]
    await passed(session, {"act": "click", "selector": "#b"})
    await session.tab.page.wait_for_function("document.title === '/500/save.json'")
    named = await session.by_page(UNMET)
    assert named.details["bad_answers"][0] == f"POST http://{SHOP}/500/save.json: HTTP 500"
    said = f"the site answered POST http://{SHOP}/500/save.json with HTTP 500, and 1 more with an error"
    assert (named.code, named.message) == ("ASSERTION_FAILED", f"{UNMET.message}; {said}")
    assert named.hint.startswith(f"Look first at the site's log for POST http://{SHOP}/500/save.json")


@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        ({}, "HTTP_SERVER_ERROR", f"HTTP 500 from http://{SHOP}/500/; {UNMET.message}"),
        ({"status": 500}, "ASSERTION_FAILED", UNMET.message),
    ],
)
@pytest.mark.sampled(1)
async def test_an_assertion_about_the_error_that_a_form_got_fails_for_that_error(
    stage: Stage, parts: PartsSite, step: dict[str, Any], code: str, words: str
) -> None:
    session = await session_of(stage, parts)
    await passed(session, {"act": "open", "url": page("<form method=post action=/500/><button>Send</button></form>")})
    await passed(session, {"act": "click", "selector": "text=Send", **step})
    await session.tab.page.wait_for_url("**/500/")
    failure = await session.by_page(UNMET)
    assert (failure.code, failure.message) == (code, words)
    assert failure.circumstances.opened_before is (code == "HTTP_SERVER_ERROR")
    assert not failure.tainted, "a form is not sent again"
