"""Every failure the browser can show, produced for real."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import Any

import pytest

from harness.browser import Browsers
from harness.browser.os_process import runs
from harness.criteria import PageQuery
from harness.model.browser_settings import BrowserSettings
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from harness.resilience import SystemClock
from harness.spec.names import seconds
from tests.browser.moments import stretched, until
from tests.browser.site import PAGES
from tests.browser.stage import DEAD, OTHER, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize(
    ("path", "code", "net_error"),
    [
        ("reset", "NET_CONNECTION_RESET", "net::ERR_CONNECTION_RESET"),
        ("empty", "NET_EMPTY_RESPONSE", "net::ERR_EMPTY_RESPONSE"),
        ("truncated", "NET_CONNECTION_RESET", "net::ERR_CONTENT_LENGTH_MISMATCH"),
        ("cut-chunk", "NET_CONNECTION_RESET", "net::ERR_INCOMPLETE_CHUNKED_ENCODING"),
        ("bad-chunk", "NET_PROTOCOL", "net::ERR_INVALID_CHUNKED_ENCODING"),
        ("circle", "NET_TOO_MANY_REDIRECTS", "net::ERR_TOO_MANY_REDIRECTS"),
    ],
)
@pytest.mark.sampled(1)
async def test_network_errors(stage: Stage, path: str, code: str, net_error: str) -> None:
    session = await stage.session()
    failure = await failed(session, {"act": "open", "url": f"http://{SHOP}/{path}"}, within=2)
    assert (failure.code, failure.details["net_error"]) == (code, net_error)
    assert failure.details["url"].startswith(f"http://{SHOP}/{path}")
    assert not failure.tainted


@pytest.mark.parametrize("path", ["truncated", "cut-chunk", "bad-chunk"])
@pytest.mark.thorough
async def test_a_document_that_breaks_off_is_not_waited_for(stage: Stage, path: str) -> None:
    """Chromium never says that such a page has loaded, and the step's time is not spent on it; the tab stays usable."""
    session = await stage.at()
    for _ in range(2):
        began = time.monotonic()
        failure = await failed(session, {"act": "open", "url": f"http://{SHOP}/{path}"}, within=10)
        assert time.monotonic() - began < stretched(1.5)
        assert failure.details["net_error"].startswith("net::ERR_")
        assert (failure.details["status"], failure.details["method"]) == (200, "GET")
        assert not failure.tainted
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"http://{DEAD}/", "NET_CONNECTION_REFUSED"),
        ("http://nowhere.invalid/", "NET_DNS"),
        ("http://127.0.0.1:25/", "NET_BLOCKED"),
        ("https://127.0.0.1:{port}/", "NET_TLS"),
    ],
)
@pytest.mark.sampled(1)
async def test_hosts_that_cannot_be_reached(stage: Stage, url: str, code: str) -> None:
    session = await stage.session()
    step = {"act": "open", "url": url.format(port=stage.site.port)}
    failure = await failed(session, step, within=4)
    assert (failure.code, failure.effect) == (code, Effect.NONE)


@pytest.mark.thorough
async def test_garbage_instead_of_http(stage: Stage) -> None:
    session = await stage.session()
    failure = await failed(session, {"act": "open", "url": f"http://127.0.0.1:{stage.site.port}/garbage"}, within=2)
    assert (failure.code, failure.details["net_error"]) == ("NET_PROTOCOL", "net::ERR_INVALID_HTTP_RESPONSE")


@pytest.mark.thorough
async def test_offline(stage: Stage) -> None:
    session = await stage.session()
    await session.tab.context.set_offline(True)
    assert (await failed(session, {"act": "open", "url": f"http://{SHOP}/"})).code == "NET_OFFLINE"


