"""Refused pages (401, 403), however they were come to, and login pages where a session was."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.acts import ACTIONS
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Click
from tests.browser.hosts import Answer, Asked, Host, to
from tests.browser.moments import stretched
from tests.browser.stage import SHOP, Stage, failed, passed, perform

HOST = f"http://{SHOP}"
LOGIN = """<title>{title}</title><form id=login method=post action=/login>
<input id=user name=user><input id=password name=secret type=password><p id=hint style="display:none">hint</p>
<button id=send>{button}</button></form><p>{note}</p>"""
FORM = """<form method={method} action=/forbidden><input id=field name=a>
<input type=checkbox id=box onchange="this.form.submit()">
<select id=list onchange="this.form.submit()"><option>a<option>b</select><button id=send>send</button></form>
<a id=link href=/forbidden>link</a><a id=redirect href='/to?url=/forbidden'>redirect</a>
<a id=empty href=/forbidden?empty=1>empty</a><a id=basic href=/forbidden?basic=1>basic</a>
<button id=late onclick="setTimeout(() => location = '/forbidden', 50)">late</button>
<button id=quiet onclick="fetch('/forbidden')">quiet</button><a id=broken href=/broken>broken</a>"""
CHANGE = """<title>Security</title><form action=/security method=post><input type=password name=old id=old>
<input type=password name=new id=new><button>Change password</button></form>"""
CONFIRM = """<title>My account</title><form action=/account/delete method=post>
<input type=password name=secret id=confirm autocomplete=current-password><button>Delete my account</button></form>"""
REGISTER = """<title>Register</title><form action=/register method=post><input name=user>
<input type=password name=secret autocomplete=new-password><button>Sign up</button></form>"""
APP = """<title>App</title><div id=root></div><script>
const login = () => root.innerHTML = `<form onsubmit="send(event)"><input id=user><input id=password type=password>
<button id=send>Log in</button></form>`;
const send = async event => { event.preventDefault(); await fetch('/api/session', {method: 'POST'}); };
fetch('/api/cart').then(answer => answer.ok ? root.innerHTML = '<p id=cart>cart</p>' : login());</script>"""
SCRIPTED = "<title>Cart</title><script>fetch('/api/cart').then(a => { if (!a.ok) location = '/login' })</script>"


class Shop(Host):
    """A shop with a session cookie, which the test can end on the server's side."""

    def __init__(self) -> None:
        super().__init__(self._page)
        self.open = False
        self.words = {"title": "Log in", "button": "Log in"}

    def _page(self, asked: Asked) -> Answer:
        page = getattr(self, "_" + asked.path.strip("/").replace("/", "_"), None)
        return page(asked) if page else Answer("<title>Home</title><p id=home>home</p>")

    def _login(self, asked: Asked) -> Answer:
        if asked.method == "GET":
            return Answer(LOGIN.format(note="", **self.words))
        self.open = asked.form["secret"] == "right"
        return to("/cart", 303) if self.open else Answer(LOGIN.format(note="Wrong password.", **self.words))

    def _logout(self, _: Asked) -> Answer:
        self.open = False
        return to("/login", 303)

    def _cart(self, _: Asked) -> Answer:
        return (
            Answer("<title>Cart</title><p id=cart>cart</p><a id=more href=/cart>more</a>")
            if self.open
            else to("/login")
        )

    def _inplace(self, _: Asked) -> Answer:
        return Answer("<p id=cart>cart</p>") if self.open else Answer(LOGIN.format(note="", **self.words))

    def _api_cart(self, _: Asked) -> Answer:
        return Answer("{}", 200 if self.open else 401, "application/json")

    def _api_session(self, _: Asked) -> Answer:
        return Answer("{}", 401, "application/json")

    def _forbidden(self, asked: Asked) -> Answer:
        if "basic" in asked.query:
            return Answer("", 401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        return Answer("" if "empty" in asked.query else "<p id=no>no</p>", 403)

    def _to(self, asked: Asked) -> Answer:
        return to(asked.query["url"])

    def _broken(self, _: Asked) -> Answer:
        return Answer("<p id=sorry>sorry</p>", 500)

    def _app(self, _: Asked) -> Answer:
        return Answer(APP)

    def _scripted(self, _: Asked) -> Answer:
        return Answer(SCRIPTED)

    def _get(self, _: Asked) -> Answer:
        return Answer(FORM.format(method="get"))

    def _post(self, _: Asked) -> Answer:
        return Answer(FORM.format(method="post"))

    def _security(self, _: Asked) -> Answer:
        return Answer(CHANGE)

    def _account(self, _: Asked) -> Answer:
        return Answer(CONFIRM)

    def _register(self, _: Asked) -> Answer:
        return Answer(REGISTER)


@pytest.fixture(scope="module")
def shop(run: Any, browsers: Any, site: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The shop, and a session that keeps its browser alive from test to test."""
    shop, stage = Shop(), Stage(browsers, site, tmp_path_factory.mktemp("shop"))

    async def start() -> PlaywrightSession:
        await shop.start()
        return await stage.session(hosts={SHOP: shop.port})

    holder = run(start())
    yield shop
    run(holder.close())
    run(shop.stop())


async def at(stage: Stage, shop: Shop, path: str) -> PlaywrightSession:
    shop.words = {"title": "Log in", "button": "Log in"}
    session = await stage.session(hosts={SHOP: shop.port})
    await perform(session, {"act": "open", "url": f"{HOST}{path}"})
    return session


async def log_in(session: PlaywrightSession, password: str = "right") -> Passed | Failure:
    await passed(session, {"act": "open", "url": f"{HOST}/login"})
    await passed(session, {"act": "type", "selector": "#user", "value": "demo"})
    await passed(session, {"act": "type", "selector": "#password", "value": password})
    return await perform(session, {"act": "click", "selector": "#send"})


@pytest.mark.parametrize("path", ["/get", "/post"])
@pytest.mark.parametrize(
    "step",
    [
        {"act": "click", "selector": "#link"},
        {"act": "click", "selector": "#redirect"},
        {"act": "click", "selector": "#empty"},
        {"act": "click", "selector": "#basic"},
        {"act": "click", "selector": "#send"},
        {"act": "submit", "selector": "#send"},
        {"act": "submit", "selector": "form"},
        {"act": "press", "selector": "#field", "value": "Enter"},
    ],
)
@pytest.mark.sampled(1)
async def test_a_refused_page_fails_the_act_that_asked_for_it(
    stage: Stage, shop: Shop, path: str, step: dict[str, Any]
) -> None:
    session = await at(stage, shop, path)
    failure = await failed(session, step, within=5)
    assert (failure.code, failure.effect, failure.retryable) == ("AUTHENTICATION_FAILED", Effect.DONE, False)
    assert failure.details["status"] == (401 if step["selector"] == "#basic" else 403)
    assert failure.details["url"].startswith(f"{HOST}/forbidden")
    assert failure.selector == step["selector"]


@pytest.mark.parametrize("url", ["/forbidden", "/to?url=/forbidden", "/forbidden?empty=1", "/forbidden?basic=1"])
@pytest.mark.sampled(1)
async def test_a_refused_page_fails_open(stage: Stage, shop: Shop, url: str) -> None:
    session = await at(stage, shop, "/")
    failure = await failed(session, {"act": "open", "url": f"{HOST}{url}"}, within=5)
    assert (failure.code, failure.effect) == ("AUTHENTICATION_FAILED", Effect.NONE)


@pytest.mark.parametrize(
    "step",
    [
        {"act": "check", "selector": "#box"},
        {"act": "select", "selector": "#list", "value": "b"},
        {"act": "click", "selector": "#late"},
        {"act": "press", "value": "Enter"},
    ],
)
@pytest.mark.parametrize("act", ["click", "wait", "text"])
@pytest.mark.sampled(1)
async def test_a_refusal_that_comes_after_the_act_is_told_by_the_next_one(
    stage: Stage, shop: Shop, step: dict[str, Any], act: str
) -> None:
    session = await at(stage, shop, "/post")
    await passed(session, {"act": "click", "selector": "#field"})
    outcome = await perform(session, step)
    if isinstance(outcome, Failure):  # known in time
        assert (outcome.code, outcome.effect) == ("AUTHENTICATION_FAILED", Effect.DONE)
        return
    for _ in range(250):
        if session.url == f"{HOST}/forbidden":
            break
        await asyncio.sleep(0.02)
    following = await _missing(session, act, "#never")
    assert (following.code, following.effect) == ("AUTHENTICATION_FAILED", Effect.NONE)
    assert following.details["url"] == f"{HOST}/forbidden"


async def _missing(session: PlaywrightSession, act: str, selector: str) -> Failure:
    """The failure of a step that looks for an element in vain."""
    if act != "text":
        value = {"value": "x"} if act == "type" else {}
        return await failed(session, {"act": act, "selector": selector, **value}, within=stretched(0.6))
    outcome = await session.text(selector, None, 0.4)
    assert isinstance(outcome, Failure)
    return outcome


async def test_what_is_no_refusal_of_the_page(stage: Stage, shop: Shop) -> None:
    session = await at(stage, shop, "/get")
    await passed(session, {"act": "click", "selector": "#quiet"})
    missing = await failed(session, {"act": "click", "selector": "#never"})
    assert missing.code == "ELEMENT_NOT_FOUND"
    await passed(session, {"act": "click", "selector": "#broken"})
    await passed(session, {"act": "wait", "selector": "#sorry"})


@pytest.mark.parametrize("act", ["click", "wait", "text", "type", "scroll", "check"])
@pytest.mark.parametrize("path", ["/cart", "/app", "/inplace", "/scripted"])
@pytest.mark.sampled(1)
async def test_a_session_that_the_server_dropped(stage: Stage, shop: Shop, act: str, path: str) -> None:
    session = await at(stage, shop, "/")
    await log_in(session)
    await passed(session, {"act": "wait", "selector": "#cart"})
    shop.open = False
    await passed(session, {"act": "open", "url": f"{HOST}{path}"})
    await passed(session, {"act": "wait", "selector": "input[type=password]"})  # some show it by a script
    failure = await _missing(session, act, "#cart")
    shown = session.url
    assert (failure.code, failure.effect, failure.selector) == ("SESSION_LOST", Effect.NONE, "#cart")
    assert "Did you mean" not in failure.hint
    assert failure.type == "authentication_failed"
    assert failure.message == (
        f"the site shows its login page ({shown}), but the step needed #cart; "
        "the task had already entered its password there"
    )
    assert (failure.details["url"], failure.details["missing"]) == (shown, "#cart")
    assert failure.details["login"]["fields"] == ["user", "password" if path == "/app" else "secret"]


@pytest.mark.thorough
async def test_a_click_that_lands_on_the_login(stage: Stage, shop: Shop) -> None:
    session = await at(stage, shop, "/")
    await log_in(session)
    shop.open = False
    await passed(session, {"act": "click", "selector": "#more"})
    missing_frame = await failed(session, {"act": "click", "selector": "#pay", "frame": "#shop"})
    assert (missing_frame.code, missing_frame.details["missing"]) == ("SESSION_LOST", "#shop")
    hidden = await failed(session, {"act": "click", "selector": "#hint"})
    assert hidden.code == "ELEMENT_HIDDEN"  # a part of the login form itself


@pytest.mark.thorough
def test_an_act_that_had_to_be_ended_at_the_login(
    run: Any, stage: Stage, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine so busy that Playwright's own timeout comes too late."""

    async def late(*_: Any) -> Any:
        await asyncio.sleep(60)

    async def body() -> None:
        session = await at(stage, shop, "/")
        await log_in(session)
        shop.open = False
        await passed(session, {"act": "open", "url": f"{HOST}/cart"})
        monkeypatch.setitem(ACTIONS, Click, late)
        failure = await failed(session, {"act": "click", "selector": "#more"})
        assert (failure.code, failure.tainted) == ("SESSION_LOST", True)
        assert failure.details["instead_of"] == "ELEMENT_NOT_FOUND"

    run(body())


@pytest.mark.parametrize("act", ["click", "wait", "text"])
@pytest.mark.sampled(1)
async def test_a_wrong_password(stage: Stage, shop: Shop, act: str) -> None:
    session = await at(stage, shop, "/")
    await log_in(session, "wrong")
    failure = await _missing(session, act, "#cart")
    assert (failure.code, failure.details["url"]) == ("SESSION_LOST", f"{HOST}/login")
    assert failure.details["login"]["action"] == "/login"


@pytest.mark.thorough
async def test_a_wrong_password_that_the_form_keeps(stage: Stage, shop: Shop) -> None:
    shop.open = False
    session = await at(stage, shop, "/app")
    await passed(session, {"act": "type", "selector": "#password", "value": "wrong"})
    typo = await failed(session, {"act": "click", "selector": "#sned"})
    assert typo.code == "ELEMENT_NOT_FOUND"  # nothing was sent yet
    await passed(session, {"act": "click", "selector": "#send"})
    failure = await failed(session, {"act": "wait", "selector": "#cart"})
    assert failure.code == "SESSION_LOST"


@pytest.mark.thorough
async def test_a_login_page_in_another_language(stage: Stage, shop: Shop) -> None:
    session = await at(stage, shop, "/inplace")
    shop.words = {"title": "Tervetuloa", "button": "Jatka"}
    await log_in(session)
    shop.open = False
    await passed(session, {"act": "open", "url": f"{HOST}/cart"})
    assert (await failed(session, {"act": "click", "selector": "#cart"})).code == "SESSION_LOST"


@pytest.mark.parametrize("act", ["click", "wait", "text", "type"])
@pytest.mark.sampled(1)
async def test_the_first_visit_of_a_login_page_loses_nothing(stage: Stage, shop: Shop, act: str) -> None:
    shop.open = False
    session = await at(stage, shop, "/cart")
    assert session.url == f"{HOST}/login"
    assert (await _missing(session, act, "#usr")).code in ("ELEMENT_NOT_FOUND", "STEP_TIMEOUT")


@pytest.mark.parametrize("act", ["click", "wait", "type"])
@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.thorough
async def test_a_login_page_that_the_task_asked_for(stage: Stage, shop: Shop, act: str, path: str) -> None:
    session = await at(stage, shop, "/")
    await log_in(session)
    await passed(session, {"act": "open", "url": f"{HOST}{path}"})
    assert (await _missing(session, act, "#usr")).code in ("ELEMENT_NOT_FOUND", "STEP_TIMEOUT")


@pytest.mark.parametrize("path", ["/security", "/account", "/register", "/elsewhere"])
@pytest.mark.sampled(1)
async def test_password_fields_of_another_purpose(stage: Stage, shop: Shop, path: str) -> None:
    session = await at(stage, shop, "/")
    await log_in(session)
    await passed(session, {"act": "open", "url": f"{HOST}{path}"})
    for act, code in (("click", "ELEMENT_NOT_FOUND"), ("wait", "STEP_TIMEOUT")):
        assert (await _missing(session, act, "#cart")).code == code


@pytest.mark.thorough
async def test_a_wait_for_other_words_is_late_and_no_more(stage: Stage, shop: Shop) -> None:
    session = await at(stage, shop, "/")
    await log_in(session, "wrong")
    failure = await failed(session, {"act": "wait", "selector": "p:not([id])", "value": "Welcome"})
    assert failure.code == "STEP_TIMEOUT"
    assert "its text is 'Wrong password.'" in failure.message
