"""What criteria read of that which pages do: console, answers, WebSocket messages, downloads; and roles and names."""

from __future__ import annotations

import json

import pytest

from tests.browser.moments import until
from tests.browser.shop import Shop
from tests.browser.site import PAGES
from tests.browser.stage import SHOP, Stage, passed
from tests.browser.test_displayed import judged

PDF = """%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj
4 0 obj<</Length 42>>stream
BT /F1 12 Tf 10 100 Td (Total 24.99) Tj ET
endstream endobj
5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj
xref
0 6
0000000000 65535 f
PLACEStrailer<</Root 1 0 R/Size 6>>
startxref
START
%%EOF
"""
_PLACES = "".join(f"{PDF.index(f'{each} 0 obj'):010} 00000 n \n" for each in range(1, 6))
PDF = PDF.replace("65535 f\n", "65535 f \n").replace("START\n", f"{PDF.index('xref')}\n").replace("PLACES", _PLACES)
FILES = {
    "csv": ("orders.csv", 'id;name;total\n1;Ann;3,50\n2;"O; k";4\n'),
    "json": ("order.json", '{"items": [{"sku": "A-1"}]}'),
    "pdf": ("bill.pdf", PDF),
    "bin": ("photo.bin", "a\0b"),
}
PAGES["/happenings"] = f"""<!doctype html><title>Happenings</title>
<button id=get onclick="fetch('/whoami?n=1').then(a => a.json()).then(a => out.textContent = a.method)">Get</button>
<button id=log onclick="console.log('it is ok');
console.error('it broke'); setTimeout(() => {{ throw Error('boom') }})">
Log</button><p id=out>nothing</p>
<button id=talk onclick="const s = new WebSocket(this.dataset.at); s.onopen = () => s.send('{{&quot;a&quot;: 1}}');
s.onmessage = () => {{ out.textContent = 'heard' }}">Talk</button><i id=files></i>
<script>for (const [key, [name, text]] of Object.entries({json.dumps(FILES)})) {{
  const a = document.createElement('a');
  Object.assign(a, {{id: key, download: name, textContent: key, href: URL.createObjectURL(new Blob([text]))}});
  files.append(a);
}}</script>"""
PAGES["/named"] = """<!doctype html><title>Named</title><div id=plain>x<button>inner</button></div>
<button class=b hidden>Old</button><button class=b aria-label="Save  it">z</button><img id=i alt="Al" width=9 height=9>
<select id=s aria-label=None><option>1</select><p id=p>q</p><p id=note>As on the card</p><p id=bad>Too short</p>
<input id=d aria-describedby=note><input id=e aria-invalid=true aria-errormessage=bad><label for=f>User
 name</label><input id=f><span id=none role=presentation>e</span><div id=gone hidden>x</div><a id=link>no link</a>"""


async def test_the_console_is_read_by_type_and_text(stage: Stage) -> None:
    session = await stage.at("/happenings")
    assert (await judged(session, "console('error*').length == 0 && console('pageerror *').length == 0")).holds
    await passed(session, {"act": "click", "selector": "#log"})
    hold = [
        "EVENTUALLY(console('pageerror *').length == 1)",
        "console('pageerror *')[0].text includes 'boom'",
        "console('error *').length == 1 && console('error *') == ['it broke']",
        "console('*broke')[0].type == 'error'",
        f"console('log it*')[-1].url == 'http://{SHOP}/happenings'",
        "NOT[console('error *').length == 0]",
        "console('warning *').length == 0",
    ]
    assert [each for each in hold if not (await judged(session, each)).holds] == []
    session.tab.watch.lines.dropped = 1
    verdict = await judged(session, "console('warning *').length == 0")
    assert "older lines of the console were dropped" in str(verdict.explanation)
    assert (await judged(session, "NOT[console('warning *').length == 0]")).holds is False
    assert (await judged(session, "console('error *')[-1].text == 'it broke'")).holds


async def test_an_answer_is_kept_when_its_page_is_left(stage: Stage) -> None:
    session = await stage.at("/happenings", hears=frozenset({"responses"}))
    await passed(session, {"act": "click", "selector": "#get"})
    await passed(session, {"act": "wait", "selector": "#out", "value": "GET"})
    await passed(session, {"act": "open", "url": f"http://{SHOP}/named"})
    await passed(session, {"act": "open", "url": "about:blank"})
    hold = [
        "responses('GET */whoami*')[-1].json.method == 'GET'",
        "responses('*/whoami*')[0].status == 200 && responses('*/whoami*').length == 1",
        "responses('*/whoami*')[0].headers['content-type'] == 'application/json'",
        "responses('*/whoami*')[0].body includes 'method'",
        "responses('*/happenings')[0].body includes '<title>Happenings' && responses('*/happenings')[0].json == null",
        "responses('POST *').length == 0",
        "NOT[responses('*/whoami*')[0].json.method == 'POST']",
    ]
    assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}


