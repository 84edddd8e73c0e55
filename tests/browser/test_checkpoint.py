"""Saving and restoring in real Chromium: every kind of state, whatever became of page and browser in between."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError

from harness.browser import PlaywrightSession, checkpoint
from harness.browser import recovery as renewal
from harness.browser.checkpoint import PageCheckpoint
from harness.browser.context import Tab
from harness.browser.evidence import LastGood
from harness.recovery import Capture
from harness.recovery.failure import Failed, Failure
from harness.resilience import Clock, SystemClock
from harness.spec.context import ContextOptions
from harness.values import replace
from tests.browser import poison
from tests.browser import site as site_module
from tests.browser.moments import LOADED, hung
from tests.browser.site import PAGES, answer
from tests.browser.stage import DEAD, OTHER, SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
FIELDS = """<!doctype html><title>Fields</title><body style="height:4000px">
<input id=text><input id=number type=number><input id=date type=date><input id=range type=range min=0 max=50>
<input id=colour type=color><input id=when type=datetime-local><input id=pw type=password>
<input type=email name=mail><input type=email name=mail><input><input>
<textarea id=area></textarea><div id=edit contenteditable><b>bold</b> text</div>
<input type=checkbox id=agree><input type=checkbox name=many value=a checked><input type=checkbox name=many value=b>
<input type=radio name=size value=s checked><input type=radio name=size value=m><input type=radio name=size value=l>
<select id=one><option value=r>Red<option value=g>Green<option>Blue</select>
<select id=several multiple><option>A<option selected>B<option>C</select>
<input id=twice><input id=twice><input type=hidden id=token value=fresh><fieldset disabled><input id=off></fieldset>
<div id=host></div><iframe id=inner src=/inner-field></iframe><iframe name=far src=http://other.test/inner-field></iframe>
<script>
  const root = host.attachShadow({mode: 'open'});
  root.innerHTML = '<input name=deep><div id=nested></div>';
  root.getElementById('nested').attachShadow({mode: 'open'}).innerHTML = '<input type=checkbox id=deeper>';
</script>"""
REACTING = """<!doctype html><title>Reacting</title><p id=seen></p>
<select id=country><option value=de>DE<option value=fr>FR</select><select id=city><option value=berlin>Berlin</select>
<input id=name><p id=hello></p><input type=checkbox id=gift><div id=note></div><input id=qty type=number max=9 value=1>
<script>
  const cities = {de: ['berlin', 'bonn'], fr: ['paris', 'lyon']};
  country.onchange = () => setTimeout(() => {
    city.innerHTML = cities[country.value].map(c => `<option value=${c}>${c}`).join('');
  }, 60);
  document.getElementById('name').addEventListener('input', e => { hello.textContent = 'Hello ' + e.target.value; });
  gift.addEventListener('click', () => { note.innerHTML = gift.checked ? '<input id=card>' : ''; });
  qty.onchange = () => { seen.textContent += 'q'; };
</script>"""
STORING = """<!doctype html><title>Storing</title><p id=early></p><script>
  early.textContent = sessionStorage.getItem('step') || 'none';
