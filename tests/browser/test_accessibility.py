"""`accessibility`: axe-core on real pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.recovery import FULL
from harness.spec.context import ContextOptions
from tests.browser.site import PAGES
from tests.browser.stage import Stage, failed, passed

BAD = """<!doctype html><html lang=en><title>Bad</title><main><h1>Bad</h1><img id=logo src=/x.png>
<div id=part><input id=field></div><iframe title=Inner src=/accessible/inner></iframe></main>
<script>Array.prototype.map = () => { throw new Error('poisoned') }; window.axe = {run: () => ({})}</script>"""
PAGES["/accessible/bad"] = BAD
PAGES["/accessible/inner"] = (
    "<!doctype html><html lang=en><title>Inner</title><main><h1>I</h1><img id=inside src=/y.png></main>"
)
PAGES["/accessible/good"] = (
    "<!doctype html><html lang=en><title>Good</title><main><h1>Good</h1><img alt=Logo src=/x></main>"
)


async def test_violations_are_named_with_their_elements_in_every_frame(stage: Stage) -> None:
    session = await stage.at("/accessible/bad")
    failure = await failed(session, {"act": "accessibility"}, within=10)
    assert failure.code == "ACCESSIBILITY_VIOLATIONS"
    assert "image-alt (critical): #logo" in failure.message
    assert "image-alt (critical): #inside" in failure.message
    assert "label (critical): #field" in failure.message
    found = {each["id"]: each for each in failure.details["violations"]}
    assert found["label"]["nodes"] == [{"target": "#field", "html": '<input id="field">'}]
    folder = stage.folder / "evidence"
    folder.mkdir()
    await session.evidence(FULL, folder)
    kept = json.loads((stage.folder / "s0" / "accessibility" / "result.json").read_text("utf-8"))
    assert [each["id"] for each in kept[1]["violations"]] == ["image-alt"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"selector": "#part"}, "1 rule of accessibility violated: label (critical): #field"),
        ({"ignore": ["#part", "#inside", "#logo"]}, None),
        ({"rules": {"label": False, "image-alt": False}}, None),
        ({"tags": ["best-practice"]}, None),
        ({"selector": "#part", "impact": "critical"}, "label"),
        ({"rules": {"no-such-rule": False}}, "axe-core refuses the step"),
        ({"tags": ["wcag2a", "wcag2aaaa"]}, "axe-core has no rule with the tag 'wcag2aaaa'"),
        ({"selector": "#gone"}, "no element matches #gone"),
    ],
)
@pytest.mark.sampled(1)
async def test_what_is_checked_can_be_chosen(stage: Stage, keys: dict[str, Any], message: str | None) -> None:
    session = await stage.at("/accessible/bad")
    if message is None:
        await passed(session, {"act": "accessibility", **keys})
    else:
        assert message in (await failed(session, {"act": "accessibility", **keys}, within=10)).message


async def test_a_good_page_passes_and_its_result_is_kept(stage: Stage) -> None:
    session = await stage.at("/accessible/good")
    found = await passed(session, {"act": "accessibility", "soft": True, "impact": "minor"})
    assert found.details == {"violations": 0, "file": "result.json"}
    assert session.files[-1].name == "result.json"


async def test_a_page_without_scripts_cannot_be_checked(stage: Stage) -> None:
    session = await stage.at("/accessible/good", context=ContextOptions(java_script=False))
    failure = await failed(session, {"act": "accessibility"})
    assert (failure.code, "`java_script: false`" in failure.message) == ("INVALID_INPUT", True)
