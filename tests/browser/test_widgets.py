"""Fields, lists, menus, drag and drop, keys, scrolling; in frames and in shadow roots."""

from __future__ import annotations

from typing import Any

import pytest

from harness.criteria import PageQuery
from tests.browser.stage import SHOP, Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
OWN, FOREIGN = "#outer >>> #own", "#outer >>> #foreign"


@pytest.mark.parametrize(
    ("selector", "value", "held"),
    [
        ("#text", "Grüße", "Grüße"),
        ("#text", "", ""),
        ("#area", "two\nlines", "two\nlines"),
        ("#number", -12.5, "-12.5"),
        ("#date", "2024-02-29", "2024-02-29"),
        ("#time", "13:45", "13:45"),
        ("#both", "2024-02-29T13:45", "2024-02-29T13:45"),
        ("#month", "2024-02", "2024-02"),
        ("#week", "2024-W09", "2024-W09"),
        ("#colour", "#FF8800", "#ff8800"),
        ("#colour", "#000000", "#000000"),
        ("#range", 4, "4"),
        ("#editable", "new", "new"),
        ("#rich", "plain", "plain"),
    ],
)
@pytest.mark.parametrize("path", ["/fields", "/frames"])
@pytest.mark.sampled(1)
async def test_type_into_every_kind_of_field(stage: Stage, path: str, selector: str, value: Any, held: str) -> None:
    session = await stage.at(path)
    frame = OWN if path == "/frames" else None
    await passed(session, {"act": "type", "selector": selector, "frame": frame, "value": value})
    assert await session.text(selector, frame, 1) == held
    heard = await session.text("#heard", frame, 1)
    assert isinstance(heard, str)
    assert value == "" or selector.removeprefix("#") in heard


@pytest.mark.parametrize(
    ("selector", "value", "takes"),
    [
        ("#date", "soon", "a date such as 2024-02-29"),
        ("#date", "2024-02-30", "a date such as 2024-02-29"),
        ("#time", "25:00", "a time such as 13:45"),
        ("#both", "2024-02-29", "a date and time such as 2024-02-29T13:45"),
        ("#month", "February", "a month such as 2024-02"),
        ("#week", "9", "a week such as 2024-W09"),
        ("#colour", "reddish", "a colour such as #ff8800"),
        ("#range", 5, "a number that fits its steps, from 0 to 10"),
        ("#range", 50, "a number that fits its steps, from 0 to 10"),
    ],
)
@pytest.mark.parametrize("frame", [None, OWN])
@pytest.mark.sampled(1)
async def test_a_field_that_drops_the_value(
    stage: Stage, frame: str | None, selector: str, value: Any, takes: str
) -> None:
    session = await stage.at("/frames" if frame else "/fields")
    step = {"act": "type", "selector": selector, "frame": frame, "value": value}
    failure = await failed(session, step, within=3, patience=2)
    assert failure.code == "INVALID_INPUT"
    assert failure.message == f"{selector} does not take {str(value)!r}: it is a field for {takes}"


@pytest.mark.parametrize(
    ("selector", "code"),
    [("#fixed", "ELEMENT_DISABLED"), ("#nowhere", "ELEMENT_NOT_FOUND"), ("#number", "INVALID_INPUT")],
)
@pytest.mark.sampled(1)
async def test_type_fails(stage: Stage, selector: str, code: str) -> None:
    session = await stage.at("/fields")
    failure = await failed(session, {"act": "type", "selector": selector, "value": "twelve"})
    assert failure.code == code


@pytest.mark.thorough
async def test_a_field_that_goes_away_has_taken_the_value(stage: Stage) -> None:
    session = await stage.at("/fields")
    await passed(session, {"act": "type", "selector": "#vanishing", "value": "x"})
    assert await session.read(PageQuery("count", "#vanishing"), 1) == 0


async def test_fields_and_buttons_in_a_shadow_root(stage: Stage) -> None:
    session = await stage.at("/widgets")
    await passed(session, {"act": "type", "selector": "#deep", "value": "2024-02-29"})
    assert await session.text("#deep", None, 1) == "2024-02-29"
    dropped = await failed(session, {"act": "type", "selector": "#host #deep", "value": "soon"}, within=2)
    assert dropped.code == "INVALID_INPUT"
    await passed(session, {"act": "click", "selector": "role=button[name='Deep']"})
    assert await session.text("#out", None, 1) == "deep"


