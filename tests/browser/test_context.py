"""`browser:` of a task: what the browser context emulates, seen by a page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.criteria import PageQuery
from harness.recovery.failure import Failed
from harness.spec.context import ContextOptions
from tests.browser.stage import SHOP, Stage, failed, passed

PAGE = f"https://{SHOP}/emulated"
"""Geolocation and service workers need a secure origin."""
BASIC = f"http://{SHOP}/basic"


async def seen(stage: Stage, complete: str = "", **options: Any) -> dict[str, Any]:
    """What the page sees, once it has seen `complete`."""
    session = await stage.session(context=ContextOptions(**options))
    await passed(session, {"act": "open", "url": PAGE})
    await passed(session, {"act": "wait", "selector": f"#out:has-text('{complete}')"})
    found = await session.text("#out", None, 5)
    assert isinstance(found, str)
    return {**json.loads(found), "session": session}


async def test_a_page_sees_what_the_context_emulates(stage: Stage) -> None:
    told = await seen(
        stage,
        "place",
        locale="de-DE",
        timezone="Asia/Tokyo",
        viewport={"width": 640, "height": 480},
        color_scheme="dark",
        reduced_motion="reduce",
        permissions=["notifications", "geolocation"],
        geolocation={"latitude": 52.5, "longitude": 13.4, "accuracy": 7},
    )
    assert (told["language"], told["zone"], told["width"]) == ("de-DE", "Asia/Tokyo", 640)
    assert (told["dark"], told["calm"], told["place"]) == (True, True, [52.5, 13.4, 7])
    assert told["notifications"] == "granted"


@pytest.mark.parametrize(("declared", "place"), [({}, [1, 2, 0]), ({"permissions": []}, "denied")])
@pytest.mark.thorough
async def test_a_position_permits_itself_unless_permissions_are_declared(
    stage: Stage, declared: dict[str, Any], place: Any
) -> None:
    told = await seen(stage, "place", geolocation={"latitude": 1, "longitude": 2}, **declared)
    assert told["place"] == place


async def test_without_options_a_page_sees_the_usual(stage: Stage) -> None:
    told = await seen(stage, "workers")
    assert (told["width"], told["dark"], told["calm"], told["place"]) == (1280, False, False, "denied")
    assert (told["touch"], told["online"], told["workers"]) == (False, True, 1)


async def test_a_device_has_its_size_touch_and_user_agent_and_the_world_is_still_named(stage: Stage) -> None:
    told = await seen(stage, device="iPhone 13", locale="fr-FR")
    assert (told["width"], told["ratio"], told["touch"], told["language"]) == (390, 3, True, "fr-FR")
    assert "iPhone" in told["agent"]
    assert told["agent"].endswith(" harness-world/w-1")
    replied = await passed(told["session"], {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert replied.details["body"]["user-agent"] == told["agent"]


@pytest.mark.thorough
async def test_a_context_that_is_replaced_emulates_the_same(stage: Stage) -> None:
    told = await seen(stage, viewport=[500, 400], user_agent="Robot/1.0")
    assert (told["width"], told["agent"]) == (500, "Robot/1.0 harness-world/w-1")
    session = told["session"]
    assert await session.restore(await session.save(5), 15, restart=False) == ()
    assert json.loads(await session.text("#out", None, 5))["width"] == 500


async def test_extra_headers_go_with_pages_and_api_steps(stage: Stage) -> None:
    session = await stage.session(context=ContextOptions(extra_headers={"X-Who": "ann"}))
    await passed(session, {"act": "open", "url": f"http://{SHOP}/whoami"})
    shown = await session.text("body", None, 5)
    assert json.loads(shown)["x-who"] == "ann"
    replied = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert replied.details["body"]["x-who"] == "ann"
    own = {"act": "api", "url": f"http://{SHOP}/whoami", "headers": {"X-Who": "ben"}}
    assert (await passed(session, own)).details["body"]["x-who"] == "ben"


def credentials(**more: Any) -> ContextOptions:
    return ContextOptions(http_credentials={"username": "ann", "password": "secret", **more})


async def test_http_credentials_answer_a_401_of_a_page_and_of_an_api_step(stage: Stage) -> None:
    session = await stage.session(context=credentials())
    await passed(session, {"act": "open", "url": BASIC})
    await passed(session, {"act": "wait", "selector": "#in"})
    stage.site.hits.clear()
    await passed(session, {"act": "api", "url": BASIC})
    assert stage.site.hits["/basic"] == 2, "asked for, then given"
    stage.site.hits.clear()
    always = await stage.session(context=credentials(send="always"))
    await passed(always, {"act": "api", "url": BASIC})
    assert stage.site.hits["/basic"] == 1


async def test_http_credentials_are_for_their_origin_only(stage: Stage) -> None:
    own = await stage.session(context=credentials(origin=f"http://{SHOP}"))
    await passed(own, {"act": "api", "url": BASIC})
    other = await stage.session(context=credentials(origin="http://other.test"))
    assert (await failed(other, {"act": "api", "url": BASIC})).code == "AUTHENTICATION_FAILED"
    assert (await failed(other, {"act": "open", "url": BASIC})).code == "AUTHENTICATION_FAILED"


async def test_a_header_takes_the_place_of_the_user_that_a_site_has_accepted(stage: Stage) -> None:
    """The reason why `set` refuses `http_credentials`, and what its message says to write instead."""
    session = await stage.session(context=credentials())
    await passed(session, {"act": "open", "url": BASIC})
    await passed(session, {"act": "set", "extra_headers": {"Authorization": "Basic Ym9iOnNlY3JldA=="}})
    assert (await failed(session, {"act": "open", "url": BASIC})).code == "AUTHENTICATION_FAILED"
    await passed(session, {"act": "set", "extra_headers": {"Authorization": "Basic YW5uOnNlY3JldA=="}})
    await passed(session, {"act": "open", "url": BASIC})


async def test_offline_nothing_is_reached(stage: Stage) -> None:
    session = await stage.session(context=ContextOptions(offline=True))
    failure = await failed(session, {"act": "open", "url": PAGE})
    assert (failure.code, "ERR_INTERNET_DISCONNECTED" in failure.message) == ("NET_OFFLINE", True)


async def test_without_java_script_a_page_shows_what_it_has_for_that(stage: Stage) -> None:
    session = await stage.at("/emulated", context=ContextOptions(java_script=False))
    await passed(session, {"act": "wait", "selector": "#without"})
    assert await session.text("#without", None, 5) == "no script"
    await passed(session, {"act": "open", "url": f"http://{SHOP}/fields"})
    await passed(session, {"act": "type", "selector": "#text", "value": "typed"})
    assert await session.read(PageQuery("value", "#text"), 5) == "typed"


async def test_service_workers_can_be_blocked(stage: Stage) -> None:
    told = await seen(stage, "workers", service_workers="block")
    assert told["workers"] == 0


async def test_certificates_that_nobody_trusts_are_accepted_if_asked(stage: Stage) -> None:
    page = {"act": "open", "url": f"https://{SHOP}/fields"}
    fields: dict[str, Any] = {"tls_problem": lambda _: "untrusted", "hosts": {SHOP: stage.site.port}}
    session = await stage.session(context=ContextOptions(ignore_https_errors=True), **fields)
    await passed(session, page)
    replied = await passed(session, {"act": "api", "url": f"https://{SHOP}/whoami"})
    assert replied.details["status"] == 200
    usual = await stage.session(**fields)
    assert (await failed(usual, page)).code == "NET_TLS"


async def test_a_device_that_the_installed_playwright_lacks_is_a_failure_with_its_name(stage: Stage) -> None:
    removed = ContextOptions.model_construct({"device"}, device="Newton")
    with pytest.raises(Failed, match="the installed Playwright has no device 'Newton'"):
        await stage.session(context=removed)
    await stage.at("/")
