"""What pages say about their tools, as values; the browser's side is in tests/browser/test_webmcp.py."""

from __future__ import annotations

from typing import Any

import pytest

from harness.browser.acts.page_tools import LARGEST, answer_of, described, missing, thrown_text, tool_failure, unknown
from harness.browser.page_events import LoggedLine
from harness.model.tools import ToolDescription, ToolHints
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failed, Failure


def content(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text} for text in texts], **more}


@pytest.mark.parametrize(
    ("result", "text", "document", "is_error"),
    [
        ("plain", "plain", "plain", False),
        ('{"a": 1}', '{"a": 1}', {"a": 1}, False),
        (7, "7", 7, False),
        (False, "false", False, False),
        (None, "", "", False),
        ([1, {"a": None}], '[1, {"a": null}]', [1, {"a": None}], False),
        ({"content": "a word"}, '{"content": "a word"}', {"content": "a word"}, False),
        (content("one", "two"), "one\ntwo", "one\ntwo", False),
        (content('{"id": 3}'), '{"id": 3}', {"id": 3}, False),
        (content("1 hit", structuredContent={"hits": 1}), "1 hit", {"hits": 1}, False),
        (content("sold out", isError=True), "sold out", "sold out", True),
        ({"content": [{"type": "image", "data": "x"}, "odd", {"type": "text"}]}, "", "", False),
    ],
)
def test_what_a_tool_returns_is_an_answer(result: Any, text: str, document: Any, is_error: bool) -> None:
    answer = answer_of("t", result, 0.5)
    assert (answer.text, answer.document, answer.is_error, answer.seconds) == (text, document, is_error, 0.5)


def test_an_answer_that_is_too_large_was_given_all_the_same() -> None:
    with pytest.raises(Failed) as raised:
        answer_of("dump", "x" * LARGEST, 0.5)
    failure = raised.value.failure
    assert (failure.code, failure.effect) == ("TOOL_PROTOCOL", Effect.DONE)
    assert "'dump' answered with 2,000,002 characters; at most 2,000,000 are taken" in failure.message


def test_a_description_may_lack_everything_but_the_name() -> None:
    assert described({"name": "a"}) == ToolDescription("a")
    hints = {"readOnly": True, "untrustedContent": True, "consequential": True}
    full = described({"name": "a", "description": "d", "inputSchema": {"type": "object"}, "annotations": hints})  # type: ignore[typeddict-item]
    assert full == ToolDescription("a", "d", {"type": "object"}, ToolHints(read_only=True, consequential=True))
    assert described({"name": "a", "inputSchema": "odd"}).parameters == {}


def test_an_unknown_tool_names_those_that_there_are_and_similar_ones() -> None:
    failure = unknown("place_ordr", ["search", "place_order"])
    assert failure.message == "the page offers no tool 'place_ordr': it offers search, place_order"
    assert failure.details["similar"] == ["place_order"]
    assert unknown("a", []).message.endswith("it offers none")
    assert unknown("a", [f"t{n}" for n in range(25)]).message.endswith("t19 and 5 more")


def test_the_console_says_what_a_tool_has_thrown() -> None:
    lines = [
        LoggedLine("error", "WebMCP tool execution failed: Uncaught Error: first"),
        LoggedLine("error", "WebMCP tool execution failed: Uncaught Error: second\nin two lines"),
        LoggedLine("log", "another word"),
    ]
    assert thrown_text(lines) == "Error: second\nin two lines"
    assert thrown_text(lines[2:]) == ""


def test_why_a_page_can_offer_no_tools() -> None:
    there = {"there": True, "secure": True, "address": "https://a.test/"}
    assert missing(there, "Chromium 156") is None
    insecure = missing({"there": False, "secure": False, "address": "http://a.test/"}, "Chromium 156")
    assert insecure is not None
    assert insecure.message == "http://a.test/ can offer no tools: browsers have WebMCP only in secure contexts"
    assert insecure.hint.startswith("Open the page over https")
    old = missing({**there, "there": False}, "Chromium 120.0.1")
    assert old is not None
    assert old.message == "Chromium 120.0.1 has no WebMCP, so https://a.test/ can offer no tools"
    assert "--enable-features=WebMCP" in old.hint


def test_only_a_tool_that_is_late_on_a_page_that_answers_is_the_tools_fault() -> None:
    late = Failure("STEP_TIMEOUT", "Step timeout: tool page.a exceeded 3s", effect=Effect.POSSIBLE, tainted=True)
    told = tool_failure("a", late)
    assert (told.code, told.effect, told.tainted) == ("TOOL_TIMEOUT", Effect.POSSIBLE, False)
    assert told.message == "the page's tool 'a' gave no answer: tool page.a exceeded 3s"
    hung = Failure("PAGE_UNRESPONSIVE", "the page stopped answering", effect=Effect.POSSIBLE)
    assert tool_failure("a", hung) is hung
