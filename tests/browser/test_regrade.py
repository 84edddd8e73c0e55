"""What is judged by a recorded page is what the page itself says, and what is not known is said to be undecided."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.criteria import evaluate, parse
from harness.recovery import Capture
from harness.resilience import Deadline, SystemClock
from harness.runner.regrade.criteria import Grade, grade
from harness.runner.regrade.page import recorded_page
from harness.runner.regrade.recorded import RecordedSources
from tests.browser.conftest import Run
from tests.browser.hosts import Answer, Host
from tests.browser.stage import Stage, passed

NOW = datetime(2025, 11, 16, 9, tzinfo=UTC)
MEMORY = {"orders.last": {"id": "O-1", "total": "$24.99"}, "begun": "2025-11-16T08:00:00Z"}
ENVIRONMENT = {"env": {"shop": {"orders": [{"id": "O-1"}, {"id": "O-2"}]}}}

ON_THE_SHOP = """
exists('#search-box')
exists('.spinner')
!exists('#no-such-thing')
visible('#search-box')
!visible('.spinner')
visible('.spinner')
count('.product-grid .product-item') == 4
count('.product-grid > .product-item:not([hidden])') == 4
count('.product-item:first-child') == 1
count('.product-item:nth-child(2)') == 1
count('.product-item:has(.price)') == 4
count('.product-item:has(> .no-such)') == 0
count('.product-item, h1') >= 5
count("//*[contains(@class, 'product-item')]") == 4
count('//article | //li') > 3
exists("//*[@id='search-box']")
exists("xpath=//button[@type='submit']")
text("//h1") != ''
text('h1') != ''
text('h1').length > 3
text('.product-item .price') matches '[0-9]+'
text('.product-item .price') < 100
text('#result-count') includes 'products'
text('#result-count') == '4 products found'
text('#search-box') == 'wireless mouse'
value('#search-box') == 'wireless mouse'
value('#search-box') includes 'keyboard'
value('#filter-max-price') == ''
value('#nothing') == null
attr('#search-box', 'name') == 'q'
attr('#search-box', 'NAME') == 'q'
attr('#search-box', 'onclick') == null
attr('.product-link', 'href') matches '/product'
attr('.product-item', 'data-sku') != ''
url() includes 'shop.local'
url() matches 'q=wireless'
title() != ''
title().length > 100
mem('orders.last.id') == 'O-1'
mem('orders.last.total') < 25
mem('orders.none') == null
json('env', 'shop.orders.*.id') == 'O-2'
json('env', 'shop.orders').length == 2
time_since('begun') < 24h
time_until('begun') > 0
ALL[exists('#search-box'), ANY[title() == 'no', NOT[count('li') == 12345]]]
EVENTUALLY(text('#result-count') includes 'found')
STABLE(0.2, exists('#no-such-thing'))
ALL[exists('#no-such-thing'), EVENTUALLY(exists('#search-box'))]
"""

PAGE = """<!doctype html><html><head><title> A   title </title><style>
.up{text-transform:uppercase}.gone{display:none}.unseen{visibility:hidden}.pre{white-space:pre}</style></head><body>
<p id=plain>  two
 words </p><p id=up class=up>quiet</p><p id=mixed>seen<span class=gone> and not</span></p><p class=gone id=gone>gone</p>
<p class=unseen id=unseen>unseen</p><p id=br>one<br>two</p><pre id=pre>a
  b</pre><table id=table><tr><td>1<td>2<tr><td>3<td>4</table><div id=nested><p>x</p><p>y</p></div>
<input id=typed value=was><textarea id=area>old</textarea><select id=chosen><option value=a>A<option value=b selected>B
</select><input id=zero value=x style="width:0;height:0;border:0;padding:0">
<a id=link href=/next class="md:flex B">go</a>
<svg id=drawn width=10 height=10 viewBox="0 0 10 10"><text>drawn</text><linearGradient/></svg>
<my-tag id=own>mine</my-tag>
<p id=nbsp>a&nbsp;b</p><p id=empty></p><input type=password id=secret value=hunter2><form id=form></form>
<script>typed.value = 'now'; area.value = 'new';
document.getElementById('own').setAttribute('@x', '1')</script></body></html>
"""
OF_ANY_STYLE = """
title() == 'A title'
text('#plain') == 'two words'
text('#up') == 'QUIET'
text('#mixed') == 'seen'
text('#gone') == 'gone'
text('#unseen') == ''
text('#br') includes 'two'
text('#br') == 'one two'
text('#pre') == 'a b'
text('#table') includes '4'
text('#table') == '1 2 3 4'
text('#nested') == 'x y'
text('#nbsp') == 'a b'
text('#empty') == ''
text('#empty') == null
text('#typed') == 'now'
value('#typed') == 'now'
attr('#typed', 'value') == 'was'
value('#area') == 'new'
text('#area') == 'new'
value('#chosen') == 'b'
text('#chosen') == 'b'
visible('#gone')
visible('#unseen')
visible('#zero')
visible('#link')
visible('p')
attr('#link', 'href') == '/next'
value('#link') == null
exists('.md\\\\:flex')
exists('.b')
exists('.B')
count('svg text') == 1
count('//svg') == 0
count("//*[local-name()='svg']") == 1
text('#drawn') includes 'drawn'
attr('#drawn', 'viewBox') == '0 0 10 10'
exists('my-tag#own')
count('p:empty') == 1
count('body > p:nth-of-type(2)') == 1
count('p:last-of-type') == 2
count('p ~ pre') == 1
count('p + pre') == 1
count(':root > body') == 1
count('p:is(#up, #br)') == 2
count('*') > 20
count('//p[text()]') > 3
count("//p[contains(., 'two')]") == 2
count("//td[2]") == 2
count('//tr/td[last()]') == 2
count('script') == 1
exists('[id^=ta]')
exists("[class~='B']")
exists('input:not([type])')
"""
ALWAYS_OPEN = """
exists('text=go')
exists('button >> text=x')
count('p:has-text("two")') == 2
exists('p:visible')
exists('input:checked')
exists('role=button')
exists('//P')
EVENTUALLY(exists('#never'))
STABLE(0.1, exists('#plain'))
ALL[EVENTUALLY(exists('#never')), exists('#never')]
"""


@dataclass(frozen=True, slots=True)
class Live:
    """The session's page, with memory and channels that do not change."""

    session: PlaywrightSession

    async def page(self, function: str, selector: str | None, name: str | None) -> Any:
        return await self.session.read(function, selector, name, 5)

    async def memory(self) -> Mapping[str, Any]:
        return MEMORY

    async def channel(self, name: str) -> Any:
        return ENVIRONMENT[name]

    def now(self) -> datetime:
        return NOW


