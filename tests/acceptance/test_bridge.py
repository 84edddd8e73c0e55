"""Agents that run elsewhere, with a real browser and real sockets: `pytest --agent bridge`."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.reporting.redaction import MARK
from harness.serve.tokens import Tokens, TokenScope
from tests.acceptance.bridge_agent import Cut, CuttingProxy, LastingAgent
from tests.acceptance.conftest import Project
from tests.acceptance.warm import Forked

SHOP = "http://shop.local"
BUY: list[dict[str, Any]] = [
    {"act": "open", "url": f"{SHOP}/product/WM-5521"},
    {"act": "click", "selector": "#add-to-cart", "effect": "write"},
    {"act": "open", "url": f"{SHOP}/checkout"},
    {"act": "type", "selector": "#address", "value": "123 Main St"},
    {"act": "select", "selector": "#shipping-speed", "value": "same_day"},
    {"act": "select", "selector": "#payment-card", "value": "PM-1"},
    {"act": "submit", "selector": "#checkout-form", "effect": "write"},
]
ONE_ORDER = ["text('#order-id') == 'O-10001'", "NOT[json('env', 'shop.orders.O-10002.status') == 'confirmed']"]
FRAMES = len(BUY) + 4
"""Frames of the client: auth, session_create, task_take, the steps, finish."""
ORDINARY: tuple[Cut, ...] = (("up", 3, True), ("up", 9, False), ("down", 9, True))
ALL = tuple((side, count, inside) for side in ("up", "down") for count in range(FRAMES) for inside in (True, False))


class BridgeRun:
    """pytest that serves agents; `agent` connects to it."""

    def __init__(self, process: Forked) -> None:
        self.process = process
        self.said = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.said += line
            if found := re.search(r"connect to (ws://127\.0\.0\.1:(\d+)/bridge) with the token (\S+)", line):
                self.url, self.port, self.token = found[1], int(found[2]), found[3]
                return
        raise AssertionError(self.said)

    def ends(self) -> str:
        assert self.process.stdout is not None
        self.said += self.process.stdout.read()
        self.process.wait(30)
        return self.said


def serve(project: Project, *args: str) -> BridgeRun:
    return BridgeRun(project.start("--agent", "bridge", "-p", "no:cacheprovider", *args))


@pytest.mark.parametrize(
    "cuts", [pytest.param(ORDINARY, id="some"), pytest.param(ALL, id="all", marks=pytest.mark.thorough)]
)
def test_a_cut_connection_changes_nothing_wherever_it_is_cut(project: Project, cuts: tuple[Cut, ...]) -> None:
    for number in range(len(cuts)):
        project.task(f"BUY-{number:02}", success_criteria=ONE_ORDER)
    run = serve(project, "--task-workers", "2", "--task-bridge-wait", "300")

    async def buy(number: int, cut: Cut) -> None:
        proxy = CuttingProxy(run.port, cut)
        async with proxy as url:
            agent = LastingAgent(url, run.token)
            ended = await agent.do(BUY, f"BUY-{number:02}")
            assert ended["payload"].get("passed") is True, (cut, ended)
            assert proxy.cuts == 1, cut
            await agent.drop()

    async def main() -> None:
        async with asyncio.timeout(240):
            for first in range(0, len(cuts), 2):
                pair = list(enumerate(cuts))[first : first + 2]
                await asyncio.gather(*(buy(number, cut) for number, cut in pair))

    try:
        asyncio.run(main())
    except BaseException:
        run.process.kill()
        raise
    assert f"{len(cuts)} passed" in run.ends()


def request(run: BridgeRun, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """One request to the HTTP face: status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", run.port, timeout=40)
    try:
        told = {"Authorization": f"Bearer {run.token}", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), told)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text
    finally:
        connection.close()


