"""Keys of a task's file that only show in a real browser, or in a run as a user starts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.conftest import Project
from tests.browser.conftest import browsers, run, site, stage  # noqa: F401 - fixtures
from tests.browser.stage import Stage, failed, passed

pytestmark = pytest.mark.filterwarnings("default")
IN_A_FRAME = "() => { document.body.innerHTML = '<iframe id=f src=/ width=900 height=700></iframe>' }"
DISABLED = "id => { document.getElementById(id).setAttribute('aria-disabled', 'true') }"
HIDDEN = "id => { document.getElementById(id).style.display = 'none' }"
COVERED = """() => { document.body.insertAdjacentHTML('beforeend',
    '<div style="position:fixed;inset:0;z-index:9"></div>') }"""


@pytest.mark.parametrize(
    "step",
    [
        {"act": "check", "selector": "#agree"},
        {"act": "uncheck", "selector": "#agree"},
        {"act": "submit", "selector": "#form"},
        {"act": "upload", "selector": "#file", "value": "a.txt"},
        {"act": "download", "selector": "#file-link"},
    ],
    ids=lambda step: step["act"],
)
@pytest.mark.thorough  # tests/browser/test_actions.py has `frame` and `force` of other acts
async def test_acts_in_a_frame(stage: Stage, step: dict[str, Any]) -> None:  # noqa: F811
    (stage.folder / "a.txt").write_text("A")
    session = await stage.at("/popup")
    await session.tab.page.evaluate(IN_A_FRAME)
    await passed(session, {"act": "wait", "selector": "#form", "frame": "#f"})
    outside = await failed(session, step)
    assert outside.code == "ELEMENT_NOT_FOUND"
    await passed(session, {**step, "frame": "#f"})


@pytest.mark.parametrize(
    ("path", "spoil", "code", "step"),
    [
        ("/", DISABLED, "ELEMENT_DISABLED", {"act": "type", "selector": "#name", "value": "x"}),
        ("/", HIDDEN, "ELEMENT_HIDDEN", {"act": "select", "selector": "#colour", "value": "g"}),
        ("/", DISABLED, "ELEMENT_DISABLED", {"act": "check", "selector": "#agree"}),
        ("/widgets", DISABLED, "ELEMENT_DISABLED", {"act": "uncheck", "selector": "#ticked"}),
        ("/", DISABLED, "ELEMENT_DISABLED", {"act": "download", "selector": "#file-link"}),
    ],
    ids=lambda step: step["act"] if isinstance(step, dict) else "",
)
@pytest.mark.thorough
async def test_force_acts_on_what_is_not_ready(
    stage: Stage,  # noqa: F811
    path: str,
    spoil: str,
    code: str,
    step: dict[str, Any],
) -> None:
    session = await stage.at(path)
    await session.tab.page.evaluate(spoil, step["selector"].removeprefix("#"))
    assert (await failed(session, step)).code == code
    await passed(session, {**step, "force": True})


@pytest.mark.thorough
async def test_force_drags_what_is_covered(stage: Stage) -> None:  # noqa: F811
    session = await stage.at("/widgets")
    await session.tab.page.evaluate(COVERED)
    step = {"act": "drag", "selector": "#one", "value": "#three"}
    assert (await failed(session, step, within=3)).code == "ELEMENT_COVERED"
    await passed(session, {**step, "force": True})


def test_no_host_is_reached_that_the_task_does_not_allow(project: Project) -> None:
    steps = [{"act": "open", "url": "http://bank.local/"}]
    project.task("FREE", steps=steps)
    project.task("BOUND", steps=steps, allowed_domains=["shop.local"])
    project.run().assert_outcomes(passed=1, failed=1)
    assert project.report("BOUND")["code"] == "POLICY_DOMAIN"


def _delays(project: Project, task_id: str) -> list[str]:
    """The waits before the retries of a task's first step, as its trace tells them."""
    trace = json.loads((project.path / "errors" / task_id / "partial_trace.json").read_text("utf-8"))
    return [line["note"].partition(")")[0] for line in trace["steps"][1:]]


@pytest.mark.thorough
def test_a_declared_fault_is_met_and_the_seed_decides_the_jitter(project: Project) -> None:
    rules = {"on_network_error": {"max_retries": 3, "retry_delay_ms": 50, "jitter": 1}}
    for name, seed in (("ONE", 1), ("AGAIN", 1), ("TWO", 2)):
        faults = [{"kind": "refuse", "host": "shop.local", "seconds": 60}]
        project.task(name, seed=seed, faults=faults, error_recovery=rules)
    project.run().assert_outcomes(failed=3)
    assert project.report("ONE")["error_type"] == "network_connection_refused"
    assert len(_delays(project, "ONE")) == 3
    assert _delays(project, "ONE") == _delays(project, "AGAIN") != _delays(project, "TWO")
