"""The clipboard of a task: empty at first, and not shared with the tasks beside it in the same browser."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.browser.clipboard import copies, pastes
from harness.browser.session import PlaywrightSession
from harness.criteria import PageQuery
from tests.browser.stage import Stage, passed
from tests.conftest import FULL

pytestmark = pytest.mark.filterwarnings("default")
ROUNDS = 5 if FULL else 2
BODY = """(word) => { document.body.innerHTML =
  `<input id=from value="${word}"><textarea id=to></textarea><div id=rich contenteditable></div>` +
  `<p id=bold><b>${word}</b></p><button id=old>old</button><iframe srcdoc="<textarea id=inner></textarea>"></iframe>`;
  document.querySelector('#old').onclick = () => { document.querySelector('#from').select();
    document.execCommand('copy') };
  addEventListener('copy', e => { if (document.activeElement.id === 'to') {
    e.clipboardData.setData('text/plain', 'own ' + word); e.preventDefault(); e.stopPropagation() } }, true);
}"""


async def press(session: PlaywrightSession, selector: str, *chords: str, frame: str | None = None) -> None:
    for chord in chords:
        await passed(session, {"act": "press", "selector": selector, "value": chord, "frame": frame})


async def at(stage: Stage, word: str) -> PlaywrightSession:
    session = await stage.at()
    await session.tab.page.evaluate(BODY, word)
    return session


@pytest.mark.thorough
def test_four_tasks_side_by_side_paste_what_they_have_copied_themselves(run: Any, stage: Stage) -> None:
    async def copy_and_paste(word: str) -> None:
        session = await at(stage, word)
        for number in range(ROUNDS):
            await press(session, "#from", "Control+A", "Control+C")
            await passed(session, {"act": "type", "selector": "#to", "value": "x"})
            await press(session, "#to", "Control+A", "Control+V")
            assert await session.text("#to", None, 5) == word, number
            await passed(session, {"act": "click", "selector": "#old"})
            await press(session, "#to", "Control+A", "ControlOrMeta+V")
            assert await session.text("#to", None, 5) == word, number

    async def body() -> None:
        await asyncio.gather(*map(copy_and_paste, ("one", "two", "three", "four")))
        late = await at(stage, "late")
        await passed(late, {"act": "type", "selector": "#to", "value": "before"})
        await press(late, "#to", "End", "Control+V")
        assert await late.text("#to", None, 5) == "before", "a task that has copied nothing pastes nothing"

    run(body())


async def test_what_is_copied_is_what_the_page_gives(stage: Stage) -> None:
    session = await at(stage, "word")
    await press(session, "#to", "Control+C")
    await press(session, "#inner", "Control+V", frame="iframe")
    assert await session.text("#inner", "iframe", 5) == "own word"
    await press(session, "#from", "Control+A", "Control+X")
    assert await session.read(PageQuery("value", "#from"), 5) == ""
    await press(session, "#from", "Shift+Insert")
    assert await session.read(PageQuery("value", "#from"), 5) == "word"
    select = "getSelection().selectAllChildren(document.querySelector('#bold')); document.execCommand('copy')"
    await session.tab.page.evaluate(select)
    await press(session, "#rich", "Control+V")
    assert await session.read(PageQuery("count", "#rich b"), 5) == 1


@pytest.mark.thorough
async def test_scripts_read_and_write_the_clipboard_of_their_task_where_they_may(stage: Stage) -> None:
    sessions = [await stage.at(), await stage.at()]
    for number, session in enumerate(sessions):
        await session.tab.page.goto("https://shop.test/")
        refused = await session.tab.page.evaluate("navigator.clipboard.readText().catch(error => error.name)")
        assert refused == "NotAllowedError"
        await session.tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await session.tab.page.evaluate("word => navigator.clipboard.writeText(word)", f"w{number}")
    for number, session in enumerate(sessions):
        assert await session.tab.page.evaluate("navigator.clipboard.readText()") == f"w{number}"
        write = """async () => {
              const text = new Blob(['t'], {type: 'text/plain'});
              const image = new Blob([Uint8Array.of(1, 250)], {type: 'image/png'});
              await navigator.clipboard.write([new ClipboardItem({'text/plain': text, 'image/png': image})]);
              const [item] = await navigator.clipboard.read();
              const found = new Uint8Array(await (await item.getType('image/png')).arrayBuffer());
              return [await (await item.getType('text/plain')).text(), ...found];
            }"""
        assert await session.tab.page.evaluate(write) == ["t", 1, 250]


@pytest.mark.parametrize("chord", ["Control+V", "Meta+v", "ControlOrMeta+Shift+KeyV", "Shift+Insert"])
def test_chords_that_paste(chord: str) -> None:
    assert pastes(chord)
    assert not copies(chord)


@pytest.mark.parametrize("chord", ["Control+C", "Control+x", "Control+Insert", "Shift+Delete"])
def test_chords_that_copy(chord: str) -> None:
    assert copies(chord)
    assert not pastes(chord)


@pytest.mark.parametrize("key", ["v", "Control+A", "Insert", "Shift+V", "Enter", "+"])
def test_other_keys(key: str) -> None:
    assert not copies(key)
    assert not pastes(key)