@pytest.mark.parametrize(
    ("path", "code", "status", "retry_after"),
    [
        ("400", "HTTP_CLIENT_ERROR", 400, None),
        ("401", "AUTHENTICATION_FAILED", 401, None),
        ("403", "AUTHENTICATION_FAILED", 403, None),
        ("404?empty=1", "HTTP_NOT_FOUND", 404, None),
        ("429?retry=7", "HTTP_RATE_LIMITED", 429, 7.0),
        ("500", "HTTP_SERVER_ERROR", 500, None),
        ("502", "HTTP_UNAVAILABLE", 502, None),
        ("503?retry=2&empty=1", "HTTP_UNAVAILABLE", 503, 2.0),
    ],
)
@pytest.mark.sampled(1)
async def test_statuses_with_and_without_a_body(
    stage: Stage, path: str, code: str, status: int, retry_after: float | None
) -> None:
    session = await stage.session()
    url = f"http://{SHOP}/status/{path}"
    for act in ("open", "api"):
        failure = await failed(session, {"act": act, "url": url}, within=3)
        assert (failure.code, failure.details["status"], failure.retry_after) == (code, status, retry_after), act


@pytest.mark.thorough
async def test_no_content_is_no_failure(stage: Stage) -> None:
    session = await stage.session()
    outcome = await passed(session, {"act": "open", "url": f"http://{SHOP}/status/204?empty=1"})
    assert outcome.details["status"] == 204


@pytest.mark.thorough
async def test_opening_again_after_a_refusal(stage: Stage) -> None:
    session = await stage.session()
    for _ in range(5):
        failure = await failed(session, {"act": "open", "url": f"http://{DEAD}/"})
        assert failure.code == "NET_CONNECTION_REFUSED"
    await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ({"act": "click", "selector": "#nowhere"}, "ELEMENT_NOT_FOUND"),
        ({"act": "click", "selector": "#in", "frame": "#no-frame"}, "FRAME_NOT_FOUND"),
        ({"act": "click", "selector": "#nowhere", "frame": "#inner"}, "ELEMENT_NOT_FOUND"),
        ({"act": "click", "selector": ".dup"}, "SELECTOR_AMBIGUOUS"),
        ({"act": "click", "selector": "#covered"}, "ELEMENT_COVERED"),
        ({"act": "click", "selector": "#disabled"}, "ELEMENT_DISABLED"),
        ({"act": "click", "selector": "#invisible"}, "ELEMENT_HIDDEN"),
        ({"act": "click", "selector": "#moving"}, "ELEMENT_UNSTABLE"),
        ({"act": "select", "selector": "#colour", "value": "Blue"}, "OPTION_NOT_FOUND"),
        ({"act": "type", "selector": "#plain", "value": "x"}, "INVALID_INPUT"),
        ({"act": "type", "selector": "#date", "value": "soon"}, "INVALID_INPUT"),
        ({"act": "check", "selector": "#plain"}, "INVALID_INPUT"),
        ({"act": "select", "selector": "#plain", "value": "x"}, "INVALID_INPUT"),
        ({"act": "press", "value": "NoSuchKey"}, "INVALID_INPUT"),
        ({"act": "submit", "selector": "#out"}, "INVALID_INPUT"),
        ({"act": "wait", "selector": "#hidden"}, "STEP_TIMEOUT"),
        ({"act": "wait", "selector": "#out", "value": "something else"}, "STEP_TIMEOUT"),
        ({"act": "open", "url": "file:///etc/passwd"}, "INVALID_INPUT"),
        ({"act": "open", "url": "javascript:alert(1)"}, "INVALID_INPUT"),
        ({"act": "open", "url": f"http://{SHOP}/report.csv"}, "INVALID_INPUT"),
        ({"act": "open", "url": f"http://{SHOP}/slow"}, "STEP_TIMEOUT"),
        ({"act": "open", "url": f"http://{SHOP}/hang"}, "NET_TIMEOUT"),
        ({"act": "api", "url": f"http://{SHOP}/hang"}, "NET_TIMEOUT"),
        ({"act": "api", "url": f"http://{DEAD}/"}, "NET_CONNECTION_REFUSED"),
        ({"act": "api", "url": f"http://{SHOP}/reset"}, "NET_CONNECTION_RESET"),
        ({"act": "api", "url": f"http://{SHOP}/circle"}, "NET_TOO_MANY_REDIRECTS"),
        ({"act": "api", "url": f"https://{SHOP}:8443/"}, "INVALID_INPUT"),
    ],
)
@pytest.mark.sampled(1)
async def test_step_failures(stage: Stage, step: dict[str, Any], code: str) -> None:
    session = await stage.at("/moving" if code == "ELEMENT_UNSTABLE" else "/")
    failure = await failed(session, step)
    assert failure.code == code, failure
    assert failure.selector == step.get("selector")
    assert not failure.tainted


