"""Keys and mouse as people use them: each key of the acts does what it says, in real Chromium."""

from __future__ import annotations

import pytest

from harness.criteria import PageQuery
from harness.spec.context import ContextOptions
from tests.browser.site import PAGES
from tests.browser.stage import Stage, failed, passed

PAGES["/keys"] = """<!doctype html><title>Keys</title>
<div id=log></div><button id=b style="width: 100px; height: 40px">Box</button>
<input id=f value=old><input id=p type=password><div id=rich contenteditable>old</div>
<div id=handle style="width: 40px; height: 20px; background: navy"></div>
<script>
const said = [], tell = text => { said.push(text); log.textContent = said.join(' '); };
for (const type of ['click', 'dblclick', 'contextmenu', 'auxclick'])
  b.addEventListener(type, e => { e.preventDefault();
    const words = [type, e.button, e.shiftKey ? 'shift' : '', e.offsetX < 20 ? 'edge' : 'middle'];
    tell(words.filter(x => x !== '').join(':')); });
b.addEventListener('touchstart', () => tell('touch'));
f.addEventListener('keydown', e => tell(e.key));
f.addEventListener('focus', () => tell('focus'));
f.addEventListener('blur', () => tell('blur'));
let from = null;
handle.addEventListener('pointerdown', e => { from = [e.clientX, e.clientY]; handle.setPointerCapture(e.pointerId); });
handle.addEventListener('pointerup', e => tell(`dragged:${e.clientX - from[0]}:${e.clientY - from[1]}`));
</script>"""
PAGES["/keys-in-frame"] = "<!doctype html><iframe id=in src=/keys style='width: 500px; height: 500px'></iframe>"
PAGES["/list"] = """<!doctype html><title>List</title>
<div id=list style="height: 200px; width: 300px; overflow: auto"></div>
<div id=wide style="width: 200px; overflow: auto"><div style="width: 2000px">wide</div></div>
<div style="height: 3000px"></div><p id=end>end</p>
<script>
let n = 0;
const more = () => { for (let i = 0; i < 20 && n < 100; i++)
  list.insertAdjacentHTML('beforeend', `<p class=row id=r${++n}>${n}</p>`); };
more();
list.addEventListener('scroll', () => {
  if (list.scrollTop + 250 > list.scrollHeight) setTimeout(more, 50); });
</script>"""
CLICKS = {
    "click:0:middle": {},
    "click:0:middle click:0:middle dblclick:0:middle": {"count": 2},
    "contextmenu:2:middle auxclick:2:middle": {"button": "right"},
    "auxclick:1:middle": {"button": "middle"},
    "click:0:shift:middle": {"modifiers": ["Shift"]},
    "click:0:edge": {"position": {"x": 5, "y": 5}},
}


async def text(session: object, selector: str = "#log") -> str:
    return str(await session.read(PageQuery("text", selector), 20))  # type: ignore[attr-defined]


async def test_a_click_has_button_count_modifiers_and_a_place(stage: Stage) -> None:
    for told, keys in CLICKS.items():
        session = await stage.at("/keys")
        await passed(session, {"act": "click", "selector": "#b", **keys})
        assert await text(session) == told


async def test_a_tap_touches(stage: Stage) -> None:
    phone = await stage.at("/keys", context=ContextOptions(device="iPhone 13"))
    await passed(phone, {"act": "tap", "selector": "#b", "position": {"x": 5, "y": 5}})
    assert (await text(phone)).startswith("touch")
    desktop = await stage.at("/keys")
    refused = await failed(desktop, {"act": "tap", "selector": "#b"})
    assert refused.code == "INVALID_INPUT"
    assert "device" in f"{refused.message} {refused.advice}"


async def test_keys_are_typed_one_by_one_and_never_twice_into_a_field(stage: Stage) -> None:
    session = await stage.at("/keys")
    for _ in range(2):  # a second attempt leaves the same
        await passed(session, {"act": "type", "selector": "#f", "value": "ab", "keys": True, "delay": 0.01})
        assert await session.read(PageQuery("value", "#f"), 20) == "ab"
    assert (await text(session)).count("a b") == 2
    await passed(session, {"act": "type", "selector": "#rich", "value": "new", "keys": True})
    assert await text(session, "#rich") == "new"
    await passed(session, {"act": "focus", "selector": "#f"})
    await passed(session, {"act": "press", "value": "End"})
    await passed(session, {"act": "type", "value": "c", "keys": True})
    assert await session.read(PageQuery("value", "#f"), 20) == "abc"
    await passed(session, {"act": "blur", "selector": "#f"})
    assert (await text(session)).endswith("blur")
    await passed(session, {"act": "clear", "selector": "#f"})
    assert await session.read(PageQuery("value", "#f"), 20) == ""


