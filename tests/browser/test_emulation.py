"""Acts on the page as a whole: its history, waiting for more than elements, and emulation that changes meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.routing import Routing
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure
from harness.spec.context import ContextOptions
from harness.spec.routes import Route
from tests.browser.site import PAGES
from tests.browser.stage import SHOP, Stage, failed, passed

PAGES["/one"] = """<!doctype html><title>One</title><a id=two href=/two>two</a><input id=f>
<form method=post action=/posted><button id=send>Send</button></form>"""
PAGES["/two"] = "<!doctype html><title>Two</title><a id=three href=/three>three</a>"
PAGES["/three"] = """<!doctype html><title>Three</title>"""
PAGES["/posted"] = "<!doctype html><title>Posted</title><p id=ok>posted</p><a id=two href=/two>two</a>"
PAGES["/around"] = """<!doctype html><title>Around</title><p id=due>no</p><p id=said></p>
<button id=ask>Ask</button>
<script>
ask.onclick = () => fetch('/api/echo').then(() => { said.textContent = 'sent' }, () => { said.textContent = 'no' });
setTimeout(() => { due.textContent = 'yes' }, 3600000);
addEventListener('online', () => { said.textContent = 'online' });
</script>"""
PAGES["/zone"] = """<!doctype html><title>Zone</title><div id=zone style="height: 80px">drop</div>
<div id=none>none</div><p id=got></p><script>
zone.addEventListener('dragover', e => e.preventDefault());
zone.addEventListener('drop', async e => { e.preventDefault();
  const told = [...e.dataTransfer.files].map(async f => `${f.name}:${f.type}:${await f.text()}`);
  got.textContent = (await Promise.all(told)).join(' ') });
