"""An ordinary shop that counts its orders: whatever ends the page, the browser or the answer, none is placed twice.

Each task places one order in one way, and then something sends it back. The shop knows nothing of worlds, its state
cannot be put back, and it takes orders by GET too. All tasks are run once, by two runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.values import replace
from tests.acceptance.conftest import Project, Wanted
from tests.browser.moments import stretched

UNKNOWN = "OUTCOME_UNKNOWN"
WRITE = 1
"""Number of the step that orders."""


@dataclass(frozen=True)
class Way:
    """One way to order."""

    step: Mapping[str, Any]
    more: str = ""
    """For the shop: where it leads to, with which status it answers."""
    renewable: bool = False
    """Whether the page afterwards may be asked for again: its address did not come of the order."""


WAYS = {
    "open": Way({"act": "open", "url": "/order?item={item}&{more}", "effect": "write"}),
    "open-led-on": Way({"act": "open", "url": "/order?item={item}&{more}", "effect": "write"}, "to=/thanks"),
    "link": Way({"act": "click", "selector": "#link", "effect": "write"}),
    "get-form": Way({"act": "submit", "selector": "#get"}),
    "post-form": Way({"act": "click", "selector": "#post"}),
    "post-led-on": Way({"act": "click", "selector": "#post"}, "to=/thanks", renewable=True),
    "fetch": Way({"act": "click", "selector": "#fetch"}, renewable=True),
    "fetch-later": Way({"act": "click", "selector": "#late"}, renewable=True),
    "beacon": Way({"act": "click", "selector": "#beacon"}, renewable=True),
}


@dataclass(frozen=True)
class Case:
    """A task, and how it must end; it has placed one order then."""

    way: Way
    state: str
    code: str | None
    says: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[Mapping[str, Any], ...] = ()


def _back() -> Iterator[tuple[str, Case]]:
    """Something that comes after the order is late, or crashes, so that the page is to be had again."""
    late = ({"act": "wait", "selector": "#never", "timeout": 1},)
    seen = ({"act": "wait", "value": 0.6}, {"act": "assert", "expr": "exists('html')"})
    rules = {"error_recovery": {"on_timeout": "retry_from_checkpoint"}}
    blind = "step 1 is a write without `done_when`"
    came = "it is not requested again"
    for name, way in WAYS.items():
        end, why = ("STEP_TIMEOUT", "") if way.renewable else (UNKNOWN, came)
        yield f"{name}-late-after", Case(way, "failed", end, why, {**rules, "checkpoints": [2]}, late)
        yield f"{name}-late-before", Case(way, "failed", "STEP_TIMEOUT", blind, {**rules, "checkpoints": [1]}, late)
        crash = {"faults": [{"kind": "page_crash", "step": 3}]}
        ended = ("completed", None, "") if way.renewable else ("failed", UNKNOWN, came)
        yield f"{name}-page-crash", Case(way, *ended, crash, seen)


def _broken() -> Iterator[tuple[str, Case]]:
    """The order is placed, and its answer is none, or none that says so."""
    rules = {"error_recovery": {"on_network_error": {"strategy": "retry", "max_retries": 3, "retry_delay_ms": 1}}}
    unsure = ("failed", UNKNOWN, "so it was not repeated")
    for leads in ("/loop", "/broken", f"/slow?seconds={round(4 * stretched(2))}"):
        for name, step in (("plain", {}), ("declared", {"effect": "write"})):
            click = {"act": "click", "selector": "#post", "timeout": round(stretched(2), 1), **step}
            loops = ("failed", "NET_TOO_MANY_REDIRECTS", "whether it took effect is not known")
            ended = loops if leads == "/loop" else unsure
            yield f"led-to-{leads[1:5]}-{name}", Case(Way(click, f"to={leads}"), *ended, rules)
    for status in (408, 429, 500, 503):
        answers = f"status={status}"
        if status != 408:  # Chromium itself asks again on a connection that it has used before
            yield f"open-{status}", Case(Way(WAYS["open"].step, answers), *unsure, rules)
        api = {"act": "api", "method": "POST", "url": "/order?item={item}&{more}"}
        yield f"api-{status}", Case(Way(api, answers), *unsure, rules)
    for name in ("link", "post-form"):
        yield f"{name}-503", Case(Way(WAYS[name].step, "status=503"), *unsure, rules)


def _killed() -> Iterator[tuple[str, Case]]:
    """Browser or driver are gone after the order, and the task would begin again, or go back to a checkpoint."""
    seen = ({"act": "wait", "value": 0.6}, {"act": "assert", "expr": "exists('html')"})
    again = {"on_browser_crash": "restart_task"}
    for name, way in WAYS.items():
        for kind, lost in (("browser_kill", "BROWSER_CRASHED"), ("driver_kill", "DRIVER_GONE")):
            faults = {"faults": [{"kind": kind, "step": 3}]}
            blind = ("failed", lost, "step 1 is a write without `done_when`")
            yield f"{name}-{kind}-start", Case(way, *blind, {**faults, "error_recovery": again}, seen)
            ended = ("completed", None, "") if way.renewable else ("failed", UNKNOWN, "it is not requested again")
            yield f"{name}-{kind}-checkpoint", Case(way, *ended, {**faults, "checkpoints": [3]}, seen)


BACK = dict(_back()) | dict(_broken())
KILLED = dict(_killed())
SOME = (
    "open-browser_kill-start",
    "fetch-browser_kill-start",
    "link-browser_kill-checkpoint",
    "beacon-driver_kill-start",
)
"""The others take a browser start each, and show the same."""


class Shop:
    """The application, running; and what a project made of it."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(Path(__file__).with_name("stranger_app.py"))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{json.loads(self.process.stdout.readline())['port']}"
        self.folder = folder

    def placed(self) -> dict[str, int]:
        """How often each item was ordered."""
        with urllib.request.urlopen(f"{self.url}/test-state", timeout=10) as answer:
            placed: dict[str, int] = json.load(answer)["placed"]
        return placed

    def play(self, cases: Mapping[str, Case], *options: str) -> dict[str, dict[str, Any]]:
        """Run them; their records."""
        project = Project(cast("pytest.Pytester", SimpleNamespace(path=self.folder)), {"shop.local": 1})
        channel = f'[tool.harness.channels.env]\nurl = "{self.url}/test-state"\nreadonly = true\n'
        (project.path / "pyproject.toml").write_text(channel, "utf-8")
        for name, case in cases.items():
            self._write(project, name, case)
        project.play(*options)
        document = json.loads((project.path / ".harness" / "last-run.json").read_text("utf-8"))
        return {each["task_id"]: each for each in document["results"]}

    def _write(self, project: Project, name: str, case: Case) -> None:
        fill = {"item": name, "more": case.way.more}
        step = dict(case.way.step)
        if "url" in step:
            step["url"] = self.url + step["url"].format(**fill)
        more = case.way.more.replace("=", "%3D")
        page = {"act": "open", "url": f"{self.url}/buy?item={name}&more={more}"}
        project.task(name, **{"allowed_domains": [], **case.spec, "steps": [page, step, *case.after]})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    yield shop
    shop.process.kill()
    shop.process.wait(10)