</script>"""
PAGES.update(
    {
        "/saved-fields": FIELDS,
        "/reacting": REACTING,
        "/storing": STORING,
        "/poisoned": poison.FIELDS,
        "/inner-field": "<title>Inner</title><input id=in><textarea name=t></textarea>",
        "/upload": "<title>Upload</title><input type=file id=file multiple><p id=names></p><script>"
        "file.onchange = () => { names.textContent = [...file.files].map(f => f.name).join(',') }</script>",
        "/autosaving": "<title>Autosaving</title><select id=qty onchange=\"fetch('/status/204', {method: 'POST'})\">"
        "<option>1<option>2</select>",
        "/spa": "<title>Spa</title><div id=app></div><script>"
        "setTimeout(() => { app.innerHTML = '<input id=late>' }, 150)</script>",
    }
)
SET_FIELDS = """
values => {
  for (const [id, value] of Object.entries(values.byId)) document.getElementById(id).value = value;
  for (const [query, value] of Object.entries(values.byQuery)) document.querySelectorAll(query)
    .forEach((e, i) => { e.value = value + i; });
  for (const [id, checked] of Object.entries(values.boxes)) document.querySelectorAll(id)
    .forEach((e, i) => { e.checked = checked[i]; });
  edit.innerHTML = values.html;
  [...several.options].forEach((o, i) => { o.selected = values.several[i]; });
  host.shadowRoot.querySelector('input').value = values.deep;
  host.shadowRoot.getElementById('nested').shadowRoot.getElementById('deeper').checked = values.deeper;
  inner.contentDocument.getElementById('in').value = values.inner;
  scrollTo(0, values.scroll);
}
"""
DATABASE = """
() => new Promise(done => {
  const asked = indexedDB.open('shop', 3);
  asked.onupgradeneeded = () => asked.result.createObjectStore('cart', {keyPath: 'id'}).createIndex('n', 'n');
  asked.onsuccess = () => {
    const write = asked.result.transaction('cart', 'readwrite');
    write.objectStore('cart').put({id: 7, n: 'seven', at: new Date(86400000)});
    write.oncomplete = () => { asked.result.close(); done(); };
  };
})
"""
READ_DATABASE = """
() => new Promise(done => {
  const asked = indexedDB.open('shop');
  asked.onsuccess = () => {
    const stores = asked.result.objectStoreNames;
    if (!stores.length) { asked.result.close(); done(null); return; }
    const got = asked.result.transaction('cart').objectStore('cart').get(7);
    got.onsuccess = () => { asked.result.close(); done([got.result.n, got.result.at.getTime(), asked.result.version]) };
  };
})
"""

BLOBS = """
() => new Promise(done => {
  const asked = indexedDB.open('blobs', 1);
  asked.onupgradeneeded = () => asked.result.createObjectStore('all', {keyPath: 'size'});
  asked.onsuccess = () => {
    const write = asked.result.transaction('all', 'readwrite');
    write.objectStore('all').put(new Blob(['abc']));
    write.oncomplete = () => { asked.result.close(); done(); };
  };
})
"""
WATCHED = """<!doctype html><title>Watched</title><input id=f><input type=checkbox id=c><p id=model></p><script>
  const model = {f: '', c: false};
  const known = {f: '', c: false};
  for (const [e, name, kind] of [[f, 'value', 'input'], [c, 'checked', 'click']]) {
    const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, name);
    Object.defineProperty(e, name, {get: () => own.get.call(e), set(v) { known[e.id] = v; own.set.call(e, v); }});
    document.addEventListener(kind, event => {
      const now = own.get.call(e);
      if (event.target !== e || now === known[e.id]) return;
      model[e.id] = known[e.id] = now;
      document.getElementById('model').textContent = model.f + ' ' + model.c;
    });
  }