</script>"""
ONLINE = "navigator.onLine"
DARK = "matchMedia('(prefers-color-scheme: dark)').matches"


def title_of(session: PlaywrightSession) -> str:
    return (session.url or "").rpartition("/")[2]


async def look(session: PlaywrightSession, expression: str) -> Any:
    return await session.tab.page.evaluate(expression)


def begin(session: PlaywrightSession, index: int = 1) -> None:
    session.begin_step(index, lambda _: None)


async def test_pages_of_the_history_are_shown_again_and_nothing_is_sent_twice(stage: Stage) -> None:
    session = await stage.at("/one")
    await passed(session, {"act": "click", "selector": "#two"})
    begin(session)
    found = await passed(session, {"act": "back"})
    assert (title_of(session), found.details["status"]) == ("one", 200)
    begin(session)
    refused = await failed(session, {"act": "back"})
    assert (refused.code, "no page to go back to" in refused.message) == ("INVALID_INPUT", True)
    assert title_of(session) == "one"
    begin(session)
    await passed(session, {"act": "forward", "until": "domcontentloaded"})
    assert title_of(session) == "two"
    again = await passed(session, {"act": "forward"})  # another attempt at the same step stays at its aim
    assert (title_of(session), again.details["status"]) == ("two", 200)
    begin(session)
    assert "no page to go forward to" in (await failed(session, {"act": "forward"})).message
    hits = stage.site.hits["/two"]
    begin(session)
    await passed(session, {"act": "reload"})
    assert stage.site.hits["/two"] == hits + 1


async def test_the_answer_to_a_form_is_neither_reloaded_nor_gone_back_to(stage: Stage) -> None:
    session = await stage.at("/one")
    await passed(session, {"act": "click", "selector": "#send"})
    begin(session)
    refused = await failed(session, {"act": "reload"})
    assert refused.code == "INVALID_INPUT"
    assert f"open: http://{SHOP}/posted" in refused.hint
    await passed(session, {"act": "click", "selector": "#two"})
    begin(session)
    refused = await failed(session, {"act": "back"})
    assert "send it again" in refused.message
    assert stage.site.hits["/posted"] == 1
    await passed(session, {"act": "open", "url": f"http://{SHOP}/posted"})
    begin(session)
    await passed(session, {"act": "reload"})  # this time it came by its URL
    assert stage.site.hits["/posted"] == 3


@pytest.mark.thorough
async def test_a_renewed_page_has_no_history_and_says_so(stage: Stage) -> None:
    session = await stage.at("/one")
    await passed(session, {"act": "click", "selector": "#two"})
    assert await session.restore(await session.save(10), 30, restart=False) == ()
    begin(session)
    refused = await failed(session, {"act": "back"})
    assert "no page to go back to" in refused.message
    assert "no history" in refused.hint
    assert title_of(session) == "two"


@pytest.mark.thorough
async def test_an_answer_that_is_an_error_fails_the_step(stage: Stage) -> None:
    session = await stage.at("/one")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/status/503", "status": 503})
    begin(session)
    assert (await failed(session, {"act": "reload"})).code == "HTTP_UNAVAILABLE"
    assert (await passed(session, {"act": "reload", "status": 503})).details["status"] == 503


async def test_a_wait_for_a_url_a_state_and_a_request(stage: Stage) -> None:
    session = await stage.at("/led-on")
    await passed(session, {"act": "wait", "url": "*/saved"})
    await passed(session, {"act": "wait", "state": "networkidle"})
    missing = await failed(session, {"act": "wait", "url": "*/elsewhere"})
    assert missing.code == "STEP_TIMEOUT"
    assert f"the page is at http://{SHOP}/saved" in missing.message
    session = await stage.at("/around")
    await passed(session, {"act": "click", "selector": "#ask"})
    found = await passed(session, {"act": "wait", "request": {"url": "*/api/echo", "method": "GET"}})
    assert "/api/echo" in found.details["expected_request"]
    unsent = await failed(session, {"act": "wait", "request": {"url": "*/api/none"}})
    assert unsent.code == "REQUEST_EXPECTED"


async def test_files_are_dropped_onto_an_element(stage: Stage) -> None:
    (stage.folder / "a.txt").write_text("first")
    (stage.folder / "b.csv").write_text("x,y")
    session = await stage.at("/zone")
    await passed(session, {"act": "upload", "selector": "#zone", "value": ["a.txt", "b.csv"], "drop": True})
    await passed(session, {"act": "wait", "selector": "#got", "value": "a.txt:text/plain:first b.csv:text/csv:x,y"})
    refused = await failed(session, {"act": "upload", "selector": "#none", "value": "a.txt", "drop": True})
    assert (refused.code, "nothing takes files" in refused.message) == ("ACTION_FAILED", True)


CHANGED = {
    "act": "set",
    "color_scheme": "dark",
    "reduced_motion": "reduce",
    "viewport": [400, 300],
    "geolocation": {"latitude": 48.1, "longitude": 11.5},
    "permissions": ["geolocation"],
    "extra_headers": {"X-Told": "yes"},
}
PLACE = "new Promise(done => navigator.geolocation.getCurrentPosition(p => done(p.coords.latitude), e => done(e.code)))"


async def emulated(session: PlaywrightSession) -> list[Any]:
    calm = await look(session, "matchMedia('(prefers-reduced-motion: reduce)').matches")
    return [await look(session, DARK), calm, await look(session, "[innerWidth, innerHeight]")]


async def told(session: PlaywrightSession) -> str | None:
    async with session.tab.page.expect_request("**/saved*") as coming:
        await passed(session, {"act": "open", "url": f"http://{SHOP}/saved"})
    return (await (await coming.value).all_headers()).get("x-told")


async def test_what_is_set_stays_in_a_new_context_and_is_undone_by_going_back(stage: Stage) -> None:
    session = await stage.at("/saved", context=ContextOptions(viewport=(800, 600)))
    before = await session.save(10)
    await passed(session, CHANGED)
    assert await emulated(session) == [True, True, [400, 300]]
    assert await told(session) == "yes"
    lost = Failure("PAGE_UNRESPONSIVE", "it hangs", tainted=True)
    session.tab.held = True  # a page that was stopped is replaced, not freed
    assert await session.renew(lost, 30) is None
    assert await emulated(session) == [True, True, [400, 300]]
    assert await told(session) == "yes"
    await passed(session, {"act": "set", "color_scheme": "light"})
    assert await emulated(session) == [False, True, [400, 300]]
    assert await session.restore(before, 30, restart=False) == ()
    assert await emulated(session) == [False, False, [800, 600]]
    assert await told(session) is None


async def test_the_network_goes_and_comes_back(stage: Stage) -> None:
    session = await stage.at("/around")
    await passed(session, {"act": "set", "offline": True})
    assert await look(session, ONLINE) is False
    await passed(session, {"act": "click", "selector": "#ask"})
    await passed(session, {"act": "wait", "selector": "#said", "value": "no"})
    await session.hold()  # what stops pages from sending does not end what the task wants
    await session.release()
    assert await look(session, ONLINE) is False
    await passed(session, {"act": "set", "offline": False})
    await passed(session, {"act": "wait", "selector": "#said", "value": "online"})


async def test_the_clock_goes_forward_stands_still_and_goes_on_after_a_rewind(stage: Stage) -> None:
    session = await stage.at("/around", clocked=True)
    before = float(await look(session, "Date.now()"))
    for _ in range(2):  # another attempt at the same step does not go further
        await passed(session, {"act": "set", "clock": {"fast_forward": "2h"}})
    ahead = float(await look(session, "Date.now()")) - before
    assert 7_200_000 <= ahead < 7_800_000
    await passed(session, {"act": "wait", "selector": "#due", "value": "yes"})
    begin(session)
    await passed(session, {"act": "set", "clock": {"pause_at": "2090-01-01T00:00:00Z"}})
    begin(session)
    at = await look(session, "new Date().toISOString()")
    assert at == "2090-01-01T00:00:00.000Z"
    assert await session.restore(await session.save(10), 30, restart=False) == ()
    assert str(await look(session, "new Date().toISOString()")).startswith("2090-01-01T00:00:0")
    refused = await failed(session, {"act": "set", "clock": {"pause_at": "2080-01-01T00:00:00Z"}})
    assert (refused.code, "cannot go back" in refused.message) == ("INVALID_INPUT", True)
    await passed(session, {"act": "set", "clock": {"resume": True}})
    assert "not paused" in (await failed(session, {"act": "set", "clock": {"resume": True}})).message


async def test_a_place_is_told_only_with_the_permission(stage: Stage) -> None:
    session = await stage.session(context=ContextOptions(permissions=()))
    await passed(session, {"act": "open", "url": f"http://127.0.0.1:{stage.site.port}/saved"})
    assert await look(session, PLACE) == 1
    await passed(session, CHANGED)
    assert await look(session, PLACE) == 48.1


PAGES["/stock"] = """<!doctype html><title>Stock</title><p id=out></p><button id=get>Get</button>
<button id=post>Post</button><iframe src=/stock-in></iframe><script>
const show = async (url, how) => {
  try {
    const answer = await fetch(url, how);
    out.textContent = `${answer.status} ${answer.headers.get('x-new')} ${await answer.text()}`;
  } catch { out.textContent = 'failed'; } };