@pytest.mark.parametrize(
    ("path", "frame", "selector"),
    [
        ("/fields", None, "#secret"),
        pytest.param("/widgets", None, "#deep-secret", marks=pytest.mark.thorough),
        ("/frames", OWN, "#secret"),
    ],
)
async def test_a_typed_password_is_remembered_by_its_page(
    stage: Stage, path: str, frame: str | None, selector: str
) -> None:
    session = await stage.at(path)
    plain = "#text" if selector == "#secret" else "#keys"
    await passed(session, {"act": "type", "selector": plain, "frame": frame, "value": "x"})
    assert session.tab.passwords == set()
    await passed(session, {"act": "type", "selector": selector, "frame": frame, "value": "x"})
    assert session.tab.passwords == {f"{SHOP}{path}"}


@pytest.mark.parametrize(
    ("selector", "value", "chosen"),
    [
        ("#colour", "g", ["g"]),
        ("#colour", "Green", ["g"]),
        ("#colour", {"value": "g"}, ["g"]),
        ("#colour", {"label": "Green"}, ["g"]),
        ("#colour", {"index": 1}, ["g"]),
        ("#crossed", "1", ["1"]),
        ("#crossed", {"value": "1"}, ["1"]),
        ("#crossed", {"label": "1"}, ["2"]),
        ("#many", ["a", "C"], ["a", "c"]),
        ("#many", [], []),
    ],
)
@pytest.mark.parametrize("frame", [None, FOREIGN])
@pytest.mark.sampled(1)
async def test_select(stage: Stage, frame: str | None, selector: str, value: Any, chosen: list[str]) -> None:
    session = await stage.at("/frames" if frame else "/widgets")
    outcome = await passed(session, {"act": "select", "selector": selector, "frame": frame, "value": value})
    assert outcome.details["selected"] == chosen


COLOURS = "it has: r (Red), g (Green), b (Blue) [disabled]"


@pytest.mark.parametrize(
    ("selector", "value", "code", "message"),
    [
        ("#colour", "Pink", "OPTION_NOT_FOUND", f"#colour has no such option: 'Pink'; {COLOURS}"),
        ("#colour", {"label": "r"}, "OPTION_NOT_FOUND", f"#colour has no such option: label 'r'; {COLOURS}"),
        ("#colour", {"value": "Red"}, "OPTION_NOT_FOUND", f"#colour has no such option: value 'Red'; {COLOURS}"),
        ("#colour", {"index": 7}, "OPTION_NOT_FOUND", f"#colour has no such option: index 7; {COLOURS}"),
        ("#empty", "x", "OPTION_NOT_FOUND", "#empty has no such option: 'x'; it has: nothing"),
        ("#many", ["a", "z"], "OPTION_NOT_FOUND", "#many has no such option: 'a', 'z'; it has: a (A), b (B), c (C)"),
        ("#colour", "b", "ELEMENT_DISABLED", "option 'b' of #colour is disabled"),
        ("#colour", ["r", "g"], "INVALID_INPUT", "#colour is a list that takes one option, not 2"),
    ],
)
@pytest.mark.thorough
async def test_select_fails(stage: Stage, selector: str, value: Any, code: str, message: str) -> None:
    session = await stage.at("/widgets")
    failure = await failed(session, {"act": "select", "selector": selector, "value": value}, within=2)
    assert (failure.code, failure.message) == (code, message)


BUSY = """() => { const busy = () => { const began = Date.now(); while (Date.now() - began < 180); setTimeout(busy) };
setTimeout(busy, 500) }"""


@pytest.mark.parametrize("value", ["Pink", {"index": 7}])
@pytest.mark.sampled(1)
async def test_an_option_that_is_not_there_is_named_also_if_the_page_answers_late(stage: Stage, value: Any) -> None:
    session = await stage.at("/widgets")
    await session.tab.page.evaluate(BUSY)
    failure = await failed(session, {"act": "select", "selector": "#colour", "value": value}, within=2)
    assert failure.code == "OPTION_NOT_FOUND"
    assert failure.message.endswith(COLOURS)


async def test_uncheck(stage: Stage) -> None:
    session = await stage.at("/widgets")
    for _ in range(2):
        await passed(session, {"act": "uncheck", "selector": "#ticked"})
        assert await session.read(PageQuery("count", "#ticked:checked"), 1) == 0
    await passed(session, {"act": "check", "selector": "text=ticked"})
    assert await session.read(PageQuery("count", "#ticked:checked"), 1) == 1
    locked = await failed(session, {"act": "uncheck", "selector": "#locked"})
    assert locked.code == "ELEMENT_DISABLED"
    assert (await failed(session, {"act": "uncheck", "selector": "#out"})).code == "INVALID_INPUT"


