"""A hostile shop: however its checkout breaks down and whatever the task declares, nothing is ordered twice.

All tasks are run once, by two runs: one whose conftest.py kills browsers, and one of several tasks at once.
The worlds in which they ran tell how many orders were placed.
"""

from __future__ import annotations

import http.server
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.acceptance.conftest import Project, Wanted
from tests.browser.moments import stretched

ORDERED = "json('env', 'shop.orders.O-10001.status') == 'confirmed'"
CART = {"kind": "delayed_state", "path": "shop.cart.WM-5521", "value": {"qty": 1}, "seconds": 0}
"""The mouse is in the cart. Pages on the way there would leave unused connections; what is reset on such a one,
Chromium sends again by itself."""
BUY: tuple[dict[str, Any], ...] = (
    {"act": "open", "url": "http://shop.local/checkout"},
    {"act": "type", "selector": "#address", "value": "1 Test Road"},
)
FILL: tuple[dict[str, Any], ...] = (
    {"act": "open", "url": "http://shop.local/product/WM-5521"},
    {
        "act": "click",
        "selector": "#add-to-cart",
        "effect": "write",
        "done_when": "json('env', 'shop.cart.WM-5521.qty') == 1",
    },
)
ORDER = len(BUY)
"""Number of the step that orders."""
LATE = 5
"""Seconds after which the order is late."""
RETRY = {"strategy": "retry", "retry_delay_ms": 100}
BACKOFF = {"strategy": "exponential_backoff", "max_retries": 2, "retry_delay_ms": 100}

KILLS = """
import contextlib, json, os, threading, urllib.request, psutil, pytest
from harness.pytest_plugin.state import STATE

def orders(world):
    request = urllib.request.Request(
        "http://127.0.0.1:{port}/env", headers={{"Host": "world.local", "User-Agent": f"harness-world/{{world}}"}}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["shop"]["orders"]

def kill_after_the_order(world, over):
    # The browser is the process of Chromium that is no part of another one.
    while "O-10001" not in orders(world):
        if over.wait(0.02):
            return
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # others come and go
            line = " ".join(process.cmdline())
            if "--headless" in line and "--type=" not in line:
                process.kill()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    if not item.name.startswith("KILL"):
        return (yield)
    over = threading.Event()
    world = item.config.stash[STATE].run_id + "." + item.name
    watcher = threading.Thread(target=kill_after_the_order, args=(world, over))
    watcher.start()
    try:
        return (yield)
    finally:
        over.set()
        watcher.join()
"""
"""A conftest.py: kills the browser once the order stands in the world of a task whose name begins with KILL."""


@dataclass(frozen=True)
class Case:
    """A task that orders while the shop breaks down, and what must come of it."""

    orders: int
    state: str
    code: str | None = None
    warnings: frozenset[str] = frozenset()
    breaks: Mapping[str, str] = field(default_factory=dict)
    """The checkout's switches, set just before the order."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    step: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the step that orders."""
    after: tuple[Mapping[str, Any], ...] = ({"act": "open", "url": "http://shop.local/orders"},)
    """Steps after the order."""


def case(orders: int, state: str, code: str | None = None, *warnings: str, known: bool = True, **keys: Any) -> Case:
    """`known`: the order has a `done_when`."""
    step = {"act": "submit", "selector": "#place-order"}
    step |= {"done_when": ORDERED} if known else {}
    return Case(orders, state, code, frozenset(warnings), step=step | keys.pop("step", {}), **keys)


def _breakdowns() -> dict[str, Case]:
    """The order breaks down, under each strategy that could do it again."""
    after, before = {"after_commit": "reset"}, {"before_commit": "reset"}
    silent, mute = {"after_commit": "hang"}, {"before_commit": "hang"}
    found: dict[str, Case] = {}
    for name, rule in {"retry": RETRY, "backoff": BACKOFF}.items():
        rules = {"on_network_error": rule}
        found |= {
            f"reset-after-{name}": case(1, "completed", None, "effect_already_done", breaks=after, rules=rules),
            f"reset-before-{name}": case(0, "failed", "NET_CONNECTION_RESET", breaks=before, rules=rules),
            f"hang-after-{name}": case(1, "completed", None, "effect_already_done", breaks=silent, rules=rules),
            f"hang-before-{name}": case(0, "failed", UNKNOWN, breaks={"before_commit": "hang_once"}, rules=rules),
            f"blind-reset-after-{name}": case(1, "failed", UNKNOWN, known=False, breaks=after, rules=rules),
            f"blind-reset-before-{name}": case(0, "failed", UNKNOWN, known=False, breaks=before, rules=rules),
            f"blind-hang-after-{name}": case(1, "failed", UNKNOWN, known=False, breaks=silent, rules=rules),
            f"blind-hang-before-{name}": case(0, "failed", UNKNOWN, known=False, breaks=mute, rules=rules),
        }
    rules = {"on_network_error": "abort"}
    return found | {
        "reset-after-abort": case(1, "completed", None, "effect_already_done", breaks=after, rules=rules),
        "reset-before-abort": case(0, "aborted", "NET_CONNECTION_RESET", breaks=before, rules=rules),
        "hang-after-abort": case(1, "completed", None, "effect_already_done", breaks=silent, rules=rules),
        "hang-before-abort": case(0, "aborted", "NET_TIMEOUT", breaks=mute, rules=rules),
        "blind-reset-after-abort": case(1, "aborted", "NET_CONNECTION_RESET", known=False, breaks=after, rules=rules),
        "blind-hang-after-abort": case(1, "aborted", "NET_TIMEOUT", known=False, breaks=silent, rules=rules),
    }


