"""What a session's request means for its context."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.browser.context import context_options
from harness.browser.request import SessionRequest, wants_webmcp
from harness.model.settings import Recording, Settings, Tracing
from harness.runner.compile import compile_plan
from harness.spec.task import TaskSpec
from harness.values import replace
from tests.unit.spec.files import task


def request(recording: Recording = "auto", tracing: Tracing = "retain-on-failure", **more: object) -> SessionRequest:
    return SessionRequest("w-1", Path(), Path(), recording=recording, tracing=tracing, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("recording", "tracing", "from_start", "traceable"),
    [
        ("auto", "retain-on-failure", False, True),
        ("full", "retain-on-failure", True, True),
        ("minimal", "retain-on-failure", False, False),
        ("auto", "off", False, False),
        ("full", "off", False, False),
        ("minimal", "on", True, True),
    ],
)
def test_when_to_trace(recording: Recording, tracing: Tracing, from_start: bool, traceable: bool) -> None:
    asked = request(recording, tracing)
    assert (asked.traced_from_start, asked.traceable) == (from_start, traceable)


SMALL = {"width": 800, "height": 600}


def test_context_options() -> None:
    plain = context_options(request(), "UA", "http://127.0.0.1:9", {"viewport": SMALL}, None, None)
    assert plain["user_agent"] == "UA harness-world/w-1"
    assert plain["viewport"] == SMALL
    assert not plain.keys() & {"proxy", "record_har_path", "storage_state"}
    policed = request(allowed_domains=("a.test",))
    full = context_options(policed, "UA", "http://127.0.0.1:9", {}, {"cookies": []}, Path("x.har"))
    assert full["proxy"] == {"server": "http://127.0.0.1:9", "bypass": "<-loopback>,a.test,*.a.test"}
    assert full["storage_state"] == {"cookies": []}
    assert full["record_har_path"] == Path("x.har")


def test_what_the_task_and_the_settings_say_of_a_session() -> None:
    spec = TaskSpec.model_validate(task(allowed_domains=["a.test", "shop.local"], time="2025-11-16T09:00:00Z"))
    settings = Settings(base_url="http://a.test/", recording="minimal", tracing="off")
    plan = replace(compile_plan(spec, settings=settings, run_id="r"), folder=Path("tasks"))
    asked = SessionRequest.of(plan, settings, Path("scratch"))
    assert (asked.world, asked.folder, asked.uploads) == (plan.world, Path("scratch"), Path("tasks"))
    assert (asked.allowed_domains, asked.start, asked.base_url) == (spec.allowed_domains, plan.start, "http://a.test/")
    assert (asked.recording, asked.tracing) == ("minimal", "off")
    in_full = SessionRequest.of(replace(plan, in_full=True), settings, Path("scratch"))
    assert (in_full.recording, in_full.tracing) == ("full", "on")


def test_only_tasks_that_may_call_a_tool_of_the_page_have_a_browser_with_webmcp() -> None:
    plain = TaskSpec.model_validate(task())
    elsewhere = TaskSpec.model_validate(task(steps=[{"act": "tool", "server": "mail", "tool": "get_code"}]))
    on_page = TaskSpec.model_validate(task(steps=[{"act": "tool", "server": "page", "tool": "add_to_cart"}]))
    assert [wants_webmcp(each, Settings()) for each in (plain, elsewhere, on_page)] == [False, False, True]
    named = Settings.model_validate({"tools": {"page": {"agents": True}}})
    assert wants_webmcp(plain, named)
    asked = SessionRequest.of(compile_plan(on_page, settings=Settings(), run_id="r"), Settings(), Path("scratch"))
    assert asked.kind.webmcp
