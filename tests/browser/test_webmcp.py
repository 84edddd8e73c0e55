"""The tools that a page offers (WebMCP), in the real browser: listed and called through the session."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from harness.browser import PlaywrightSession
from harness.browser.write_gate import WriteGate
from harness.model.policy import WritePermission
from harness.model.tools import ToolHints
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure
from tests.browser.hosts import Answer, Asked, Host
from tests.browser.stage import SHOP, Stage, passed

PAGE = """<!doctype html><title>Tools</title><p id=out>nothing</p>
<form toolname=find tooldescription="Find a thing" action=/found toolautosubmit><input name=q></form>
<iframe src=/inner></iframe>
<script>
const gone = new AbortController();
const offer = (name, execute, more = {}, options = {}) =>
  document.modelContext.registerTool({name, description: `It does ${name}`, execute, ...more}, options);
const schema = {type: 'object', properties: {sku: {type: 'string'}}, required: ['sku']};
offer('search', ({sku}) => ({content: [{type: 'text', text: '1 hit'}], structuredContent: {hits: [{sku}]}}),
  {inputSchema: schema, annotations: {readOnlyHint: true}});
offer('order', async ({sku}) => {
  out.textContent = 'ordered';
  const answer = await fetch('/order', {method: 'POST', body: sku});
  return {content: [{type: 'text', text: `{"status": ${answer.status}}`}]};
}, {inputSchema: schema, annotations: {consequentialHint: true}});
offer('sold_out', () => ({isError: true, content: [{type: 'text', text: 'It is sold out.'}]}));
offer('breaks', async () => { throw new Error('no such thing'); });
offer('text', () => 'plain'); offer('number', () => 7); offer('nothing', () => {});
offer('huge', () => 'x'.repeat(3e6));
offer('silent', () => new Promise(() => {}));
offer('busy', () => { for (;;); });
offer('leaves', () => { location.href = '/next'; return new Promise(() => {}); });
offer('leaves_badly', () => { location.href = '/broken'; });
offer('once', () => { gone.abort(); return 'gone now'; }, {}, {signal: gone.signal});
setTimeout(() => offer('late', () => 'here'), 300);
</script>"""
INNER = "<script>document.modelContext?.registerTool({name: 'inner', description: 'x', execute: () => 1})</script>"


def answer(asked: Asked) -> Answer:
    if asked.path == "/broken":
        return Answer("broken", 503)
    return Answer({"/": PAGE, "/inner": INNER}.get(asked.path, "<!doctype html><title>next</title><p id=ok>ok</p>"))


Body = Callable[[PlaywrightSession, Host], Awaitable[None]]


def on_page(run: Any, stage: Stage, body: Body, **fields: Any) -> None:
    """Run the body on a page with tools; 127.0.0.1 is a secure context."""

    async def whole() -> None:
        host = Host(answer)
        await host.start()
        try:
            session = await stage.session(webmcp=True, **fields)
            await passed(session, {"act": "open", "url": f"http://127.0.0.1:{host.port}/"})
            await body(session, host)
        finally:
            await host.stop()

    run(whole())


async def refused(call: Awaitable[Any]) -> Failure:
    with pytest.raises(Failed) as raised:
        await call
    return raised.value.failure


def test_the_tools_of_the_main_frame_are_listed_with_schema_and_hints(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, _: Host) -> None:
        tools = {tool.name: tool for tool in await session.page_tools(10)}
        assert {"search", "order", "find", "once"} <= set(tools)
        assert "inner" not in tools
        assert tools["search"].description == "It does search"
        assert tools["search"].parameters["required"] == ["sku"]
        assert tools["search"].hints == ToolHints(read_only=True)
        assert tools["order"].hints == ToolHints(consequential=True)
        assert tools["text"].hints == ToolHints()

    on_page(run, stage, body)


def test_answers_of_every_form(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, _: Host) -> None:
        found = await session.call_page_tool("search", {"sku": "M-1"}, 10)
        assert (found.text, found.document, found.is_error) == ("1 hit", {"hits": [{"sku": "M-1"}]}, False)
        assert (await session.call_page_tool("text", {}, 10)).document == "plain"
        assert (await session.call_page_tool("number", {}, 10)).document == 7
        assert (await session.call_page_tool("nothing", {}, 10)).document == ""
        sold_out = await session.call_page_tool("sold_out", {}, 10)
        assert (sold_out.is_error, sold_out.text) == (True, "It is sold out.")
        broke = await session.call_page_tool("breaks", {}, 10)
        assert broke.is_error
        assert "no such thing" in broke.text
        huge = await refused(session.call_page_tool("huge", {}, 10))
        assert (huge.code, huge.effect) == ("TOOL_PROTOCOL", Effect.DONE)
        assert (await session.call_page_tool("late", {}, 10)).text == "here", "a page may offer it a moment later"
        await passed(session, {"act": "open", "url": session.url})
        assert "late" in {tool.name for tool in await session.page_tools(10, "late")}

    on_page(run, stage, body)


def test_what_a_tool_sends_is_evidence_of_the_step(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, host: Host) -> None:
        session.take_sent()
        ordered = await session.call_page_tool("order", {"sku": "M-1"}, 10)
        assert ordered.document == {"status": 200}
        [sent] = await session.take_settled()
        assert (sent.method, sent.url) == ("POST", f"http://127.0.0.1:{host.port}/order")

    on_page(run, stage, body)


def test_a_request_that_the_agents_policy_forbids_does_not_leave(run: Any, stage: Stage) -> None:
    gate = WriteGate()

    async def body(session: PlaywrightSession, host: Host) -> None:
        session.restrict(WritePermission(everything=False))
        failure = await refused(session.call_page_tool("order", {"sku": "M-1"}, 10))
        assert failure.code == "POLICY_WRITE"
        assert "/order" not in [asked.path for asked in host.asked]

    on_page(run, stage, body, gate=gate)


@pytest.mark.thorough
def test_a_tool_that_was_taken_back_is_unknown(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, _: Host) -> None:
        assert (await session.call_page_tool("once", {}, 10)).text == "gone now"
        failure = await refused(session.call_page_tool("once", {}, 0.5))
        assert (failure.code, failure.effect) == ("TOOL_UNKNOWN", Effect.NONE)
        misspelt = await refused(session.call_page_tool("serch", {}, 0.5))
        assert misspelt.details["similar"][0] == "search"

    on_page(run, stage, body)


@pytest.mark.thorough
def test_a_tool_that_leads_to_another_page(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, host: Host) -> None:
        home = f"http://127.0.0.1:{host.port}"
        left = await session.call_page_tool("leaves", {}, 10)
        assert left.document == {"navigated": f"{home}/next"}
        assert await session.page_tools(10) == ()
        await passed(session, {"act": "open", "url": f"{home}/"})
        sent = await session.call_page_tool("find", {"q": "hat"}, 10)
        assert sent.document == {"navigated": f"{home}/found?q=hat"}
        await passed(session, {"act": "open", "url": f"{home}/"})
        failure = await refused(session.call_page_tool("leaves_badly", {}, 10))
        assert (failure.code, failure.effect) == ("HTTP_UNAVAILABLE", Effect.DONE)

    on_page(run, stage, body)


def test_a_silent_tool_and_one_that_blocks_the_page(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, _: Host) -> None:
        failure = await refused(session.call_page_tool("silent", {}, 0.7))
        assert (failure.code, failure.effect) == ("TOOL_TIMEOUT", Effect.POSSIBLE)
        assert (await session.call_page_tool("text", {}, 10)).text == "plain", "the page can still be used"
        failure = await refused(session.call_page_tool("busy", {}, 0.7))
        assert (failure.code, failure.effect) == ("PAGE_UNRESPONSIVE", Effect.POSSIBLE)

    on_page(run, stage, body)


@pytest.mark.thorough
def test_a_page_that_is_lost_during_the_call(run: Any, stage: Stage) -> None:
    async def body(session: PlaywrightSession, _: Host) -> None:
        calling = asyncio.create_task(refused(session.call_page_tool("silent", {}, 10)))
        await asyncio.sleep(0.3)
        await session.tab.page.close()
        assert (await calling).code == "PAGE_CLOSED"

    on_page(run, stage, body)


@pytest.mark.thorough
def test_a_browser_with_webmcp_has_all_that_playwright_enables(run: Any, stage: Stage) -> None:
    """Chromium obeys the last `--enable-features` only, and Playwright gives one of its own."""

    async def features(session: PlaywrightSession) -> list[set[str]]:
        line = str((await session.chromium.control.send("SystemInfo.getInfo"))["commandLine"])
        return [set(each.split(",")) for each in re.findall(r"--enable-features=(\S+)", line)]

    async def body() -> None:
        plain = await features(await stage.session())
        ours = await features(await stage.session(webmcp=True))
        assert ours[-1] == plain[-1] | {"WebMCP"}

    run(body())


async def test_where_a_page_can_offer_no_tools_the_failure_says_why(stage: Stage) -> None:
    plain = await stage.at()
    failure = await refused(plain.page_tools(10))
    assert (failure.code, failure.effect) == ("WEBMCP_MISSING", Effect.NONE)
    assert "[tool.harness.tools.page]" in failure.hint
    insecure = await stage.at(webmcp=True)
    failure = await refused(insecure.call_page_tool("search", {}, 1))
    assert failure.code == "WEBMCP_MISSING"
    assert "https" in failure.hint
    await passed(insecure, {"act": "open", "url": f"https://{SHOP}/"})
    assert await insecure.page_tools(10) == ()
