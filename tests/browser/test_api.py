"""`api`: requests with the page's cookies."""

from __future__ import annotations

import pytest

from tests.browser.stage import OTHER, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")


async def test_api_shares_cookies_with_the_page(stage: Stage) -> None:
    session = await stage.at("/login", world="w-9")
    who = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    seen = who.details["body"]
    assert who.details["status"] == 200
    assert seen["host"] == SHOP
    assert set(seen["cookie"].split("; ")) == {"sid=s3cret", "b=2"}
    assert seen["user-agent"].endswith("harness-world/w-9")
    other = await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
    assert other.details["body"]["cookie"] is None
    await passed(session, {"act": "api", "url": f"http://{OTHER}/login"})
    await passed(session, {"act": "open", "url": f"http://{OTHER}/fetch"})
    await passed(session, {"act": "wait", "selector": "#a", "value": "sid=s3cret"})
    await passed(session, {"act": "api", "url": f"http://{OTHER}/logout"})
    after = await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
    assert after.details["body"]["cookie"] == "b=2"
    await session.tab.context.clear_cookies()
    nobody = await passed(session, {"act": "api", "url": f"http://{OTHER}/whoami"})
    assert nobody.details["body"]["cookie"] is None, "only the browser has cookies"


async def test_api_sends_json_and_text(stage: Stage) -> None:
    session = await stage.session()
    url = f"http://{SHOP}/whoami"
    sent = await passed(session, {"act": "api", "url": url, "method": "POST", "value": {"a": [1, None]}})
    assert sent.details["body"]["method"] == "POST"
    assert sent.details["body"]["body"] == '{"a": [1, null]}'
    assert sent.details["body"]["content-type"] == "application/json"
    text = {"act": "api", "url": url, "method": "PUT", "value": "plain", "headers": {"Content-Type": "text/x"}}
    sent = await passed(session, text)
    assert (sent.details["body"]["body"], sent.details["body"]["content-type"]) == ("plain", "text/x")


async def test_api_follows_redirects_and_checks_the_status(stage: Stage) -> None:
    session = await stage.session()
    hop = f"http://{SHOP}/redirect?to=http://{OTHER}/whoami"
    assert (await passed(session, {"act": "api", "url": hop})).details["body"]["host"] == OTHER
    assert (await passed(session, {"act": "api", "url": hop, "status": 302})).details["status"] == 302
    missing = f"http://{SHOP}/status/404"
    assert (await passed(session, {"act": "api", "url": missing, "status": 404})).details["status"] == 404
    created = await failed(session, {"act": "api", "url": f"http://{SHOP}/whoami", "status": 201})
    assert (created.code, created.details["status"]) == ("HTTP_UNEXPECTED_STATUS", 200)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.sampled(1)
async def test_every_key_of_an_api_step_acts(stage: Stage, method: str) -> None:
    session = await stage.session(world="w-3")
    step = {"act": "api", "url": f"http://{SHOP}/whoami", "method": method, "headers": {"X-Who": "me"}}
    if method != "GET":
        step["value"] = [1, "two"]
    seen = (await passed(session, step)).details["body"]
    assert seen["method"] == method
    assert seen["x-who"] == "me"
    assert seen["body"] == ("" if method == "GET" else '[1, "two"]')


@pytest.mark.thorough
async def test_head_has_no_body(stage: Stage) -> None:
    session = await stage.session()
    outcome = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami", "method": "HEAD"})
    assert outcome.details == {"status": 200, "body": ""}


@pytest.mark.parametrize(("status", "method"), [(302, "GET"), (307, "POST")])
async def test_a_redirect_keeps_secrets_to_their_origin(stage: Stage, status: int, method: str) -> None:
    session = await stage.session()
    step = {
        "act": "api",
        "method": "POST",
        "value": {"a": 1},
        "headers": {"Authorization": "Bearer s3cret", "X-Who": "me"},
    }
    for host, secret in ((SHOP, "Bearer s3cret"), (OTHER, None)):
        url = f"http://{SHOP}/redirect?status={status}&to=http://{host}/whoami"
        seen = (await passed(session, {**step, "url": url})).details["body"]
        assert (seen["method"], seen["authorization"], seen["x-who"]) == (method, secret, "me")
        assert seen["body"] == ('{"a": 1}' if method == "POST" else "")
        assert seen["content-type"] == ("application/json" if method == "POST" else None)


@pytest.mark.thorough
async def test_a_cookie_of_the_step_itself(stage: Stage) -> None:
    session = await stage.at("/login")
    step = {"act": "api", "url": f"http://{SHOP}/whoami", "headers": {"Cookie": "sid=mine"}}
    assert (await passed(session, step)).details["body"]["cookie"] == "sid=mine"


@pytest.mark.thorough
async def test_an_expected_refusal_passes(stage: Stage) -> None:
    session = await stage.session()
    for status in (401, 404, 422, 500):
        step = {"act": "api", "url": f"http://{SHOP}/status/{status}", "status": status}
        assert (await passed(session, step)).details["status"] == status
    other = await failed(session, {"act": "api", "url": f"http://{SHOP}/status/404", "status": 422}, within=2)
    assert (other.code, other.message) == (
        "HTTP_NOT_FOUND",
        f"HTTP 404 from http://{SHOP}/status/404, expected 422",
    )
