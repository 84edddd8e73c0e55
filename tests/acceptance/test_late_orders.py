"""An order that leaves late, or while its page hangs, is not placed twice, whatever the task does next.

The site counts the orders. In each task a click causes one, and a later step fails, or the click itself is cut off.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from tests.acceptance.conftest import Wanted
from tests.acceptance.warm import warm
from tests.browser.moments import stretched

ORDER = "fetch('/order?key=KEY', {method: 'POST', body: 'x'})"
BUSY = "const began = Date.now(); while (Date.now() - began < 30000);"
KINDS = {
    "timer": f"setTimeout(() => {ORDER}, WAIT)",
    "chain": f"new Promise(r => setTimeout(r, WAIT)).then(() => 0).then(() => {ORDER})",
    "form": "setTimeout(() => form.submit(), WAIT)",
    "pagehide": "addEventListener('pagehide', () => navigator.sendBeacon('/order?key=KEY', 'x'))",
    "shared": "new SharedWorker('/worker?key=KEY&wait=WAIT')",
    "hung-fetch": f"{ORDER}; {BUSY}",
    "hung-xhr": f"const x = new XMLHttpRequest(); x.open('POST', '/order?key=KEY'); x.send('x'); {BUSY}",
    "hung-beacon": f"navigator.sendBeacon('/order?key=KEY', 'x'); {BUSY}",
    "hung-form": f"form.submit(); {BUSY}",
    "hung-timer": f"setTimeout(() => {ORDER}, 0); {BUSY}",
}
"""What a click does; `WAIT` is a time at which the task is on its way back."""
BACK = {"on_timeout": "retry_from_checkpoint"}
WAYS: dict[str, dict[str, Any]] = {
    "checkpoint": {"checkpoints": [0], "error_recovery": BACK},
    "start": {"error_recovery": {**BACK, "on_browser_crash": "restart_task"}},
    "none": {},
    "other-agent": {"agent": "scripted", "agent_fallback": ["again"]},
    "alternative": {"fallback_plan": {"enabled": True, "alternative_task_id": "OTHER"}},
}
CASES = {f"{kind}-{way}": (kind, way) for kind in KINDS for way in WAYS}
SOME = ("timer-checkpoint", "form-start", "shared-checkpoint", "hung-fetch-none")
UNKNOWN = "OUTCOME_UNKNOWN"
PAGE = """<!doctype html><title>Shop</title><form id=form method=post action="/order?key={key}"></form>
<button id=buy>Buy</button><script>buy.onclick = () => {{ {script} }}</script>"""
AGAIN = """
class Again:
    async def propose(self, plan, history, observe):
        return plan.steps[len(history)] if len(history) < len(plan.steps) else None