@pytest.mark.thorough
async def test_a_body_that_is_gone_is_neither_empty_nor_missing(stage: Stage) -> None:
    session = await stage.at("/happenings")
    await passed(session, {"act": "open", "url": f"http://{SHOP}/named"})
    await passed(session, {"act": "open", "url": "about:blank"})
    watch = session.tab.watch
    await until(lambda: all(each.answered for each in watch.exchanges))
    lost = "responses('*/happenings')[0].body"
    for each in (f"{lost} == null", f"{lost} == ''", f"{lost} != 'x'", f"NOT[{lost} == 'x']", f"{lost}.length == 0"):
        verdict = await judged(session, each)
        assert (verdict.holds, "was not there any more" in str(verdict.explanation)) == (False, True), each


async def test_messages_of_web_sockets_are_read_in_both_directions(stage: Stage) -> None:
    async with Shop() as shop:
        session = await stage.at("/happenings", hears=frozenset({"messages"}))
        address = f"ws://127.0.0.1:{shop.port}/socket"
        await session.tab.page.evaluate("at => { document.querySelector('#talk').dataset.at = at }", address)
        await passed(session, {"act": "click", "selector": "#talk"})
        await passed(session, {"act": "wait", "selector": "#out", "value": "heard"})
        hold = [
            "messages('ws://*').length == 2 && messages('sent ws://*').length == 1",
            "messages('received *')[-1].json.a == 1 && messages('received *')[0].direction == 'received'",
            f"messages('*')[0].url == '{address}' && messages('*')[0].text == '{{\"a\": 1}}'",
            "messages('ws://elsewhere/*').length == 0",
        ]
        assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}
        deaf = await stage.at("/happenings")
        for each in ("messages('*').length == 0", "NOT[messages('*').length == 0]"):
            assert "kept only if the task's file reads them" in str((await judged(deaf, each)).explanation)


async def test_downloaded_files_are_read_by_text_json_rows_and_pages(stage: Stage) -> None:
    session = await stage.at("/happenings")
    assert (await judged(session, "downloads().length == 0")).holds
    for each in FILES:
        await passed(session, {"act": "download", "selector": f"#{each}"})
    hold = [
        "downloads() == ['orders.csv', 'order.json', 'bill.pdf', 'photo.bin']",
        "downloads()[0].rows[1].name == 'O; k' && downloads()[0].rows.length == 2",
        "number(downloads()[0].rows[1].total) == 4 && downloads()[0].text includes 'Ann'",
        "downloads()[1].json.items[0].sku == 'A-1' && downloads()[1].size == 27",
        "downloads()[2].text includes 'Total 24.99'",
        "downloads()[-1].size == 3",
        f"downloads()[0].url includes 'blob:http://{SHOP}/'",
    ]
    assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}
    for each in ("downloads()[-1].text == null", "NOT[downloads()[-1].text includes 'x']"):
        verdict = await judged(session, each)
        assert (verdict.holds, "photo.bin is no text" in str(verdict.explanation)) == (False, True), each


@pytest.mark.thorough
async def test_roles_and_accessible_names_are_those_of_the_selectors(stage: Stage) -> None:
    session = await stage.at("/named")
    hold = [
        "role('.b') == 'button' && accessible_name('.b') == 'Save it'",
        "role('#i') == 'img' && accessible_name('#i') == 'Al'",
        "role('#s') == 'combobox' && accessible_name('#s') == 'None'",
        "role('#f') == 'textbox' && accessible_name('#f') == 'User name'",
        "role('#plain') == '' && accessible_name('#plain') == '' && role('#link') == ''",
        "accessible_description('#d') == 'As on the card' && accessible_description('#f') == ''",
        "accessible_error_message('#e') == 'Too short' && accessible_error_message('#d') == ''",
        "role('#p') == 'paragraph' && role('#none') == 'presentation'",
        "NOT[role('.b') == 'link']",
        "role('#gone') == null && role('#nowhere') == null",
    ]
    assert {each: found.explanation for each in hold if not (found := await judged(session, each)).holds} == {}
    for each in ("role('#gone') != 'x'", "NOT[role('#nowhere') == 'x']", "accessible_name('#gone') == ''"):
        assert (await judged(session, each)).holds is False
    hidden = await judged(session, "role('#gone') == 'button'")
    assert "1 element matches, none is shown" in str(hidden.explanation)
