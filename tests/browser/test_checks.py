"""What criteria ask about an element, and what the site keeps in the browser: each answer is that of real Chromium."""

from __future__ import annotations

from tests.browser.site import PAGES
from tests.browser.stage import Stage
from tests.browser.test_displayed import judged

PAGES["/checks"] = """<!doctype html><title>Checks</title>
<input id=on type=checkbox checked><input id=off type=checkbox><div id=aria role=switch aria-checked=true>x</div>
<button id=b>Save</button><button id=no disabled>No</button><fieldset disabled><input id=within></fieldset>
<button id=adis aria-disabled=true>No</button><input id=w value=x><input id=ro readonly value=x><p id=p> </p>
<input id=none><select id=multi multiple>
<option selected>a<option>b<option selected>c</select>
<ul><li class="row odd">One</li><li class=row hidden>Two</li><li class="row last">  Three
 3</li></ul><p id=styled style="color: rgb(1, 2, 3)">c</p><p id=gone hidden>x</p>
<div id=box style="height: 50px; overflow: auto"><div style="height: 500px"></div><i id=inner>in</i></div>
<div style="height: 4000px"></div><p id=far>far</p>
<script>document.cookie = 'theme=dark'; localStorage.setItem('cart', '3'); w.focus();</script>"""
HOLD = """
checked('#on') | NOT[checked('#off')] | checked('#aria') | enabled('#b') | NOT[enabled('#no')]
NOT[enabled('#within')]
NOT[enabled('#adis')] | editable('#w') | NOT[editable('#ro')] | NOT[editable('#no')] | focused('#w')
NOT[focused('#b')]
empty('#p') | empty('#none') | NOT[empty('#w')] | in_viewport('#b') | NOT[in_viewport('#far')]
NOT[in_viewport('#inner')] | texts('.row') == ['One', 'Three 3'] | texts('.row').length == 2 | texts('.x').length == 0
texts('#multi option:checked') == ['a', 'c'] | texts('.row').includes('One')
class('.last') == ['row', 'last'] | class('.last').includes('row')
css('#styled', 'color') == 'rgb(1, 2, 3)' | cookie('theme') == 'dark' | cookie('x') == null
local_storage('cart') == 3 | local_storage('x') == null | ALL[checked('#on'), enabled('#b')]
checked('#on') && !checked('#off')
ALL[texts('.row') matches 'e'] | ANY[texts('.row') == 'One'] | NOT[ALL[texts('.row') == 'One']]
ANY[class('.last') == 'last'] | class('#nowhere') == null
"""
UNKNOWN = (
    "checked('#gone')",
    "NOT[checked('#gone')]",
    "NOT[enabled('#missing')]",
    "css('#gone', 'color') == 'x'",
    "ALL[texts('#missing') != 'x']",
    "NOT[ALL[texts('#missing') != 'x']]",
)


async def test_an_element_is_asked_for_its_states(stage: Stage) -> None:
    session = await stage.at("/checks")
    criteria = [each.strip() for line in HOLD.splitlines() for each in line.split(" | ") if each.strip()]
    verdicts = {each: await judged(session, each) for each in criteria}
    assert {each: found.explanation for each, found in verdicts.items() if not found.holds} == {}
    opposite = [each for each in criteria if (await judged(session, f"NOT[{each}]")).holds]
    assert opposite == []


async def test_what_is_not_there_has_no_state_and_no_opposite_of_one(stage: Stage) -> None:
    session = await stage.at("/checks")
    verdicts = {each: await judged(session, each) for each in UNKNOWN}
    assert [each for each, found in verdicts.items() if found.holds] == []
    assert "1 element matches, none is shown" in str(verdicts["checked('#gone')"].explanation)
    assert "no element matches '#missing'" in str(verdicts["NOT[enabled('#missing')]"].explanation)