"""


class Site(http.server.BaseHTTPRequestHandler):
    orders: Counter[str]
    asked: Counter[str]
    """The orders that have come in, whether they are taken yet or not."""

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/orders":
            self.answer(json.dumps(self.orders), "application/json")
        elif address.path == "/slow":
            time.sleep(float(query["hold"]))
        elif address.path == "/worker":
            self.answer(filled("setTimeout(() => " + ORDER + ", WAIT)", query), "text/javascript")
        else:
            key, script = query["key"], filled(query.get("script") or KINDS[query["kind"]], query)
            self.answer(PAGE.format(key=key, script=script), "text/html")

    def do_POST(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked[query["key"][0]] += 1
        first = self.asked[query["key"][0]] == 1
        time.sleep(float(query.get("hold", ["0"])[0]) if first else 0)
        if first and "lost" in query:
            with suppress(OSError):
                self.answer("<title>lost</title>", "text/html", int(query["lost"][0]))
            return
        self.orders[query["key"][0]] += 1
        with suppress(OSError):  # nobody waits for it any more
            self.answer("<title>ordered</title>", "text/html")

    def answer(self, text: str, kind: str, status: int = 200) -> None:
        if not status:
            return  # the connection ends without an answer
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


def filled(script: str, query: Mapping[str, str]) -> str:
    return script.replace("KEY", query["key"]).replace("WAIT", query["wait"])


def task(name: str, url: str, seconds: int) -> dict[str, Any]:
    """A task whose order leaves about when its last step has failed."""
    kind, way = CASES[name]
    page = f"{url}/?kind={kind}&key={name}&wait={seconds * 1000}"
    steps = [
        {"act": "open", "url": page, "timeout": 20},
        {"act": "click", "selector": "#buy"},
        {"act": "wait", "selector": "#never"},
    ]
    limits = {"timeout": 60, "step_timeout": seconds}
    return {"task_id": name, "goal": f"order {name} once", **limits, **WAYS[way], "steps": steps}


def serving(orders: Counter[str], asked: Counter[str]) -> http.server.ThreadingHTTPServer:
    handler = type("OfRun", (Site,), {"orders": orders, "asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, wanted: Wanted[tuple[str, str]]
) -> Iterator[tuple[dict[str, dict[str, Any]], Counter[str]]]:
    path, orders = tmp_path_factory.mktemp("late"), Counter[str]()
    server = serving(orders, Counter())
    url = f"http://127.0.0.1:{server.server_port}"
    agents = '[tool.harness.agents.again]\npython = "again:Again"\ntakeover = "restart"\n'
    (path / "pyproject.toml").write_text(agents, "utf-8")
    (path / "pytest.ini").write_text("[pytest]\npythonpath = .\n", "utf-8")
    (path / "again.py").write_text(AGAIN, "utf-8")
    chosen = wanted(CASES, "test_one_order_at_most")
    seconds = round(min(stretched(1), 4))
    for name in chosen:
        (path / f"{name}.task.json").write_text(json.dumps(task(name, url, seconds)), "utf-8")
    other = {"task_id": "OTHER", "steps": [{"act": "open", "url": f"{url}/?kind=pagehide&key=OTHER&wait=0"}]}
    (path / "OTHER.task.json").write_text(json.dumps(other), "utf-8")
    arguments = ("-p", "no:cacheprovider", "--task-workers", "4", "--task-breaker", "off", "--task-retrace", ".")
    warm().run("pytest", *arguments, cwd=path, timeout=600)
    document = json.loads((path / ".harness" / "last-run.json").read_text("utf-8"))
    yield {each["task_id"]: each for each in document["results"]}, orders
    server.shutdown()


@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(each, marks=pytest.mark.thorough) for each in CASES if each not in SOME)]
)
def test_one_order_at_most(played: tuple[dict[str, dict[str, Any]], Counter[str]], name: str) -> None:
    """It takes some seconds, since the order must leave late. A second run for a trace obeys the same rule."""
    records, orders = played
    told = f"{records[name]['code']}: {records[name]['message']}"
    assert orders[name] <= 1, told
    assert records[name]["code"] or records[name]["warnings"], told
    if name in ("hung-fetch-none", "hung-xhr-none", "hung-beacon-none"):  # it was sent, and its page told so only then
        assert (records[name]["code"], orders[name]) == (UNKNOWN, 1), told


LIMIT = 3
"""Seconds of a step, in `HELD`."""
FORM, FETCH = "form.action += '&HOW'; form.submit()", ORDER.replace("KEY", "KEY&HOW")
WAIT = {"act": "wait", "selector": "#never", "timeout": 1}
HELD: dict[str, tuple[str, str, str, int, str | None, set[str] | None]] = {
    "form-soon": (FORM, f"hold={LIMIT + 1}", "write", 1, None, {"effect_already_done"}),
    "form-late": (FORM, f"hold={3 * LIMIT}", "write", 1, UNKNOWN, set()),
    "link-late": (f"location = '/slow?hold={3 * LIMIT}'", "", "write", 0, UNKNOWN, set()),
    "fetch-back": (FETCH, f"hold={5 * LIMIT}", "write", 1, UNKNOWN, None),
    "form-busy": (FORM, "lost=503", "idempotent", 2, None, {"network_error_recovered"}),
    "form-lost": (FORM, "lost=0", "read", 2, None, {"network_error_recovered"}),
    "form-slow": (FORM, f"hold={2 * LIMIT}&lost=503", "idempotent", 2, None, {"network_error_recovered"}),
}
"""What a click does and how its site takes the order, the declared effect; the orders that come in, code, warnings."""


def test_an_order_without_an_answer_is_placed_again_only_if_it_may_be(tmp_path: Path) -> None:
    """It takes ten seconds: an order must be late by more than one limit."""
    asked = Counter[str]()
    server = serving(Counter(), asked)
    url = f"http://127.0.0.1:{server.server_port}"
    channel = f'[tool.harness.channels.site]\nurl = "{url}/orders"\nreadonly = true\n'
    (tmp_path / "pyproject.toml").write_text(channel, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    for key, (script, how, effect, *_) in HELD.items():
        page = f"{url}/?{urlencode({'key': key, 'script': script.replace('HOW', how), 'wait': 0})}"
        buy = {"act": "click", "selector": "#buy", "effect": effect}
        buy |= {"done_when": f"json('site', '{key}') == 1"} if effect == "write" else {}
        back = key == "fetch-back"
        steps = [{"act": "open", "url": page, "timeout": 20}, buy, *([WAIT] if back else [])]
        spec = {"task_id": key, "goal": "order once", "timeout": 60, "step_timeout": LIMIT, "steps": steps}
        rules = {"checkpoints": [1], "error_recovery": BACK} if back else {}
        (tmp_path / f"{key}.task.json").write_text(json.dumps({**spec, **rules}), "utf-8")
    arguments = ("-p", "no:cacheprovider", "--task-workers", str(len(HELD)), "--task-breaker", "off")
    warm().run("pytest", *arguments, cwd=tmp_path, timeout=600)
    server.shutdown()
    document = json.loads((tmp_path / ".harness" / "last-run.json").read_text("utf-8"))
    for record in document["results"]:
        key, told = record["task_id"], f"{record['code']}: {record['message']}"
        *_, placed, code, warnings = HELD[key]
        assert (record["code"], asked[key]) == (code, placed), f"{key}: {told}"
        assert warnings is None or {each["type"] for each in record["warnings"]} == warnings, key
        assert code is None or "has no answer, and until then a false `done_when` proves nothing" in told, key
    assert len(document["results"]) == len(HELD)