async def test_what_a_failure_tells(stage: Stage) -> None:
    session = await stage.at()
    missing = await failed(session, {"act": "click", "selector": "#plian"})
    assert missing.message == "no element matches #plian (looked for 0.4s)"
    assert "#plain" in missing.details["similar"]
    other = await failed(session, {"act": "click", "selector": ".dup:has-text('three')"})
    assert other.message.endswith("; .dup matches, with the text 'one'")
    assert "similar" not in other.details
    assert "another text" in other.hint
    many = await failed(session, {"act": "click", "selector": ".dup"})
    assert many.details["matches"] == ['<p class="dup">one', '<p class="dup">two']
    covered = await failed(session, {"act": "click", "selector": "#covered"})
    assert covered.details["covered_by"].startswith('<div id="overlay" class="modal bg"')
    option = await failed(session, {"act": "select", "selector": "#colour", "value": "Blue"})
    assert option.details["options"] == ["r", "g"]
    within = stretched(0.5)
    late = await failed(session, {"act": "wait", "selector": "#never"}, within=within)
    assert late.message == f"Step timeout: wait for #never exceeded {seconds(within)}: no element matches"


BACKDROP = "<div style='position:fixed;inset:0;background:#0008'></div>"
BEHIND = {
    "jquery-ui": f"{BACKDROP}<div role=dialog style='position:fixed;top:400px;left:400px'>Sure?</div>",
    "bootstrap": "<div class=modal id=ask role=dialog aria-modal=true style='position:fixed;inset:0'>Sure?</div>",
    "aria-modal": f"{BACKDROP}<div aria-modal=true style='position:fixed;top:400px'>Sure?</div>",
    "a header": "<div role=dialog style='position:fixed;top:400px'>Cookies?</div>"
    "<header style='position:fixed;top:0;width:100%;height:90px;background:#ccc'>Shop</header>",
}
OPEN = {"jquery-ui": "div[role=dialog]", "bootstrap": "div#ask", "aria-modal": "div[aria-modal=true]", "a header": ""}


async def test_an_element_behind_an_open_dialog_says_so(stage: Stage) -> None:
    session = await stage.at("/saved")
    for kind, dialog in BEHIND.items():
        await session.tab.page.set_content(f"<button id=buy>Buy</button>{dialog}")
        covered = await failed(session, {"act": "click", "selector": "#buy"}, within=stretched(0.5))
        assert covered.code == "ELEMENT_COVERED"
        assert covered.details.get("dialog", "") == OPEN[kind]
        assert covered.message.endswith(f": the dialog {OPEN[kind]} is open") is bool(OPEN[kind])
        assert ("Close the dialog that is open" in covered.hint) is bool(OPEN[kind])


LONG = "x" * 100


