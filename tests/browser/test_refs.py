"""Elements named by refs: a ref means what was seen or nothing, and a selector that lasts is found for it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.locating import locate
from harness.model.record import LASTING
from harness.recovery.failure import Failure
from tests.browser.stage import SHOP, Stage, passed, perform

PAGE = """<title>Refs</title><ul><li>Mouse <button>Add to cart</button><li>Pad <button id=pad>Add to cart</button></ul>
<button>Pay "now", it's due</button><label>Name <input></label><p onclick="0" style="cursor:pointer">plain</p>
<iframe srcdoc="<button>Inside</button><button>Two</button>"></iframe>
<div id=place aria-label=Place role=group>x</div>"""


async def at_page(stage: Stage) -> tuple[PlaywrightSession, str]:
    session = await stage.at()
    await session.tab.page.set_content(PAGE)
    await session.tab.page.frame_locator("iframe").get_by_text("Inside").wait_for()
    return session, (await session.observe(5, screenshot=False)).aria


def ref(aria: str, text: str, number: int = 0) -> str:
    return re.findall(rf"{text}.*?\[ref=(\w+)\]", aria)[number]


async def lasting(session: PlaywrightSession, selector: str, **step: Any) -> dict[str, str]:
    outcome = await passed(session, {"act": "hover", "selector": f"aria-ref={selector}", **step})
    found: dict[str, str] = outcome.details[LASTING]
    for each in found.values():
        assert await locate(session.tab.page, each, None).count() == 1
    return found


async def test_each_ref_gets_a_selector_that_matches_its_element_alone(stage: Stage) -> None:
    session, aria = await at_page(stage)
    pay, name, inside = ref(aria, "button .Pay"), ref(aria, "textbox"), ref(aria, 'button "Inside"')
    assert await lasting(session, pay) == {pay: """role=button[name="Pay \\"now\\", it's due"]"""}
    assert await lasting(session, name) == {name: 'role=textbox[name="Name"]'}
    framed = 'iframe >> internal:control=enter-frame >> role=button[name="Inside"]'
    assert await lasting(session, inside) == {inside: framed}


async def test_of_two_elements_with_one_name_each_gets_its_own_selector(stage: Stage) -> None:
    session, aria = await at_page(stage)
    first, second = (ref(aria, 'button "Add to cart"', number) for number in (0, 1))
    assert (await lasting(session, second))[second] == "#pad"
    assert "Mouse" in (await lasting(session, first))[first]


@pytest.mark.thorough
async def test_on_a_later_page_refs_look_as_if_in_a_frame(stage: Stage) -> None:
    session = await stage.at()
    for path in ("/popup", "/"):
        await passed(session, {"act": "open", "url": f"http://{SHOP}{path}"})
        aria = (await session.observe(5, screenshot=False)).aria
    plain, inside = ref(aria, 'button "Plain"'), ref(aria, 'button "In"')
    assert re.fullmatch(r"f\d+e\d+", plain)
    assert await lasting(session, plain) == {plain: 'role=button[name="Plain"]'}
    assert (await lasting(session, inside))[inside].endswith(' >> role=button[name="In"]')


@pytest.mark.thorough
async def test_both_ends_of_a_drag_and_what_is_remembered_have_selectors(stage: Stage) -> None:
    session, aria = await at_page(stage)
    pay, place = ref(aria, "button .Pay"), ref(aria, 'group "Place"')
    outcome = await passed(session, {"act": "drag", "selector": f"aria-ref={pay}", "value": f"aria-ref={place}"})
    assert set(outcome.details[LASTING]) == {pay, place}
    remembering = {"act": "wait", "value": 0, "remember": {"x": f"text('aria-ref={place}')"}}
    assert set((await passed(session, remembering)).details[LASTING]) == {place}


@pytest.mark.thorough
async def test_a_selector_costs_nothing(stage: Stage) -> None:
    session, _ = await at_page(stage)
    assert LASTING not in (await passed(session, {"act": "hover", "selector": "#pad"})).details


async def refused(session: PlaywrightSession, selector: str) -> Failure:
    """The failure of a click, which must come at once: nobody waits for a ref."""
    outcome = await perform(session, {"act": "click", "selector": f"aria-ref={selector}"}, 20, 15)
    assert isinstance(outcome, Failure)
    return outcome


async def test_a_ref_whose_element_changed_hits_nothing(stage: Stage) -> None:
    session, aria = await at_page(stage)
    second = ref(aria, 'button "Add to cart"', 1)
    page = session.tab.page
    await page.evaluate("pad.textContent = 'Delete'; pad.onclick = () => document.title = 'deleted'; undefined")
    failure = await refused(session, second)
    assert failure.code == "AGENT_STALE_REF"
    assert failure.message == (
        f'{second}, which was button "Add to cart" when the page was read, has become another element'
    )
    assert await page.title() == "Refs"


async def test_a_ref_whose_element_is_gone_is_stale_at_once(stage: Stage) -> None:
    session, aria = await at_page(stage)
    second, inside = ref(aria, 'button "Add to cart"', 1), ref(aria, 'button "Inside"')
    await session.tab.page.evaluate("pad.remove(); document.querySelector('iframe').remove()")
    assert [(await refused(session, each)).code for each in (second, inside, "e999")] == ["AGENT_STALE_REF"] * 3


@pytest.mark.thorough
async def test_a_page_that_was_only_moved_keeps_its_refs(stage: Stage) -> None:
    session, aria = await at_page(stage)
    pay = ref(aria, "button .Pay")
    await session.tab.page.evaluate("document.body.prepend(document.createElement('hr'), 'news')")
    await passed(session, {"act": "click", "selector": f"aria-ref={pay}"})