@pytest.fixture(scope="module")
def went_back(shop: Shop, wanted: Wanted[Case]) -> dict[str, dict[str, Any]]:
    return shop.play(wanted(BACK, "test_nothing_is_ordered_twice_on_the_way_back"), "--task-workers", "4")


@pytest.fixture(scope="module")
def killed(shop: Shop, tmp_path_factory: pytest.TempPathFactory, wanted: Wanted[Case]) -> Any:
    shop.folder = tmp_path_factory.mktemp("killed")
    return shop.play(wanted(KILLED, "test_nothing_is_ordered_twice_when_browser_or_driver_are_killed"))


def check(shop: Shop, record: Mapping[str, Any], name: str, case: Case) -> None:
    told = f"{record['code']}: {record['message']}; {record['warnings']}"
    assert shop.placed().get(name) == 1, told
    assert (record["final_state"], record["code"]) == (case.state, case.code), told
    assert case.says in (record["message"] or ""), told


@pytest.mark.thorough  # one trial of each way back is played by test_never_twice_campaign.py
@pytest.mark.parametrize("name", BACK)
def test_nothing_is_ordered_twice_on_the_way_back(shop: Shop, went_back: Any, name: str) -> None:
    check(shop, went_back[name], name, BACK[name])


@pytest.mark.own_driver
@pytest.mark.parametrize(
    "name", [*SOME, *(pytest.param(each, marks=pytest.mark.thorough) for each in KILLED if each not in SOME)]
)
@pytest.mark.sampled(2)
def test_nothing_is_ordered_twice_when_browser_or_driver_are_killed(shop: Shop, killed: Any, name: str) -> None:
    check(shop, killed[name], name, KILLED[name])


TRIALS = 60
STRIKES = """
import contextlib, json, os, random, threading, time, urllib.request, psutil, pytest

def placed():
    with urllib.request.urlopen("{url}/test-state", timeout=30) as answer:
        return json.load(answer)["placed"]

def strike(name, chance, over):
    # A browser is the process of Chromium that is no part of another one; the driver is Playwright's node.
    while name not in placed():
        if over.wait(0.01):
            return
    time.sleep(chance.choice([0, 0, 0.02, 0.2]) + chance.random() * 0.2)
    driver = chance.random() < 0.4
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            browser = "--headless" in line and "--type=" not in line
            if ("run-driver" in line) if driver else browser:
                process.kill()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    name, over = item.name, threading.Event()
    watcher = threading.Thread(target=strike, args=(name, random.Random(name), over))
    watcher.start()
    try:
        return (yield)
    finally:
        over.set()
        watcher.join()
"""
"""A conftest.py: kills browser or driver at some moment after the order of a task has arrived."""


@pytest.mark.own_driver
@pytest.mark.thorough
def test_nothing_is_ordered_twice_whenever_browser_or_driver_are_killed(
    shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop.folder = tmp_path_factory.mktemp("struck")
    (shop.folder / "conftest.py").write_text(STRIKES.format(url=shop.url), "utf-8")
    rules = [{"error_recovery": {"on_browser_crash": "restart_task"}}, {"checkpoints": [2]}, {"checkpoints": [1]}]
    after = ({"act": "wait", "value": 0.5}, {"act": "assert", "expr": "exists('html')"})
    cases: dict[str, Case] = {}
    for number in range(TRIALS):
        chance = Random(number)
        way = chance.choice(list(WAYS.values()))
        more = chance.choice([way.more, way.more, "to=/slow?seconds=1"])
        cases[f"R-{number:03}"] = Case(replace(way, more=more), "", None, spec=chance.choice(rules), after=after)
    records = shop.play(cases)
    placed = shop.placed()
    twice = {name: (placed.get(name), cases[name], records[name]["code"]) for name in cases if placed.get(name) != 1}
    assert not twice
    struck = [record for record in records.values() if record["code"] or record["warnings"]]
    assert len(struck) > TRIALS / 2
    assert {record["final_state"] for record in records.values()} <= {"completed", "failed"}
    assert all(record["code"] for record in records.values() if record["final_state"] == "failed")