@pytest.mark.parametrize(
    ("step", "message", "count"),
    [
        ({"selector": "#out", "value": "Nope"}, "#out with text 'Nope' exceeded 0.5s: its text is 'nothing'", 1),
        ({"selector": "#out", "value": "NOTH"}, "#out with text 'NOTH' exceeded 0.5s: its text is 'nothing'", 1),
        ({"selector": "#out", "value": 7}, "#out with text '7' exceeded 0.5s: its text is 'nothing'", 1),
        (
            {"selector": ".dup", "value": "three"},
            ".dup with text 'three' exceeded 0.5s: 2 elements match, the first visible one's text is 'one'",
            2,
        ),
        ({"selector": "#hidden"}, "#hidden exceeded 0.5s: 1 element matches, none is visible", 1),
        (
            {"selector": "#hidden", "value": "x"},
            "#hidden with text 'x' exceeded 0.5s: 1 element matches, none is visible",
            1,
        ),
        ({"selector": "#in", "frame": "#no"}, "#in exceeded 0.5s: no frame matches #no", 0),
        ({"selector": "#long", "value": "no"}, f"#long with text 'no' exceeded 0.5s: its text is '{LONG[:79]}…'", 1),
    ],
)
@pytest.mark.thorough
async def test_what_a_late_wait_found_instead(stage: Stage, step: dict[str, Any], message: str, count: int) -> None:
    session = await stage.at()
    await session.tab.page.evaluate(
        "t => { bottom.id = 'long'; document.getElementById('long').textContent = t }", LONG
    )
    within = stretched(0.54)
    failure = await failed(session, {"act": "wait", **step}, within=within)
    assert failure.code == "STEP_TIMEOUT"
    assert failure.message == f"Step timeout: wait for {message.replace('0.5s', seconds(within))}"
    assert failure.details["count"] == count
    assert failure.hint.startswith("Capital letters count") is (step.get("value") == "NOTH")


@pytest.mark.parametrize("act", ["wait", "click", "text"])
@pytest.mark.thorough
async def test_a_missing_element_may_be_on_the_new_page(stage: Stage, act: str) -> None:
    session = await stage.at()
    before = await failed(session, {"act": "click", "selector": "#nowhere"})
    assert "new page" not in before.message
    await passed(session, {"act": "click", "selector": "#popup"})
    await until(lambda: f"http://{SHOP}/popup" in [page.url for page in session.tab.context.pages])
    if act == "text":
        outcome = await session.text("#nowhere", None, 0.3)
        assert isinstance(outcome, Failure)
    else:
        outcome = await failed(session, {"act": act, "selector": "#nowhere"})
    assert outcome.details["popups"] == [f"http://{SHOP}/popup"]
    assert outcome.message.endswith(f" (a new page was opened: http://{SHOP}/popup)")
    covered = await failed(session, {"act": "click", "selector": "#covered"})
    assert covered.details["popups"]
    assert "new page" not in covered.message


@pytest.mark.thorough
async def test_a_click_whose_navigation_fails_was_done(stage: Stage) -> None:
    session = await stage.at()
    failure = await failed(session, {"act": "click", "selector": "#dead"}, within=3)
    assert (failure.code, failure.effect) == ("NET_CONNECTION_RESET", Effect.DONE)
    assert failure.details["url"] == f"http://{SHOP}/reset"
    nothing = await failed(session, {"act": "click", "selector": "#plain"}, patience=0.3)
    assert (nothing.code, nothing.effect) == ("NET_CONNECTION_RESET", Effect.NONE)


@pytest.mark.thorough
async def test_a_click_whose_page_never_answers_was_done(stage: Stage) -> None:
    session = await stage.at()
    failure = await failed(session, {"act": "click", "selector": "#hang"}, within=stretched(1.5), patience=0.5)
    assert failure.effect is Effect.DONE
    assert failure.code == "NET_TIMEOUT"


@pytest.mark.parametrize(("path", "code"), [("/reset", "NET_CONNECTION_RESET"), ("/hang", "NET_TIMEOUT")])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.sampled(1)
async def test_a_form_whose_answer_never_comes_says_how_it_was_sent(
    stage: Stage, path: str, code: str, method: str
) -> None:
    session = await stage.at()
    await session.tab.page.evaluate("([m, a]) => Object.assign(form, {method: m, action: a})", [method, path])
    failure = await failed(session, {"act": "click", "selector": "#send"}, within=stretched(1.5), patience=0.5)
    assert (failure.code, failure.effect, failure.details["method"]) == (code, Effect.DONE, method)