</script>"""


@pytest.fixture(autouse=True)
def untouched_pages() -> Iterator[None]:
    """Tests change what the site serves."""
    before = dict(PAGES)
    yield
    PAGES.clear()
    PAGES.update(before)


async def back(session: PlaywrightSession, saved: PageCheckpoint, restart: bool = False) -> tuple[str, ...]:
    """Restore; the pages must have been opened."""
    outcome = await session.restore(saved, 15, restart=restart)
    assert not isinstance(outcome, Failure), outcome
    return outcome


async def go(session: PlaywrightSession, path: str, host: str = SHOP) -> None:
    await passed(session, {"act": "open", "url": f"http://{host}{path}"})


async def js(session: PlaywrightSession, script: str, argument: Any = None) -> Any:
    return await session.tab.page.evaluate(script, argument)


def random_values(seed: int) -> dict[str, Any]:
    random = Random(seed)
    word = lambda: "".join(random.choices("aB9 '\"<>&äß日\\", k=random.randint(0, 12)))  # noqa: E731
    coin = lambda n: [random.random() < 0.5 for _ in range(n)]  # noqa: E731
    size = random.randrange(3)
    return {
        "byId": {
            "text": word(),
            "number": str(random.randint(-99, 99) / 4),
            "date": f"2024-02-{random.randint(10, 29)}",
            "range": str(random.randint(0, 50)),
            "colour": f"#{random.randrange(16**6):06x}",
            "when": f"2025-11-{random.randint(10, 30)}T04:05",
            "pw": word(),
            "area": word() + "\n" + word(),
            "one": random.choice(["r", "g", "Blue"]),
            "off": word(),
        },
        "byQuery": {"[name=mail]": word(), "#twice": word()},
        "boxes": {"#agree": coin(1), "[name=many]": coin(2), "[name=size]": [index == size for index in range(3)]},
        "html": f"<i>{random.randint(0, 99)}</i> words",
        "several": coin(3),
        "deep": word(),
        "deeper": coin(1)[0],
        "inner": word(),
        "scroll": random.randint(0, 2000),
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.sampled(1)
async def test_every_kind_of_field_comes_back(stage: Stage, seed: int) -> None:
    session = await stage.at("/saved-fields")
    await js(session, SET_FIELDS, random_values(seed))
    saved = await session.save(5)
    await go(session, "/saved")
    assert await back(session, saved) == ()
    again = await session.save(5)
    assert again.pages == saved.pages
    fields = {each.place: each.value for each in again.pages[0].fields}
    values = random_values(seed)
    assert fields["#text"] == values["byId"]["text"]
    assert fields['input[name="mail"]:nth(2)'] == values["byQuery"]["[name=mail]"] + "1"
    assert fields["#twice:nth(2)"] == values["byQuery"]["#twice"] + "1"
    assert [fields[f'input[name="size"][value="{size}"]'] for size in "sml"] == values["boxes"]["[name=size]"]
    assert fields["#host >> #nested >> #deeper"] is values["deeper"]
    assert fields["#inner >> #in"] == values["inner"]
    assert not any("token" in place or "far" in place for place in fields)
    assert again.pages[0].scroll == (0, values["scroll"])


@pytest.mark.thorough
async def test_scripts_follow_what_is_filled(stage: Stage) -> None:
    session = await stage.at("/reacting")
    await passed(session, {"act": "select", "selector": "#country", "value": "fr"})
    await passed(session, {"act": "select", "selector": "#city", "value": "lyon"})
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    await passed(session, {"act": "check", "selector": "#gift"})
    await passed(session, {"act": "type", "selector": "#card", "value": "with love"})
    saved = await session.save(5)
    await go(session, "/saved")
    assert await back(session, saved) == ()
    assert await session.text("#hello", None, 1) == "Hello Ada"
    assert await session.text("#card", None, 1) == "with love"
    assert await session.text("#city", None, 1) == "lyon"
    assert await session.text("#seen", None, 1) == "", "a field that is right already is left alone"


@pytest.mark.thorough
async def test_a_form_that_comes_late_is_filled(stage: Stage) -> None:
    session = await stage.at("/spa")
    await passed(session, {"act": "type", "selector": "#late", "value": "here"})
    saved = await session.save(5)
    assert await back(session, saved) == ()
    assert await session.text("#late", None, 1) == "here"


@pytest.mark.thorough
async def test_a_page_that_poisons_prototypes_comes_back_as_any_other(stage: Stage) -> None:
    (stage.folder / "up.txt").write_text("content")
    session = await stage.at("/poisoned")
    for step in (
        {"act": "type", "selector": "#i", "value": "typed"},
        {"act": "type", "selector": "#t", "value": "two words"},
        {"act": "check", "selector": "#c"},
        {"act": "select", "selector": "#s", "value": "b"},
        {"act": "upload", "selector": "#file", "value": "up.txt"},
    ):
        await passed(session, step)
    saved = await session.save(5)
    await go(session, "/saved")
    assert await back(session, saved) == ()
    again = await session.save(5)
    assert again.pages == saved.pages
    assert saved.pages[0].session["kept"].startswith("0.")
    values = {each.place: each.value for each in again.pages[0].fields}
    assert (values["#i"], values["#t"], values["#c"], values["#s"]) == ("typed", "two words", True, ["b"])
    assert values["#file"][0]["content"] == base64.b64encode(b"content").decode()
    last_good = LastGood(stage.folder, SystemClock())
    await last_good.keep(session.tab, 1)
    look = await last_good.copy_newest("dom_snapshot.html", stage.folder / "dom.html")
    assert look is not None
    assert "<title>Poisoned</title>" in (stage.folder / "dom.html").read_text()


async def test_storage_comes_back_and_is_live(stage: Stage) -> None:
    session = await stage.at("/login")
    await go(session, "/storing", OTHER)
    await js(session, "localStorage.setItem('other', 'kept')")
    await go(session, "/storing")
    await js(session, DATABASE)
    await js(session, "localStorage.setItem('cart', '[1]'); sessionStorage.setItem('step', '\"two\"')")
    saved = await session.save(5)
    await js(session, "localStorage.clear(); sessionStorage.clear(); indexedDB.deleteDatabase('shop')")
    await go(session, "/logout")
    assert await back(session, saved) == ()
    assert await session.text("#early", None, 1) == '"two"', "sessionStorage is there before the page's scripts"
    assert await js(session, READ_DATABASE) == ["seven", 86400000, 3]
    assert await js(session, "localStorage.getItem('cart')") == "[1]"
    who = await passed(session, {"act": "api", "url": f"http://{SHOP}/whoami"})
    assert "sid=s3cret" in who.details["body"]["cookie"]
    await js(session, "sessionStorage.clear()")
    await go(session, "/storing")
    assert await session.text("#early", None, 1) == "none", "put back once, not at every load"


async def test_a_database_that_cannot_be_saved_is_named(stage: Stage) -> None:
    session = await stage.at("/storing")
    await js(session, "localStorage.setItem('cart', '1'); new Promise(r => indexedDB.open('').onsuccess = r)")
    saved = await session.save(5)
    (line,) = await back(session, saved)
    assert line.startswith("IndexedDB was not saved (Unable to serialize IndexedDB")
    assert await js(session, "localStorage.getItem('cart')") == "1"


@pytest.mark.thorough
async def test_a_database_that_cannot_be_put_back_is_named(stage: Stage) -> None:
    session = await stage.at("/login")
    await go(session, "/storing")
    await js(session, BLOBS)
    await js(session, "localStorage.setItem('cart', '1')")
    saved, pid = await session.save(5), session.chromium.pid
    assert await back(session, saved) == (f"IndexedDB blobs of http://{SHOP}: differs",)
    assert session.chromium.pid == pid, "the browser is not blamed"
    assert await js(session, "localStorage.getItem('cart')") == "1"


@pytest.mark.thorough
async def test_fields_that_a_framework_watches(stage: Stage) -> None:
    """Such a framework takes a value that came through the element's own setter for its own, and drops the event."""
    PAGES["/watched"] = WATCHED
    session = await stage.at("/watched")
    await passed(session, {"act": "type", "selector": "#f", "value": "Ada"})
    await passed(session, {"act": "check", "selector": "#c"})
    assert await session.text("#model", None, 1) == "Ada true"
    saved = await session.save(5)
    assert await back(session, saved) == ()
    assert await session.text("#model", None, 1) == "Ada true"