def _late() -> dict[str, Case]:
    """The order is placed and nobody has seen its page: the step that waits for it is late."""
    keys: dict[str, Any] = {
        "breaks": {"after_commit": "hang_once"},
        "after": ({"act": "wait", "selector": "#order-id", "timeout": 1},),
    }
    skip, done = {"on_timeout": "skip_step"}, "effect_already_done"
    return {
        "late-capture": case(1, "failed", "STEP_TIMEOUT", done, **keys),
        "late-skip": case(1, "partial_success", None, done, "step_skipped", rules=skip, **keys),
        # The checkpoint is older than the order, and so is the shop that it puts back: the order is placed again.
        "late-rewind": case(
            1, "completed", None, done, "checkpoint_restored", "timeout_escalated", rules=REWIND, spec=BEFORE, **keys
        ),
        # A whole form is submitted by a script of ours, not by a click.
        "late-form": case(1, "completed", None, done, step={"selector": "#checkout-form"}, breaks=keys["breaks"]),
    }


def _killed() -> dict[str, Case]:
    """The browser dies with the order placed and nothing answered."""
    keys: dict[str, Any] = {"breaks": {"after_commit": "hang"}, "step": {"selector": "#checkout-form"}}
    restarted, again = ("browser_restarted", "checkpoint_restored"), {"on_browser_crash": "restart_task"}
    return {
        "KILL-start": case(1, "completed", None, "effect_already_done", *restarted, rules=again, **keys),
        "KILL-end": case(1, "failed", "BROWSER_CRASHED", "effect_already_done", **keys),
        "KILL-checkpoint": case(1, "completed", None, "effect_already_done", *restarted, spec=BEFORE, **keys),
        "KILL-abort": case(
            1, "aborted", "BROWSER_CRASHED", "effect_already_done", rules={"on_browser_crash": "abort"}, **keys
        ),
        "KILL-blind-start": case(1, "failed", UNKNOWN, known=False, rules=again, **keys),
        "KILL-blind-checkpoint": case(1, "completed", None, *restarted, known=False, spec=BEFORE, **keys),
        "KILL-blind-abort": case(
            1, "aborted", "BROWSER_CRASHED", known=False, rules={"on_browser_crash": "abort"}, **keys
        ),
    }


def _clicked() -> dict[str, Case]:
    """Nobody has said that the button orders: that a POST was sent is enough."""
    found = {}
    for orders, moment in ((1, "after"), (0, "before")):
        for how in ("reset", "hang"):
            found[f"click-{how}-{moment}"] = case(
                orders,
                "failed",
                UNKNOWN,
                known=False,
                breaks={f"{moment}_commit": how},
                rules={"on_network_error": RETRY},
                step={"act": "click", "selector": "#place-order", "effect": None},
            )
    return found


UNKNOWN = "OUTCOME_UNKNOWN"
WENT_BACK = ("checkpoint_restored", "timeout_escalated")
BEFORE = {"checkpoints": [ORDER]}
REWIND = {"on_timeout": "retry_from_checkpoint"}
TROUBLED, KILLED = {**_breakdowns(), **_late(), **_clicked()}, _killed()


class Played:
    """All tasks, run; what became of them and of their worlds."""

    def __init__(self, project: Project, sites: dict[str, int], *options: str) -> None:
        self._port = sites["world.local"]
        project.play(*options)
        document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
        self._run = document["run"]
        self.records: dict[str, dict[str, Any]] = {each["task_id"]: each for each in document["results"]}

    def orders(self, name: str) -> list[str]:
        """Those that were not there from the start, in the world of a task."""
        headers = {"Host": "world.local", "User-Agent": f"harness-world/{self._run}.{name}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/env", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return [key for key in json.load(answer)["shop"]["orders"] if key != "O-09871"]

    def check(self, name: str, wanted: Case) -> None:
        record = self.records[name]
        told = f"{record['code']}: {record['message']}; {record['warnings']}"
        assert len(self.orders(name)) == wanted.orders, told
        assert (record["final_state"], record["code"]) == (wanted.state, wanted.code), told
        assert {warning["type"] for warning in record["warnings"]} == wanted.warnings, told


def _write(project: Project, name: str, each: Case, *fill: Mapping[str, Any]) -> None:
    """`fill` are the steps that put the mouse into the cart, where the environment cannot be written."""
    path = "shop.settings.checkout"
    faults = [
        {"kind": "delayed_state", "path": f"{path}.{key}", "value": value, "seconds": 0, "step": ORDER}
        for key, value in each.breaks.items()
    ]
    faults = [*([] if fill else [CART]), *faults, *each.spec.get("faults", ())]
    step = {key: value for key, value in each.step.items() if value is not None}
    step["timeout"] = round(stretched(LATE), 1)
    rules, steps = dict(each.rules), [*fill, *BUY, step, *each.after]
    project.task(name, **{"error_recovery": rules, **each.spec, "steps": steps, "faults": faults})


Hostile = Callable[[Mapping[str, Case]], Project]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, sites: dict[str, int]) -> Hostile:
    """A project with such tasks."""

    def made(cases: Mapping[str, Case]) -> Project:
        folder = SimpleNamespace(path=tmp_path_factory.mktemp("hostile"))
        project = Project(cast("pytest.Pytester", folder), sites)
        for name, each in cases.items():
            _write(project, name, each)
        return project

    return made