@pytest.mark.parametrize("frame", [None, FOREIGN])
@pytest.mark.thorough
async def test_hover_opens_a_menu(stage: Stage, frame: str | None) -> None:
    session = await stage.at("/frames" if frame else "/widgets")
    hidden = await failed(session, {"act": "click", "selector": "#entry", "frame": frame}, within=3)
    assert hidden.code == "ELEMENT_HIDDEN"
    await passed(session, {"act": "hover", "selector": "#menu", "frame": frame})
    await passed(session, {"act": "click", "selector": "#entry", "frame": frame})
    assert await session.text("#out", frame, 1) == "entry"


@pytest.mark.thorough
async def test_hover_fails(stage: Stage) -> None:
    session = await stage.at()
    missing = await failed(session, {"act": "hover", "selector": "#nowhere"})
    covered = await failed(session, {"act": "hover", "selector": "#covered"})
    assert (missing.code, covered.code) == ("ELEMENT_NOT_FOUND", "ELEMENT_COVERED")
    await passed(session, {"act": "hover", "selector": "#covered", "force": True})


@pytest.mark.parametrize("frame", [None, FOREIGN])
@pytest.mark.sampled(1)
async def test_drag_and_drop(stage: Stage, frame: str | None) -> None:
    session = await stage.at("/frames" if frame else "/widgets")
    step = {"act": "drag", "selector": "#first-zone", "value": "#target-zone", "frame": frame}
    await passed(session, step)
    assert await session.text("#target-zone", frame, 1) == "dropped card"
    await passed(session, {"act": "drag", "selector": "#one", "value": "#three", "frame": frame})
    order = await session.text("#list", frame, 1)
    assert isinstance(order, str)
    assert order.split() == ["Two", "Three", "One"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("selector", "value", "code", "message"),
    [
        ("#nowhere", "#target-zone", "ELEMENT_NOT_FOUND", "no element matches #nowhere (looked for 0.4s)"),
        ("#nowhere", "#nothing", "ELEMENT_NOT_FOUND", "no element matches #nowhere (looked for 0.4s)"),
        (
            "#first-zone",
            "#nothing",
            "ACTION_FAILED",
            "no element matches #nothing, the drop target of #first-zone (looked for 0.4s)",
        ),
        ("#first-zone", ".zone", "INVALID_INPUT", ".zone, the drop target of #first-zone, matches 3 elements"),
        (".zone", "#target-zone", "SELECTOR_AMBIGUOUS", ".zone matches 3 elements"),
    ],
)
@pytest.mark.sampled(1)
async def test_drag_fails(stage: Stage, selector: str, value: str, code: str, message: str) -> None:
    session = await stage.at("/widgets")
    failure = await failed(session, {"act": "drag", "selector": selector, "value": value}, within=2)
    assert (failure.code, failure.message) == (code, message)


async def test_a_drag_that_cannot_end_lets_go(stage: Stage) -> None:
    session = await stage.at("/widgets")
    page = session.tab.page
    await page.evaluate("document.getElementById('target-zone').style.display = 'none'")
    failure = await failed(session, {"act": "drag", "selector": "#one", "value": "#target-zone"}, within=2)
    assert (failure.code, failure.message) == (
        "ACTION_FAILED",
        "#target-zone, the drop target of #one, is not visible",
    )
    await passed(session, {"act": "hover", "selector": "#three"})
    assert await page.evaluate("held") is None


@pytest.mark.parametrize(
    ("key", "seen"),
    [
        ("Control+A", "nothing Control+Control Control+A"),
        ("Shift+Tab", "nothing Shift+Shift Shift+Tab"),
        ("ArrowDown", "nothing ArrowDown"),
    ],
)
@pytest.mark.parametrize("frame", [None, FOREIGN])
@pytest.mark.parametrize("on_element", [True, False])
@pytest.mark.sampled(1)
async def test_press(stage: Stage, on_element: bool, frame: str | None, key: str, seen: str) -> None:
    session = await stage.at("/frames" if frame else "/widgets")
    target = {"selector": "#keys"} if on_element else {}
    await passed(session, {"act": "click", "selector": "#keys", "frame": frame})
    if frame and not on_element:  # the focus goes elsewhere, and `frame` brings it back
        await passed(session, {"act": "click", "selector": "#beside"})
    await passed(session, {"act": "press", "value": key, "frame": frame, **target})
    assert await session.text("#out", frame, 1) == seen