async def test_the_acts_reach_into_frames_and_can_be_forced(stage: Stage) -> None:
    session = await stage.at("/keys-in-frame", context=ContextOptions(device="iPhone 13"))
    here = {"frame": "#in"}
    await passed(session, {"act": "tap", "selector": "#b", "force": True, "modifiers": ["Alt"], **here})
    await passed(session, {"act": "type", "selector": "#f", "value": "xy", "keys": True, **here})
    await passed(session, {"act": "clear", "selector": "#f", "force": True, **here})
    await passed(session, {"act": "focus", "selector": "#f", **here})
    await passed(session, {"act": "blur", "selector": "#f", **here})
    assert await session.read(PageQuery("value", "#f", None, "#in"), 20) == ""
    shown = str(await session.read(PageQuery("text", "#log", None, "#in"), 20))
    assert "touch" in shown
    assert shown.endswith("blur")


async def test_what_is_typed_by_keys_into_a_password_is_a_secret(stage: Stage) -> None:
    session = await stage.at("/keys")
    await passed(session, {"act": "focus", "selector": "#p"})
    await passed(session, {"act": "type", "value": "hunter2-by-keys", "keys": True})
    assert session.tab.passwords


async def test_a_drag_goes_by_a_distance(stage: Stage) -> None:
    session = await stage.at("/keys")
    await passed(
        session, {"act": "drag", "selector": "#handle", "by": {"x": 30, "y": 10}, "position": {"x": 5, "y": 5}}
    )
    assert await text(session) == "dragged:30:10"


async def test_an_element_is_dropped_at_a_place(stage: Stage) -> None:
    session = await stage.at("/keys")
    await passed(session, {"act": "drag", "selector": "#handle", "value": "#b", "drop_position": {"x": 3, "y": 3}})
    near = await text(session)
    await passed(session, {"act": "drag", "selector": "#handle", "value": "#b", "drop_position": {"x": 93, "y": 33}})
    first, second = ([int(each) for each in told.split(":")[1:]] for told in (near, (await text(session)).split()[-1]))
    assert [b - a for a, b in zip(first, second, strict=True)] == [90, 30]


PAGES["/late-rows"] = """<!doctype html><title>Late</title>
<div id=grid role=grid><div id=rows style="height: 80px; overflow: auto"><div style="height: 1600px"></div>
</div></div><div id=wide style="width: 200px; overflow: auto"><div id=columns style="width: 2000px">wide</div></div>
<script>let asked = 0; const draw = () => {
  const first = Math.floor(rows.scrollTop / 40), mine = ++asked;
  setTimeout(() => { if (mine === asked) rows.firstChild.innerHTML = [0, 1, 2].map(i =>
    `<div style="position: relative; top: ${first * 40}px">Row ${first + i}</div>`).join(''); }, 100); };
rows.onscroll = draw; draw(); wide.scrollLeft = 2000;
wide.onscroll = () => { if (wide.scrollLeft < 500) columns.innerHTML = '<b id=left>left</b>'; };
</script>"""


PAGES["/styled-box"] = """<!doctype html><title>Box</title><label style="position: relative"><input id=b type=checkbox
style="opacity: 0; position: absolute"><span id=look style="position: absolute; padding: 20px">Agree</span></label>"""


async def test_a_box_under_its_own_label_is_told_as_that(stage: Stage) -> None:
    session = await stage.at("/styled-box")
    covered = await failed(session, {"act": "check", "selector": "#b"})
    assert (covered.code, "its own label" in covered.advice) == ("ELEMENT_COVERED", True), covered
    await passed(session, {"act": "check", "selector": "#b", "force": True})
    await passed(session, {"act": "click", "selector": "#look"})
    assert await session.read(PageQuery("checked", "#b"), 20) is False


async def test_a_place_outside_of_the_element_is_no_cover(stage: Stage) -> None:
    session = await stage.at("/keys")
    for act in ({"act": "click"}, {"act": "drag", "by": {"x": 5, "y": 0}}):
        outside = await failed(session, {**act, "selector": "#b", "position": {"x": 300, "y": 5}})
        assert (outside.code, "300, 5 is outside of #b" in outside.message) == ("INVALID_INPUT", True), outside


@pytest.mark.thorough
async def test_rows_that_come_late_or_lie_before_are_found(stage: Stage) -> None:
    """The list is inside of the element that is named, and has no row when a scroll has been drawn."""
    session = await stage.at("/late-rows")
    await passed(session, {"act": "scroll", "selector": "#grid", "to": 'text="Row 5"'}, patience=0.4)
    assert await session.read(PageQuery("visible", 'text="Row 5"'), 20) is True
    await passed(session, {"act": "scroll", "selector": "#wide", "right": -1, "to": "#left"})


async def test_a_list_is_scrolled_until_an_element_is_there(stage: Stage) -> None:
    session = await stage.at("/list")
    await passed(session, {"act": "scroll", "selector": "#list", "to": "#r95"})
    assert await session.read(PageQuery("count", ".row"), 20) == 100
    missing = await failed(session, {"act": "scroll", "selector": "#list", "to": "#r101"}, 6)
    assert (missing.code, missing.selector) == ("ELEMENT_NOT_FOUND", "#r101")
    await passed(session, {"act": "scroll", "selector": "#wide", "right": 300})
    assert await session.tab.page.evaluate("[wide.scrollLeft, scrollY]") == [300, 0]
    await passed(session, {"act": "scroll", "to": "#end"})
    assert await session.tab.page.evaluate("scrollY") > 1000