@pytest.fixture(scope="module")
def troubled(hostile: Hostile, sites: dict[str, int], wanted: Wanted[Case]) -> Played:
    return Played(hostile(wanted(TROUBLED, "test_nothing_is_ordered_twice")), sites, "--task-workers", "4")


@pytest.fixture(scope="module")
def killed(hostile: Hostile, sites: dict[str, int], wanted: Wanted[Case]) -> Played:
    project = hostile(wanted(KILLED, "test_nothing_is_ordered_twice_when_the_browser_is_killed"))
    (project.path / "conftest.py").write_text(KILLS.format(port=sites["world.local"]), "utf-8")
    return Played(project, sites, "-n", "2")


@pytest.mark.parametrize("name", TROUBLED)
@pytest.mark.sampled(3)
def test_nothing_is_ordered_twice(troubled: Played, name: str) -> None:
    troubled.check(name, TROUBLED[name])


@pytest.mark.own_driver
@pytest.mark.parametrize("name", KILLED)
@pytest.mark.thorough
def test_nothing_is_ordered_twice_when_the_browser_is_killed(killed: Played, name: str) -> None:
    killed.check(name, KILLED[name])


LATE_LATER: dict[str, Any] = {
    "rules": REWIND,
    "after": (
        {"act": "open", "url": "http://shop.local/search?q=mouse"},
        {"act": "wait", "selector": ".product-item", "timeout": 2},
    ),
    "spec": {
        "checkpoints": [len(FILL) + ORDER],
        "faults": [{"kind": "hang", "url": "http://shop.local/api/search*", "times": 1, "step": len(FILL) + ORDER + 1}],
    },
}
KEPT = {
    "KNOWN": case(
        1,
        "completed",
        None,
        *WENT_BACK,
        "effect_already_done",
        "restore_incomplete",
        **LATE_LATER,
    ),
    "BLIND": case(1, "failed", "STEP_TIMEOUT", known=False, **LATE_LATER),
}


@pytest.mark.thorough
def test_an_order_that_cannot_be_taken_back_is_not_placed_again(project: Project, sites: dict[str, int]) -> None:
    settings = project.path / "pyproject.toml"
    settings.write_text(settings.read_text("utf-8").replace('clock = "world.now"', "readonly = true"), "utf-8")
    for name, each in KEPT.items():
        _write(project, name, each, *FILL)
    played = Played(project, sites)
    for name, each in KEPT.items():
        played.check(name, each)
    assert "step 4 is a write without `done_when`" in played.records["BLIND"]["message"]


class Kiosk(http.server.BaseHTTPRequestHandler):
    """Its only button is ready after a while; it takes orders and answers none."""

    orders: list[str]
    over: threading.Event

    def do_GET(self) -> None:
        body = b"""<form method=post action=/order><button id=buy disabled>Buy</button></form>
        <script>setTimeout(() => buy.disabled = false, 5500)</script>"""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.orders.append(self.path)
        self.over.wait(60)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def kiosk() -> Iterator[tuple[str, list[str]]]:
    orders: list[str] = []
    over = threading.Event()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Kiosk", (Kiosk,), {"orders": orders, "over": over})
    )
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", orders
    over.set()
    server.shutdown()


@pytest.mark.thorough
def test_an_act_that_could_not_be_done_is_tried_again_and_one_that_was_done_is_not(
    project: Project, kiosk: tuple[str, list[str]]
) -> None:
    url, orders = kiosk
    buy = {"act": "submit", "selector": "#buy", "timeout": 4}
    project.task(
        "A-1",
        steps=[{"act": "open", "url": url}, buy],
        error_recovery={"on_action_failed": "retry"},
        allowed_domains=[],
    )
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ATTEMPT 1: FAILED - #buy is disabled*", "*RETRY*no answer from*/order*"])
    assert project.report("A-1")["code"] == UNKNOWN
    assert orders == ["/order"]