@pytest.mark.thorough
async def test_press_fails(stage: Stage) -> None:
    session = await stage.at("/widgets")
    unknown = await failed(session, {"act": "press", "selector": "#keys", "value": "Strg+A"})
    missing = await failed(session, {"act": "press", "selector": "#nowhere", "value": "Enter"})
    assert (unknown.code, missing.code) == ("INVALID_INPUT", "ELEMENT_NOT_FOUND")


@pytest.mark.parametrize("frame", [None, FOREIGN])
@pytest.mark.thorough
async def test_scroll_in_pages_frames_and_elements(stage: Stage, frame: str | None) -> None:
    session = await stage.at("/frames" if frame else "/widgets")
    root = session.tab.page.frames[-1] if frame else session.tab.page.main_frame
    assert root.url.endswith("/widgets")
    await passed(session, {"act": "scroll", "frame": frame, "value": 300})
    assert await root.evaluate("scrollY") == 300
    await passed(session, {"act": "scroll", "frame": frame, "value": -100})
    assert await root.evaluate("scrollY") == 200
    await passed(session, {"act": "scroll", "frame": frame})
    assert await root.evaluate("scrollY") > 300
    await passed(session, {"act": "scroll", "frame": frame, "selector": "#box", "value": 120})
    assert await root.evaluate("[document.getElementById('box').scrollTop, scrollY < 1500]") == [120, True]
    await passed(session, {"act": "scroll", "frame": frame, "selector": "#menu"})
    missing = await failed(session, {"act": "scroll", "frame": frame, "selector": "#nowhere"})
    assert missing.code == "ELEMENT_NOT_FOUND"


@pytest.mark.thorough
async def test_frames_in_frames(stage: Stage) -> None:
    session = await stage.at("/frames")
    await passed(session, {"act": "wait", "selector": "#text", "frame": "#outer>>>#own"})
    lost = await failed(session, {"act": "click", "selector": "#text", "frame": "#outer >>> #gone"})
    inner = await failed(session, {"act": "wait", "selector": "#text", "frame": "#gone >>> #own"}, within=0.5)
    none = await failed(session, {"act": "click", "selector": "#nowhere", "frame": OWN})
    assert (lost.code, none.code) == ("FRAME_NOT_FOUND", "ELEMENT_NOT_FOUND")
    assert inner.message.endswith("no frame matches #gone")
    no_frame = await failed(session, {"act": "click", "selector": "#text", "frame": "body"})
    assert no_frame.code == "INVALID_INPUT"
    twins = await failed(session, {"act": "click", "selector": "#in", "frame": "#outer >>> .twin"})
    assert twins.code == "SELECTOR_AMBIGUOUS"
    await passed(session, {"act": "click", "selector": "#in", "frame": "#outer >>> .twin >> nth=1"})


@pytest.mark.parametrize(
    "selector",
    [
        'role=button[name="Entry"][include-hidden]',
        "text=Entry",
        "//button[@id='entry']",
        "#menu >> button",
        "css=#menu ul:visible button",
        "#menu:has(ul) >> text='Entry'",
    ],
)
@pytest.mark.thorough
async def test_engines(stage: Stage, selector: str) -> None:
    session = await stage.at("/widgets")
    await passed(session, {"act": "hover", "selector": "#menu"})
    await passed(session, {"act": "click", "selector": selector})
    assert await session.text("#out", None, 1) == "entry"


@pytest.mark.thorough
async def test_references_of_a_snapshot(stage: Stage) -> None:
    session = await stage.at()
    before = await failed(session, {"act": "click", "selector": "aria-ref=e3"})
    assert before.code == "AGENT_STALE_REF", "no snapshot was taken, so no ref means anything"
    aria = await session.tab.page.aria_snapshot(mode="ai")
    refs = {
        name: line.partition("[ref=")[2].partition("]")[0]
        for name in ("Plain", "In")
        for line in aria.splitlines()
        if f'button "{name}"' in line
    }
    await passed(session, {"act": "click", "selector": f"aria-ref={refs['Plain']}"})
    assert await session.text("#out", None, 1) == "clicked"
    await passed(session, {"act": "click", "selector": f"aria-ref={refs['In']}"})
    assert await session.text("#in", "#inner", 1) == "pressed"
    gone = await failed(session, {"act": "click", "selector": "aria-ref=e9999"})
    assert gone.code == "AGENT_STALE_REF"


@pytest.mark.parametrize("selector", ["//button[", "role=button[name=", "nosuch=x", ">> >>"])
@pytest.mark.thorough
async def test_a_selector_that_cannot_be_read(stage: Stage, selector: str) -> None:
    session = await stage.at("/widgets")
    assert (await failed(session, {"act": "click", "selector": selector})).code == "INVALID_INPUT"
