"""What is judged by the state that was kept of a page is what the page itself says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.queries import LARGEST
from harness.criteria import PageQuery, evaluate, parse
from harness.criteria.syntax import Happened
from harness.recovery import Capture
from harness.reporting.regrade.recorded import RecordedPage, RecordedSources
from harness.reporting.regrade.regrading import Grade, grade
from harness.resilience import Deadline, SystemClock
from tests.browser.conftest import Run
from tests.browser.site import PAGES
from tests.browser.stage import Stage, passed

PATIENT = 20.0
"""The factor for the limits of evidence: what is compared here must be kept whole, however busy the machine is."""
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
json('env', 'shop.orders.*.id') includes 'O-2'
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
PAGES["/any-element"] = PAGE
OF_ANY_ELEMENT = """
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
exists('text=go')
exists('#plain >> text=two')
count('p:has-text("two")') == 2
exists('p:visible')
exists('role=link')
attr('#drawn', 'viewbox') == null
exists('//P')
"""
ON_WIDGETS = """
exists('#deep')
exists('#menu')
count('input') == 5
visible('#menu')
count('//input') == 3
"""
NO_PICTURE = Capture(screenshot=False, logs=False)


@dataclass(frozen=True, slots=True)
class Live:
    """The session's page, with memory and channels that do not change."""

    session: PlaywrightSession
    locale: str | None = None

    async def page(self, query: PageQuery, until: float) -> Any:
        return await self.session.read(query, 5)

    async def memory(self) -> Mapping[str, Any]:
        return MEMORY

    async def channel(self, name: str) -> Any:
        return ENVIRONMENT[name]

    async def happened(self, function: str, pattern: str, until: float) -> Happened:
        return Happened([])

    def now(self) -> datetime:
        return NOW


async def both(session: PlaywrightSession, text: str, folder: Path) -> list[tuple[str, bool, Grade]]:
    """Each criterion as the page itself answers it, and as what was kept of it does."""
    criteria = [parse(line) for line in text.strip().splitlines()]
    selectors = {selector for criterion in criteria for selector in criterion.selectors}
    kept = (await session.evidence(NO_PICTURE, folder, selectors)).page
    page = RecordedPage.model_validate_json(json.dumps(kept))
    sources, clock = RecordedSources(page, MEMORY, ENVIRONMENT, NOW), SystemClock()
    found = []
    for criterion in criteria:
        real = await evaluate(criterion, Live(session), clock, Deadline.after(0.5, clock.now()))
        found.append((str(criterion), real.holds, await grade(criterion, sources)))
    return found


@pytest.fixture
def demo() -> Iterator[dict[str, int]]:
    process = subprocess.Popen([sys.executable, "-m", "harness.demo", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["hosts"]
    process.terminate()
    process.wait(10)


@pytest.mark.thorough
def test_what_is_kept_of_the_shop_answers_as_the_page_does(run: Run[Any], stage: Stage, demo: dict[str, int]) -> None:
    async def compared() -> list[tuple[str, bool, Grade]]:
        session = await stage.session(hosts=demo, world="regrade", scale=PATIENT)
        await passed(session, {"act": "open", "url": "http://shop.local/"})
        await passed(session, {"act": "type", "selector": "#search-box", "value": "wireless mouse"})
        await passed(session, {"act": "click", "selector": "button[type='submit']"})
        await passed(session, {"act": "wait", "selector": ".product-grid .product-item"})
        return await both(session, ON_THE_SHOP, stage.folder)

    found = run(compared())
    assert [(text, grade.holds, grade.why) for text, real, grade in found if grade.holds is not real] == []
    assert {real for _, real, _ in found} == {True, False}


def test_styles_typed_values_odd_elements_and_selectors(run: Run[Any], stage: Stage) -> None:
    async def compared() -> list[tuple[str, bool, Grade]]:
        return await both(await stage.at("/any-element", scale=PATIENT), OF_ANY_ELEMENT, stage.folder)

    found = run(compared())
    assert [(text, grade.holds, grade.why) for text, real, grade in found if grade.holds is not real] == []
    assert {real for _, real, _ in found} == {True, False}


@pytest.mark.thorough
def test_shadow_roots_are_looked_into_as_by_the_page(run: Run[Any], stage: Stage) -> None:
    async def compared() -> list[tuple[str, bool, Grade]]:
        return await both(await stage.at("/widgets", scale=PATIENT), ON_WIDGETS, stage.folder)

    found = run(compared())
    assert [(text, grade.holds) for text, real, grade in found if grade.holds is not real] == []
    assert found[0][1]


def state(run: Run[Any], stage: Stage, selectors: tuple[str, ...], script: str = "") -> Any:
    """What is kept of a page in which a script has run."""

    async def kept() -> Any:
        session = await stage.at(scale=PATIENT)
        await session.tab.page.evaluate(f"() => {{ {script} }}")
        return (await session.evidence(NO_PICTURE, stage.folder, [(each, None) for each in selectors])).page

    return run(kept())


@pytest.mark.thorough
def test_a_selector_that_is_none_harms_no_other(run: Run[Any], stage: Stage) -> None:
    found = state(run, stage, ("#out", "p["))
    assert [each["selector"] for each in found["elements"]] == ["#out"]


@pytest.mark.thorough
def test_what_is_too_large_is_not_kept_and_says_so(run: Run[Any], stage: Stage) -> None:
    text = f"document.querySelector('#out').textContent = 'x'.repeat({LARGEST}); document.body.offsetHeight"
    # Reading the height lays the page out, so that a slow machine does not do it while the page is asked whether it
    # answers.
    assert state(run, stage, ("#out",), text) == f"what criteria look at has more than {LARGEST} characters"


@pytest.mark.parametrize(
    "script",
    [
        "JSON.stringify = () => undefined",
        "JSON.stringify = () => '[' .repeat(1e5)",
        "Array.prototype.toJSON = () => 'mine'",
        "Element.prototype.getAttributeNames = () => ['mine']",
        "Object.defineProperty(HTMLElement.prototype, 'innerText', {get() { throw new Error('no') }})",
    ],
)
@pytest.mark.sampled(1)
def test_a_page_that_has_replaced_what_it_could_be_read_by_is_kept_as_it_is(
    run: Run[Any], stage: Stage, script: str
) -> None:
    (found,) = state(run, stage, ("#out",), script)["elements"]
    assert (found["count"], found["attributes"]) == (1, {"id": "out"})
