"""What the page shows is what is compared: hidden matches, frames, and the labels of options."""

from __future__ import annotations

from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.criteria import PageQuery, Verdict, evaluate, parse
from harness.criteria.syntax import Happened
from harness.recovery.failure import Failed, Failure
from harness.resilience import Deadline, SystemClock
from tests.browser.site import PAGES
from tests.browser.stage import Stage, failed, passed

MENU = "<a class=menu>Shop</a>"
PAGE = f"""<!doctype html><title>Page</title>
<div style="display: none">{MENU.replace("Shop", "Old")}</div><div>{MENU}</div>
<p id=none style="display: none">done</p><p id=unseen style="visibility: hidden">done</p>
<p class=three hidden>1</p><p class=three hidden>2</p><details><summary>More</summary><p class=three>3</p></details>
<p id=empty></p><span id=blank></span><div id=contents style="display: contents">told</div>
<div id=flat style="height: 0"><b style="float: left">floats</b></div>
<div id=folded style="height: 0; overflow: hidden">folded</div>
<p id=part>seen<span style="display: none"> unseen</span></p>
<select id=s><option value=a>A</option><option value=b selected>B</option></select>
<input id=field value=typed><input id=secret type=hidden value=x>
<svg width=50 height=20><text id=drawn y=15>drawn</text></svg>
<p id=late style="display: none">late</p>
<iframe id=pay src="/pay"></iframe>
<script>setTimeout(() => {{ late.style.display = ''; }}, 400);
setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<iframe id=soon src=/pay>'), 400);</script>"""
PAY = """<!doctype html><p id=total>12.50</p><p class=row hidden>a</p><p class=row>b</p><input id=name value=Ann>
<a id=link href="/x">x</a><iframe id=inner srcdoc="<p id=deep>deep</p>"></iframe>"""
OPTIONS = """<!doctype html><select id=s><option value=1>A</option><option value=2>&nbsp;&nbsp;HTML 5</option>
<option value=3>B </option><option value=4>Same</option><option value=5>Same</option><option value=A>value A</option>
<option value=6>Soft&shy;ware</option><option value=7>Twin</option><option value=7>Twin</option></select>"""


PAGES.update({"/displayed": PAGE, "/pay": PAY, "/options": OPTIONS})


async def judged(session: PlaywrightSession, text: str, expect: float = 0.0) -> Verdict:
    class Sources:
        locale = None

        async def page(self, query: PageQuery, until: float) -> Any:
            return await session.read(query, 20)

        async def happened(self, function: str, pattern: str, until: float) -> Happened:
            return await session.happened(function, pattern, 20)

    clock = SystemClock()
    return await evaluate(parse(text), Sources(), clock, Deadline.after(30, clock.now()), expect=expect)  # type: ignore[arg-type]


def on(run: Any, stage: Stage, path: str, body: Any) -> None:
    async def played() -> None:
        await body(await stage.at(path))

    run(played())


SHOWN = [
    "text('.menu') == 'Shop'", "text_content('.menu') == 'Old'", "attr('.menu', 'class') == 'menu'",
    "count('.menu') == 2", "exists('#none')", "text_content('#none') == 'done'",
    "text('#none') == null", "text('#unseen') == null", "text('#empty') == ''", "text('#blank') == ''",
    "text('#contents') == 'told'", "text('#flat') == 'floats'", "text('#folded') == null",
    "text('#part') == 'seen'", "text_content('#part') == 'seen unseen'", "text('#s option:checked') == 'B'",
    "text('#field') == 'typed'", "text('#secret') == null", "value('#secret') == 'x'", "text('#drawn') == 'drawn'",
    "text('summary') == 'More'", "text('title') == null", "text_content('title') == 'Page'",
    "text('#total', frame='#pay') == '12.50'", "text('.row', frame='#pay') == 'b'", "count('.row', frame='#pay') == 2",
    "value('#name', frame='#pay') == 'Ann'", "attr('#link', 'href', frame='#pay') == '/x'",
    "visible('#total', frame='#pay')", "exists('#total', frame='#pay')", "NOT[exists('#total')]",
    "text_content('.row', frame='#pay') == 'a'", "text('#deep', frame='#pay >>> #inner') == 'deep'",
    "text('#total', frame='#gone') == null", "NOT[exists('#total', frame='#gone')]", "count('p', frame='#gone') == 0",
]  # fmt: skip


def test_what_is_displayed_is_read_also_in_frames(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession) -> None:
        verdicts = {text: await judged(session, text) for text in SHOWN}
        assert {text: verdict.explanation for text, verdict in verdicts.items() if not verdict.holds} == {}
        for text in ("text('#none') == 'done'", "NOT[text('#none') == 'done']", "text('#unseen') != 'done'"):
            assert not (await judged(session, text)).holds, "what is not shown is neither this text nor another"
        assert (await judged(session, "text('#late') == 'late'", expect=20)).holds
        assert (await judged(session, "text('#total', frame='#soon') == '12.50'", expect=20)).holds

    on(run, stage, "/displayed", body)


@pytest.mark.thorough
def test_matches_of_which_none_is_shown_say_so(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession) -> None:
        why = (await judged(session, "text('.three') == '3'")).explanation
        assert why is not None
        assert why.message == "text('.three') is missing (3 elements match, none is shown), expected '3'"
        text = await session.text(".three", None, 0.3, 20)
        assert isinstance(text, Failure)
        assert (text.code, text.message) == ("ELEMENT_HIDDEN", ".three: 3 elements match, none is shown")
        waited = await failed(session, {"act": "wait", "selector": ".three", "value": "3"})
        assert waited.code == "STEP_TIMEOUT"
        assert "3 elements match, none is visible" in waited.message
        await passed(session, {"act": "wait", "selector": ".menu", "value": "Shop"})
        inside = await failed(session, {"act": "wait", "selector": "#part", "value": "unseen"})
        assert inside.details["text"] == "seen"

    on(run, stage, "/displayed", body)


@pytest.mark.thorough
def test_a_frame_selector_must_match_one_frame(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession) -> None:
        assert (await judged(session, "exists('#total', frame='#soon')", expect=20)).holds
        with pytest.raises(Failed) as caught:
            await judged(session, "text('#total', frame='iframe') == 'x'")
        assert caught.value.failure.code == "SELECTOR_AMBIGUOUS"

    on(run, stage, "/displayed", body)


def test_options_are_chosen_by_the_label_that_one_sees(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession) -> None:
        for name, value in (("HTML 5", "2"), ("B", "3"), (" B ", "3"), ("A", "A"), ("Software", "6"), ("Twin", "7")):
            outcome = await passed(session, {"act": "select", "selector": "#s", "value": name})
            assert outcome.details["selected"] == [value], name
        outcome = await passed(session, {"act": "select", "selector": "#s", "value": {"label": "HTML 5"}})
        assert outcome.details["selected"] == ["2"]
        for wanted in ("Same", {"label": "Same"}):
            same = await failed(session, {"act": "select", "selector": "#s", "value": wanted}, within=10)
            assert same.code == "INVALID_INPUT"
            assert "#s has 2 options with the label 'Same'" in same.message
        outcome = await passed(session, {"act": "select", "selector": "#s", "value": {"index": 4}})
        assert outcome.details["selected"] == ["5"]

    on(run, stage, "/options", body)