def over_http(run: BridgeRun) -> None:
    """Take a task over HTTP, look, read the stream, and close the session."""
    status, session = request(run, "POST", "/sessions", {"agent": "curl"})
    assert status == 201
    place = f"/sessions/{session['session']}"

    def ask(type: str, **payload: Any) -> tuple[int, Any]:  # noqa: A002
        return request(run, "POST", f"{place}/messages", LastingAgent.message(type, payload))

    assert ask("task_take", wait_ms=30_000)[1]["payload"]["task_id"] == "T2-LEFT"
    assert ask("act", turn=1, step=BUY[0])[1]["payload"]["passed"] is True
    status, refused = ask("act", turn=1, step=BUY[0])
    assert (status, refused["payload"]["code"]) == (409, "SESS_TURN_OVER")
    blob = ask("observe", turn=2, screenshot=True)[1]["payload"]["screenshot_blob"]
    status, picture = request(run, "GET", blob["path"])
    assert (status, hashlib.sha256(picture).hexdigest(), picture[1:4]) == (200, blob["sha256"], b"PNG")
    assert request(run, "GET", f"/blobs/{'0' * 64}")[0] == 404
    assert [each["agent"] for each in request(run, "GET", "/sessions")[1]["sessions"]] == ["curl"]
    assert streamed(run, place, f"{session['epoch']}:0")[:2] == ["turn", "outcome"]
    assert request(run, "GET", "/sessions", Authorization="Bearer nothing")[0] == 401
    assert request(run, "GET", "/sessions", Host="evil.example")[0] == 403
    status, missing = request(run, "POST", "/sessions/sess-abc123/messages", {})
    assert (status, missing["error"], missing["code"]) == (404, "NotFound", "SESS_NOT_FOUND")
    assert missing["message"] == "Session 'sess-abc123' not found"
    assert request(run, "POST", f"{place}/messages", {"type": "act"})[1]["code"] == "PROTO_INVALID_MESSAGE"
    assert request(run, "POST", f"{place}/messages", {"type": "x" * 2**21})[0] == 413
    assert ask("auth", token="x")[1]["code"] == "PROTO_SEQUENCE_ERROR"
    assert request(run, "DELETE", place)[1]["state"] == "closed"
    assert request(run, "GET", place)[0] == 410


def streamed(run: BridgeRun, place: str, last: str) -> list[str]:
    """The types of the first messages of a session's stream."""
    connection = http.client.HTTPConnection("127.0.0.1", run.port, timeout=20)
    headers = {"Authorization": f"Bearer {run.token}", "Last-Event-ID": last}
    connection.request("GET", f"{place}/messages", None, headers)
    answer = connection.getresponse()
    found: list[str] = []
    while len(found) < 2:
        line = answer.readline()
        if line.startswith(b"data: "):
            found.append(json.loads(line[6:])["type"])
    connection.close()
    return found


async def test_a_run_tells_what_agents_do_and_what_becomes_of_those_that_leave(project: Project) -> None:
    project.task("T1-FAILS", success_criteria=["text('h1') == 'Nothing'"])
    project.task("T2-LEFT")
    project.task("T3-UNTAKEN")
    run = serve(project, "--task-bridge-wait", "1")
    assert json.loads((project.path / ".harness/bridge.json").read_text())["port"] == run.port
    agent = LastingAgent(run.url, run.token)
    taken = await agent.ask("task_take", wait_ms=60_000)
    assert taken["payload"]["task_id"] == "T1-FAILS"
    refused = await agent.ask("act", turn=1, step={"act": "clik", "selector": "#x"})
    assert refused["payload"]["failure"]["code"] == "AGENT_INVALID_STEP"
    await agent.ask("act", turn=2, step=BUY[0])
    seen = await agent.ask("observe", turn=3, screenshot=True)
    assert "Logitech M185" in seen["payload"]["aria"]
    assert seen["payload"]["screenshot_blob"]["type"] == "image/png"
    ended = await agent.ask("finish", turn=3)
    assert (ended["payload"]["passed"], ended["payload"]["code"]) == (False, "CRITERIA_UNMET")
    await agent.leave()
    over_http(run)
    said = run.ends()
    assert "3 failed" in said
    codes = [project.report(each)["code"] for each in ("T1-FAILS", "T2-LEFT", "T3-UNTAKEN")]
    assert codes == ["CRITERIA_UNMET", "AGENT_LOST", "AGENT_UNAVAILABLE"]
    assert not Path(project.path, ".harness/bridge.json").exists()