@pytest.mark.parametrize("step", [{"act": "click"}, {"act": "wait"}, {"act": "type", "value": "x"}])
@pytest.mark.sampled(1)
async def test_a_step_on_a_page_that_was_lost_before_it(stage: Stage, step: dict[str, Any]) -> None:
    session = await stage.at()
    await session.tab.page.evaluate("setTimeout(() => location = '/reset', 0)")
    await until(lambda: session.url == "chrome-error://chromewebdata/")
    failure = await failed(session, {**step, "selector": "#never"})
    assert (failure.code, failure.effect) == ("NET_CONNECTION_RESET", Effect.NONE)
    assert failure.details["url"] == f"http://{SHOP}/reset"


async def test_an_unsafe_api_call_that_broke_may_have_arrived(stage: Stage) -> None:
    session = await stage.session()
    codes = {}
    for host, path in ((SHOP, "reset"), (SHOP, "hang"), (DEAD, "")):
        step = {"act": "api", "method": "POST", "url": f"http://{host}/{path}", "value": {}}
        codes[path] = (await failed(session, step)).effect
    assert codes == {"reset": Effect.POSSIBLE, "hang": Effect.POSSIBLE, "": Effect.NONE}


@pytest.mark.thorough
async def test_page_crash_and_what_comes_after(stage: Stage) -> None:
    session = await stage.at("/login")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/"})
    task = asyncio.ensure_future(session.tab.control.send("Page.crash"))
    failure = await failed(session, {"act": "click", "selector": "#nowhere"}, within=3, patience=2)
    task.cancel()
    assert (failure.code, failure.tainted) == ("PAGE_CRASHED", True)
    with pytest.raises(Failed) as raised:
        await session.read(PageQuery("title"), 1)
    assert raised.value.failure.code == "PAGE_CRASHED"
    text = await session.text("#out", None, 0.5)
    assert isinstance(text, Failure)
    assert text.code == "PAGE_CRASHED"
    assert await session.renew(failure, 5) is None
    who = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert "sid=s3cret" in who.details["body"]["cookie"]


async def test_the_only_page_that_was_closed_is_not_opened_again(stage: Stage) -> None:
    session = await stage.at()
    await session.tab.page.close()
    failure = await failed(session, {"act": "click", "selector": "#plain"})
    assert (failure.code, failure.tainted) == ("PAGE_CLOSED", True)
    assert await session.renew(failure, 5) == failure
    assert session.tab.context.pages == []


@pytest.mark.thorough
async def test_browser_killed(stage: Stage) -> None:
    session = await stage.at(hosts={SHOP: stage.site.port})
    os.kill(session.chromium.pid, signal.SIGKILL)
    failure = await failed(session, {"act": "click", "selector": "#plain"}, within=2)
    assert (failure.code, failure.tainted) == ("BROWSER_CRASHED", True)
    assert await session.renew(failure, 10) is None
    await passed(session, {"act": "click", "selector": "#plain"})


@pytest.mark.thorough
async def test_driver_killed(stage: Stage) -> None:
    temp = stage.folder / "tmp"
    temp.mkdir()
    own = Browsers(BrowserSettings(), SystemClock(), temp=temp)
    mine = Stage(own, stage.site, temp)
    try:
        session = await mine.at()
        assert own.driver is not None
        assert own.driver.pid is not None
        os.kill(own.driver.pid, signal.SIGKILL)
        failure = await failed(session, {"act": "click", "selector": "#plain"}, within=2)
        assert (failure.code, failure.tainted) == ("DRIVER_GONE", True)
        assert await session.renew(failure, 10) is None
        await passed(session, {"act": "click", "selector": "#plain"})
    finally:
        await own.close()