async def both(session: PlaywrightSession, texts: list[str], folder: Any) -> list[tuple[str, bool, Grade]]:
    """Each criterion as the page itself answers it, and as what was recorded of it does."""
    evidence = await session.evidence(Capture(screenshot=False, logs=False), folder)
    page = recorded_page(json.loads(json.dumps(evidence.extra["page"])))
    sources, clock = RecordedSources(page, MEMORY, ENVIRONMENT, NOW), SystemClock()
    found = []
    for text in texts:
        real = await evaluate(parse(text), Live(session), clock, Deadline.after(0.5, clock.now()))
        found.append((text, real.holds, await grade(parse(text), sources)))
    return found


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.fixture
def demo() -> Iterator[dict[str, int]]:
    process = subprocess.Popen([sys.executable, "-m", "harness.demo", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["hosts"]
    process.terminate()
    process.wait(10)


def test_a_recorded_page_of_the_shop_answers_as_the_page_does(
    run: Run[Any], stage: Stage, demo: dict[str, int]
) -> None:
    async def compared() -> list[tuple[str, bool, Grade]]:
        session = await stage.session(hosts=demo, world="regrade")
        await passed(session, {"act": "open", "url": "http://shop.local/"})
        await passed(session, {"act": "type", "selector": "#search-box", "value": "wireless mouse"})
        await passed(session, {"act": "click", "selector": "button[type='submit']"})
        await passed(session, {"act": "wait", "selector": ".product-grid .product-item"})
        return await both(session, lines(ON_THE_SHOP), stage.folder)

    found = run(compared())
    assert [(text, grade.holds, grade.why) for text, real, grade in found if grade.holds is not real] == []
    assert {real for _, real, _ in found} == {True, False}


def test_styles_typed_values_and_odd_elements(run: Run[Any], stage: Stage) -> None:
    async def compared() -> tuple[list[tuple[str, bool, Grade]], list[tuple[str, bool, Grade]]]:
        host = Host(lambda _: Answer(PAGE))
        await host.start()
        session = await stage.session(hosts={"page.test": host.port})
        await passed(session, {"act": "open", "url": "http://page.test/"})
        try:
            known = await both(session, lines(OF_ANY_STYLE), stage.folder)
            return known, await both(session, lines(ALWAYS_OPEN), stage.folder)
        finally:
            await host.stop()

    known, open_ = run(compared())
    assert [(text, grade.holds, grade.why) for text, real, grade in known if grade.holds is not real] == []
    assert [text for text, _, grade in open_ if grade.holds is not None or not grade.why] == []
    assert {real for _, real, _ in open_} == {True, False}


def test_behind_shadow_roots_only_what_cannot_change_is_decided(run: Run[Any], stage: Stage) -> None:
    async def compared() -> list[tuple[str, bool, Grade]]:
        session = await stage.at("/widgets")
        texts = [
            "exists('#deep')",
            "exists('#menu')",
            "count('input') == 5",
            "visible('#menu')",
            "count('//input') == 3",
        ]
        return await both(session, texts, stage.folder)

    found = run(compared())
    assert [grade.holds for _, _, grade in found] == [None, True, None, True, found[-1][1]]
    assert "shadow" in found[0][2].why


@pytest.mark.parametrize(
    "script",
    [
        "JSON.stringify = () => undefined",
        "JSON.stringify = () => '[' .repeat(1e5)",
        "JSON.stringify = () => '{\"nodes\": [[0, 1, [[]], {}]]}'",
        "Array.prototype.toJSON = () => 'mine'",
        "Object.defineProperty(HTMLElement.prototype, 'innerText', {get() { throw new Error('no') }})",
    ],
)
def test_a_page_that_has_replaced_what_it_could_be_read_by_is_recorded_as_it_is(
    run: Run[Any], stage: Stage, script: str
) -> None:
    async def state() -> Any:
        session = await stage.at()
        await session._tab.page.evaluate(f"() => {{ {script} }}")
        return (await session.evidence(Capture(screenshot=False, logs=False), stage.folder)).extra["page"]

    recorded = run(state())
    assert recorded["whole"] is True
    assert any(node[1:2] == ["p"] and node[2].get("id") == "out" for node in recorded["nodes"])