def test_no_message_has_a_secret_and_a_token_has_only_its_scope(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cret-of-the-shop"
    monkeypatch.setenv("SHOP_PASSWORD", secret)
    project.task(
        "T", step_timeout=2, inputs={"password": "${env:SHOP_PASSWORD}"}, success_criteria=[f"text('h1') == '{secret}'"]
    )
    run = serve(project)

    async def main() -> list[str]:
        agent = LastingAgent(run.url, run.token)
        await agent.ask("task_take", wait_ms=60_000)
        assert (await agent.ask("act", turn=1, step={"act": "open", "url": f"{SHOP}/"}))["payload"]["passed"]
        typed = await agent.ask("act", turn=2, step={"act": "type", "selector": "#search-box", "value": secret})
        assert typed["payload"]["passed"]
        seen = await agent.ask("observe", turn=3)
        assert MARK in seen["payload"]["aria"]
        failed = await agent.ask("act", turn=3, step={"act": "open", "url": f"{SHOP}/{secret}"})
        await agent.ask("act", turn=4, step={"act": "clik", "selector": f"#{secret}"})
        await agent.ask("act", turn=5, step={"act": "click", "selector": f"text={secret}"})
        for path in ("/sessions", f"/sessions/{agent.session}"):
            agent.heard.append(json.dumps(request(run, "GET", path)[1]))
        view = Tokens.of(project.path).issue(TokenScope.VIEW, datetime.now(UTC), timedelta(hours=1))
        assert request(run, "GET", f"/sessions/{agent.session}", Authorization=f"Bearer {view}")[0] == 403
        assert request(run, "POST", "/sessions", {}, Authorization=f"Bearer {view}")[0] == 403
        old = Tokens.of(project.path).issue(TokenScope.AGENT, datetime.now(UTC) - timedelta(2), timedelta(hours=1))
        status, refused = request(run, "GET", "/sessions", Authorization=f"Bearer {old}")
        assert (status, refused["payload"]["code"]) == (401, "AUTH_EXPIRED")
        ended = await agent.ask("finish", turn=6)
        assert (failed["type"], ended["type"]) == ("outcome", "task_ended")
        await agent.leave()
        return agent.heard

    try:
        heard = asyncio.run(main())
    except BaseException:
        run.process.kill()
        raise
    assert [each for each in heard if secret in each] == []
    assert secret not in run.ends()


def test_with_processes_of_xdist_the_bridge_is_refused(project: Project) -> None:
    project.task("T")
    said = project.run("--agent", "bridge", "-n", "1").stderr
    said.fnmatch_lines(["*the agent `bridge` cannot serve the processes of `-n`: use `--task-workers`*"])


@pytest.mark.thorough
async def test_a_purchase_that_is_paused_goes_on_in_a_new_browser_context(project: Project) -> None:
    """The cart is in the session's cookie, an address is typed, and the pause is longer than the task's time."""
    project.task("T", budget={"max_seconds": 9}, steps=[], success_criteria=ONE_ORDER)
    run = serve(project)
    agent = LastingAgent(run.url, run.token)
    await agent.ask("task_take", wait_ms=60_000)
    for turn, step in enumerate(BUY[:4], 1):
        assert (await agent.ask("act", turn=turn, step=step))["payload"]["passed"]
    paused = (await agent.ask("session_pause"))["payload"]
    assert paused["state"] == "paused"
    assert (await agent.ask("observe", turn=5))["payload"]["code"] == "SESS_PAUSED"
    await asyncio.sleep(9)
    resumed = (await agent.ask("session_resume"))["payload"]
    assert (resumed["state"], resumed["restore_incomplete"]) == ("active", [])
    seen = (await agent.ask("observe", turn=5))["payload"]
    assert "123 Main St" in seen["aria"]
    for turn, step in enumerate(BUY[4:], 5):
        assert (await agent.ask("act", turn=turn, step=step))["payload"]["passed"]
    assert (await agent.ask("finish", turn=8))["payload"]["passed"] is True
    await agent.leave()
    assert "1 passed" in run.ends()