async def test_pages_in_their_order_and_the_current_one(stage: Stage) -> None:
    session = await stage.at("/saved")
    second = await session.tab.context.new_page()
    await second.goto(f"http://{SHOP}/reacting")
    await second.fill("#name", "Eve")
    await second.evaluate("sessionStorage.setItem('step', 'second')")
    third = await session.tab.context.new_page()
    await third.goto(f"http://{OTHER}/storing")
    saved = replace(await session.save(5), current=1)
    assert saved.url == f"http://{SHOP}/reacting"
    assert await back(session, saved) == ()
    pages = session.tab.context.pages
    assert [page.url for page in pages] == [page.url for page in saved.pages]
    assert session.tab.page is pages[1]
    assert session.url == saved.url
    assert await session.text("#name", None, 1) == "Eve"
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    assert await session.text("#hello", None, 1) == "Hello Ada"
    assert await pages[0].evaluate("sessionStorage.length") == 0, "every page has its own"
    assert await session.renew(Failure("STEP_TIMEOUT", "late", tainted=True), 10) is None
    assert session.url == saved.url


async def test_chosen_files_come_back_whole(stage: Stage) -> None:
    session = await stage.at("/upload")
    one, two = stage.folder / "a.bin", stage.folder / "b ä.txt"
    one.write_bytes(bytes(range(256)) * 400)
    two.write_text("text")
    await session.tab.page.set_input_files("#file", [one, two])
    saved = await session.save(5)
    assert await back(session, saved) == ()
    assert await session.text("#names", None, 1) == "a.bin,b ä.txt"
    content = await js(session, "async () => [...new Uint8Array(await file.files[0].arrayBuffer())]")
    assert bytes(content) == one.read_bytes()