get.onclick = () => show('/whoami');
post.onclick = () => show('/api/orders', {method: 'POST', body: '{}'});
</script>"""
PAGES["/stock-in"] = """<!doctype html><p id=inner></p><script>
fetch('/whoami?in').then(a => a.json()).then(a => { inner.textContent = a.host })</script>"""


async def patched(stage: Stage, *routes: dict[str, Any], memory: dict[str, Any] | None = None) -> PlaywrightSession:
    routing = await Routing.of([Route.model_validate(each) for each in routes], stage.folder, lambda: memory or {})
    routing.begin_step(0)
    session = await stage.session(routing=routing)
    await passed(session, {"act": "open", "url": f"http://{SHOP}/stock"})
    return session


async def test_the_answer_of_a_site_is_changed_on_its_way(stage: Stage) -> None:
    patch = {"json": {"host": "${memory.host}", "more[0].n": 5}, "status": 201, "headers": {"x-new": "yes"}}
    session = await patched(stage, {"url": "*/whoami*", "patch": patch}, memory={"host": "changed.test"})
    inner = {"act": "wait", "selector": "#inner", "frame": "iframe", "value": "changed.test"}
    await passed(session, inner)
    await passed(session, {"act": "click", "selector": "#get"})
    await passed(session, {"act": "wait", "selector": "#out", "value": "201 yes"})
    shown = str(await look(session, "out.textContent"))
    assert '"host": "changed.test"' in shown
    assert '"more": [{"n": 5}]' in shown
    assert stage.site.hits["/whoami"] == 2
    found = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert (found.details["status"], found.details["body"]["host"]) == (201, "changed.test")
    met = session.routes[0]
    assert (met.count, met.problem, met.answered[0].status) == (3, "", 201)
    assert await session.restore(await session.save(10), 30, restart=True) == ()  # another browser
    await passed(session, inner)


async def test_a_write_whose_answer_is_changed_has_reached_its_site(stage: Stage) -> None:
    session = await patched(stage, {"url": "*/api/orders", "method": "POST", "patch": {"status": 503}, "times": 1})
    session.take_sent()
    await passed(session, {"act": "click", "selector": "#post"})
    await passed(session, {"act": "wait", "selector": "#out", "value": "503"})
    assert [(each.method, each.arrived, each.unsafe) for each in session.take_sent()] == [("POST", True, True)]
    assert stage.site.hits["/api/orders"] == 1
    await passed(session, {"act": "click", "selector": "#post"})
    await passed(session, {"act": "wait", "selector": "#out", "value": "404"})


async def test_an_answer_that_cannot_be_changed_is_said_and_a_dead_site_keeps_its_name(stage: Stage) -> None:
    session = await patched(
        stage,
        {"url": "*/api/orders", "patch": {"json": {"a": 1}}},
        {"url": "http://dead.test/*", "patch": {"status": 200}},
        {"url": "*/status/500", "patch": {"status": 503}},
    )
    await passed(session, {"act": "click", "selector": "#post"})
    unfit = await failed(session, {"act": "wait", "selector": "#out", "value": "failed"}, 20)
    assert (unfit.code, unfit.effect) == ("ROUTE_UNANSWERED", Effect.DONE)
    assert "is no JSON" in session.routes[0].problem
    dead = await failed(session, {"act": "open", "url": "http://dead.test/"}, 20)
    assert (dead.code, dead.circumstances.routed) == ("NET_CONNECTION_REFUSED", False)
    changed = await failed(session, {"act": "open", "url": f"http://{SHOP}/status/500"}, 20)
    assert (changed.code, changed.circumstances.routed, changed.circumstances.patched) == (
        "HTTP_UNAVAILABLE",
        True,
        True,
    )