@pytest.mark.thorough
async def test_driver_stopped(stage: Stage) -> None:
    temp = stage.folder / "tmp"
    temp.mkdir()
    own = Browsers(BrowserSettings(), SystemClock(), temp=temp)
    mine = Stage(own, stage.site, temp)
    try:
        old = await mine.session()
        before = own.driver
        assert before is not None
        assert before.pid is not None
        os.kill(before.pid, signal.SIGSTOP)
        session = await mine.session()
        assert own.driver is not before
        assert not runs(before.pid)
        failure = await failed(old, {"act": "click", "selector": "#plain"})
        assert (failure.code, failure.details["driver"]) == ("BROWSER_UNRESPONSIVE", "stopped")
        await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    finally:
        await own.close()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "step",
    [{"act": "press", "value": "Enter"}, {"act": "press", "selector": "#q", "value": "Enter"}, {"act": "submit"}],
)
@pytest.mark.sampled(1)
async def test_a_form_that_gets_no_answer_was_sent(
    stage: Stage, step: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "<form id=form method=post action=/hang><input id=q name=q autofocus></form>"
    monkeypatch.setitem(PAGES, "/ask", page)
    session = await stage.at("/ask")
    await passed(session, {"act": "click", "selector": "#q"})
    selector = {"selector": "#form"} if step["act"] == "submit" else {}
    failure = await failed(session, {**step, **selector}, within=stretched(1))
    assert (failure.code, failure.details["method"]) == ("NET_TIMEOUT", "POST")
    assert failure.effect is not Effect.NONE


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("open", "/redirect?to=/login")], "/redirect"),
        ([("open", "/redirect?to=/login"), ("press", "Tab")], "/redirect"),
        ([("open", "/led-on")], "/led-on"),
        ([("open", f"/redirect?to=http://{OTHER}/saved")], f"{SHOP}/redirect"),
        ([("open", "/login")], ""),
        ([("open", "/redirect?to=/login"), ("open", "/login")], ""),
        ([("open", "/"), ("click", "#next")], ""),
    ],
)
@pytest.mark.parametrize("act", ["click", "wait"])
@pytest.mark.thorough
async def test_a_missing_element_on_another_page_than_was_asked_for(
    stage: Stage, steps: list[tuple[str, str]], said: str, act: str
) -> None:
    """Who is not logged in gets the login page; that tells more than the element which it does not have."""
    session = await stage.session()
    for does, what in steps:
        step = {"open": {"url": f"http://{SHOP}{what}"}, "press": {"value": what}, "click": {"selector": what}}
        await passed(session, {"act": does, **step[does]})
    if "/led-on" in steps[0][1]:
        await passed(session, {"act": "wait", "selector": "#ok"})
    failure = await failed(session, {"act": act, "selector": "#title"})
    words = f": the site redirected there from {said}, which the last `open` requested)"
    assert (failure.message.endswith(words), "redirected there" in failure.message) == (bool(said), bool(said))
    assert failure.details.get("opened", "").endswith(steps[0][1] if said else "")


@pytest.mark.parametrize(
    ("path", "step", "frame"),
    [
        ("/", {"act": "click", "selector": "#in"}, "#inner"),
        ("/", {"act": "wait", "selector": "#in"}, "#inner"),
        ("/frames", {"act": "type", "selector": "#area", "value": "x"}, "#outer >>> #own"),
        ("/frames", {"act": "click", "selector": "#in"}, '#outer >>> iframe[src="/inner"]'),
    ],
)
@pytest.mark.sampled(1)
async def test_an_element_in_a_frame_that_the_step_does_not_name(
    stage: Stage, path: str, step: dict[str, Any], frame: str
) -> None:
    session = await stage.at(path)
    failure = await failed(session, step, within=2)
    assert failure.message.endswith(f"; the frame {frame} has it")
    assert f"add `frame: {json.dumps(frame)}` to this step" in failure.hint
    assert "similar" not in failure.details


@pytest.mark.thorough
async def test_in_which_frame_an_element_is(stage: Stage) -> None:
    session = await stage.at("/")
    found = ""
    for _ in range(20):  # the search has 0.3 s, too little now and then on a busy machine
        found = found or await session.frame_of("#in")
    assert [found, await session.frame_of("#nowhere"), await session.frame_of("no selector[")] == ["#inner", "", ""]