@pytest.mark.thorough
async def test_files_too_large_to_keep_are_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await stage.at("/upload")
    small, large = stage.folder / "small.txt", stage.folder / "large.bin"
    small.write_text("small")
    large.write_bytes(b"x" * 2000)
    await session.tab.page.set_input_files("#file", [small, large])
    saved = await checkpoint.take(session.tab, SystemClock(), room=1000)
    lines = await back(session, saved)
    assert lines == ("#file: was small.txt, large.bin, is small.txt (too large to keep)",)


@pytest.mark.thorough
async def test_nothing_saved_is_an_empty_browser(stage: Stage) -> None:
    session = await stage.at("/login")
    session.tab.passwords.add(SHOP)
    old = session.tab.context
    assert await session.restore(None, 5, restart=False) == ()
    assert session.tab.context is not old
    assert (session.url, session.tab.passwords) == ("about:blank", set())
    assert await session.tab.context.cookies() == []
    await go(session, "/saved")


@pytest.mark.thorough
async def test_a_saved_error_page_is_no_failure(stage: Stage) -> None:
    session = await stage.at("/saved")
    await failed(session, {"act": "open", "url": f"http://{SHOP}/status/404"}, within=3)
    saved = await session.save(5)
    assert await back(session, saved) == ()
    assert session.url == f"http://{SHOP}/status/404"


async def crash(session: PlaywrightSession) -> None:
    with pytest.raises(PlaywrightError):
        await session.tab.page.goto("chrome://crash")


async def hang(session: PlaywrightSession) -> None:
    await session.tab.page.evaluate("setTimeout(() => { while (true); }, 0)")
    await hung(session)


async def kill(session: PlaywrightSession) -> None:
    os.kill(session.chromium.pid, signal.SIGKILL)


async def stop(session: PlaywrightSession) -> None:
    os.kill(session.chromium.pid, signal.SIGSTOP)


DEATHS = {
    "crash": (crash, "PAGE_CRASHED"),
    "hang": (hang, "PAGE_UNRESPONSIVE"),
    "kill": (kill, "BROWSER_CRASHED"),
    "stop": (stop, "BROWSER_UNRESPONSIVE"),
}


@pytest.mark.parametrize("restart", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.sampled(1)
async def test_back_after_a_death(stage: Stage, death: str, restart: bool) -> None:
    happen, code = DEATHS[death]
    ends = death in ("kill", "stop") or restart
    session = await stage.at("/login", hosts={SHOP: stage.site.port} if ends else stage.hosts)
    await go(session, "/reacting")
    await passed(session, {"act": "type", "selector": "#name", "value": "Ada"})
    await js(session, "localStorage.setItem('cart', '1')")
    saved, pid = await session.save(5), session.chromium.pid
    await happen(session)
    for look in (lambda: session.save(1), lambda: session.observe(1, screenshot=False)):
        started = time.monotonic()
        with pytest.raises(Failed) as raised:
            await look()
        assert raised.value.failure.code in (code, "PAGE_CLOSED" if death == "kill" else code)
        assert raised.value.failure.tainted
        assert time.monotonic() - started < 1 + 0.5 + LOADED
    assert await back(session, saved, restart=restart) == ()
    assert await session.text("#hello", None, 1) == "Hello Ada"
    assert {cookie["name"] for cookie in await session.tab.context.cookies()} == {"sid", "b"}
    assert (session.chromium.pid == pid) is (death in ("crash", "hang") and not restart)


@pytest.mark.thorough
async def test_a_restart_spares_the_others(stage: Stage) -> None:
    session, other = await stage.at("/saved"), await stage.at("/saved")
    saved, pid = await session.save(5), session.chromium.pid
    assert await back(session, saved, restart=True) == ()
    assert session.chromium.pid == pid
    await go(other, "/saved")


@pytest.mark.thorough
def test_what_differs_is_named(run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def tampered(method: str, target: str, headers: Any, body: bytes) -> Any:
        if target == "/reacting":
            status, extra, content = answer(method, target, headers, body)
            script = (
                b"<script>localStorage.setItem('cart', '[]'); sessionStorage.removeItem('step');"
                b"setInterval(() => { qty.value = 1; pw.value = 'oops' }, 5)</script><input type=password id=pw>"
            )
            return status, {**extra, "Set-Cookie": "sid=; Path=/; Max-Age=0"}, content + script
        return answer(method, target, headers, body)

    async def body() -> None:
        PAGES["/reacting"] = REACTING + "<input type=password id=pw><input id=coupon>"
        session = await stage.at("/login")
        await go(session, "/reacting")
        await js(session, "localStorage.setItem('cart', '[7]'); sessionStorage.setItem('step', '1')")
        for selector, value in {"#qty": "2", "#pw": "hunter2", "#coupon": "TEN"}.items():
            await passed(session, {"act": "type", "selector": selector, "value": value})
        saved = await session.save(5)
        PAGES["/reacting"] = REACTING
        monkeypatch.setattr(site_module, "answer", tampered)
        assert await back(session, saved) == (
            f"cookie sid of {SHOP}: was saved, is missing",
            f"localStorage cart of http://{SHOP}: differs",
            f"sessionStorage step of http://{SHOP}: was saved, is missing",
            "#qty: was '2', is '1'",
            "#pw: differs",
            "#coupon: was saved, is missing",
        )
        for secret in ("hunter2", "s3cret"):
            assert secret not in repr(saved)

    run(body())


@pytest.mark.thorough
def test_a_redirect_is_named(run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(method: str, target: str, headers: Any, body: bytes) -> Any:
        return answer(method, "/redirect?to=/saved" if target == "/storing" else target, headers, body)

    async def body() -> None:
        session = await stage.at("/saved")
        await (await session.tab.context.new_page()).goto(f"http://{SHOP}/storing")
        saved = await session.save(5)
        monkeypatch.setattr(site_module, "answer", moved)
        assert await back(session, saved) == (f"page 2: URL: was http://{SHOP}/storing, is http://{SHOP}/saved",)

    run(body())


@pytest.mark.thorough
async def test_a_page_that_cannot_be_opened_is_a_failure(stage: Stage) -> None:
    session = await stage.at("/saved")
    saved = await session.save(5)
    cases = {f"http://{DEAD}/": "NET_CONNECTION_REFUSED", f"http://{SHOP}/status/503": "HTTP_UNAVAILABLE"}
    for url, code in cases.items():
        gone = replace(saved, pages=(*saved.pages, replace(saved.pages[0], url=url)))
        outcome = await session.restore(gone, 5, restart=False)
        assert isinstance(outcome, Failure)
        assert outcome.code == code
    started = time.monotonic()
    hanging = replace(saved, pages=(replace(saved.pages[0], url=f"http://{SHOP}/hang"),))
    outcome = await session.restore(hanging, 1.5, restart=False)
    assert isinstance(outcome, Failure)
    assert outcome.code == "NET_TIMEOUT"
    assert time.monotonic() - started < 1.5 + 0.7 + LOADED
    assert await back(session, saved) == ()


@pytest.mark.thorough
def test_a_page_that_closes_itself(run: Any, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def closed_before(tab: Tab, saved: PageCheckpoint, clock: Clock, *, fills: bool) -> tuple[str, ...]:
        await tab.context.pages[1].close()
        return await checkpoint.settle(tab, saved, clock, fills=fills)

    async def body() -> None:
        session = await stage.at("/saved")
        await (await session.tab.context.new_page()).goto(f"http://{SHOP}/storing")
        saved = await session.save(5)
        monkeypatch.setattr(renewal, "settle", closed_before)
        assert await back(session, saved) == (f"page 2: http://{SHOP}/storing was open, is not",)
        gone = await session.restore(replace(saved, current=1), 5, restart=False)
        assert isinstance(gone, Failure)
        assert (gone.code, gone.tainted) == ("PAGE_CLOSED", True)
        assert await session.restore(None, 5, restart=False) == ()
        await session.tab.page.close()
        with pytest.raises(Failed) as raised:
            await session.save(1)
        assert raised.value.failure.code == "PAGE_CLOSED"

    run(body())


@pytest.mark.thorough
async def test_saving_waits_for_the_page_that_comes(stage: Stage) -> None:
    session = await stage.at("/")
    await js(session, "setTimeout(() => { location.href = '/reacting' }, 0); undefined")
    await session.tab.page.wait_for_url("**/reacting", wait_until="commit")
    saved = await session.save(5)
    assert saved.url == f"http://{SHOP}/reacting"
    assert "#qty" in {field.place for field in saved.pages[0].fields}


async def test_the_session_goes_on(stage: Stage, tmp_path: Path) -> None:
    session = await stage.at("/storing", recording="full")
    session.tab.passwords.add(SHOP)
    await js(session, "console.log('before')")
    saved = await session.save(5)
    assert session.requests == 1
    assert await back(session, saved) == ()
    assert session.requests == 2
    assert session.tab.passwords == {SHOP}
    assert session.tab.traced
    session.tab.passwords.add(OTHER)
    assert await session.renew(Failure("STEP_TIMEOUT", "late", tainted=True), 10) is None
    assert session.requests == 3
    assert session.tab.passwords == {SHOP, OTHER}
    evidence = await session.evidence(Capture(logs=True, screenshot=False, dom=False), tmp_path)
    assert "[LOG] before" in "".join(map(str, evidence.console))
    entries = json.loads((tmp_path / "network_logs.har").read_text())["log"]["entries"]
    assert [entry["request"]["url"] for entry in entries].count(f"http://{SHOP}/storing") == 3


async def test_a_field_whose_filling_writes_is_not_filled_again(stage: Stage) -> None:
    session = await stage.at("/autosaving")
    await passed(session, {"act": "select", "selector": "#qty", "value": "2"})
    saved = await session.save(5)
    while not stage.site.hits.get("/status/204"):
        await asyncio.sleep(0.02)
    outcome = await session.restore(saved, 5, restart=False, barred="step 1 is a write")
    assert isinstance(outcome, Failure)
    assert outcome.code == "OUTCOME_UNKNOWN"
    assert outcome.message == "#qty would have to be filled again, but step 1 is a write"
    assert stage.site.hits["/status/204"] == 1
    kept = replace(saved, pages=(replace(saved.pages[0], fields=()),))
    assert not isinstance(await session.restore(kept, 5, restart=False, barred="step 1 is a write"), Failure)


async def paused(session: PlaywrightSession) -> tuple[str, ...]:
    """What a pause of the bridge does: save, leave an empty browser, and open the pages again."""
    saved = await session.save(15)
    assert await session.restore(None, 15, restart=False) == ()
    return await back(session, saved)


@pytest.mark.thorough
async def test_a_pause_behind_a_login_of_http(stage: Stage, tmp_path: Path) -> None:
    credentials = {"username": "ann", "password": "secret"}
    session = await stage.session(context=ContextOptions(http_credentials=credentials), recording="full")
    await go(session, "/basic")
    assert await paused(session) == ()
    await passed(session, {"act": "wait", "selector": "#in"})
    await passed(session, {"act": "api", "url": f"http://{SHOP}/basic"})
    await session.evidence(Capture(logs=True, screenshot=False, dom=False), tmp_path)
    entries = json.loads((tmp_path / "network_logs.har").read_text())["log"]["entries"]
    opened = [entry for entry in entries if entry["request"]["url"] == f"http://{SHOP}/basic"]
    assert len(opened) >= 2, "from before the pause and from after it"
    assert "secret" not in json.dumps(entries)


@pytest.mark.thorough
async def test_a_pause_with_an_open_file_chooser(stage: Stage) -> None:
    (stage.folder / "a.txt").write_text("a", "utf-8")
    session = await stage.at("/files")
    await passed(session, {"act": "click", "selector": "#many"})
    assert await paused(session) == ()
    await passed(session, {"act": "upload", "selector": "#many", "value": "a.txt"})
    assert await session.text("#out", None, 5) == "a.txt"
    assert await paused(session) == ()
    assert await session.text("#out", None, 5) == "a.txt", "what was chosen is chosen again"
