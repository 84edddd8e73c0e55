"""Plays trials: many in one process of pytest, in a project of their own, and collects what became of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from benchmarks.never_twice.remote import play_remotely
from benchmarks.never_twice.site import Server
from benchmarks.never_twice.trials import AGAIN, Trial, tasks_of, verdict

AT_ONCE: Final = 3
"""Tasks at once in one browser."""
BATCH: Final = {"tasks": 60, "retrace": 40, "store": 8, "worker": 10, "bridge": 8}
"""Trials of each kind of run in one process."""
LATEST: Final = 1.5
"""Seconds after the end of a run at which the site has done what it was asked for."""
LONGEST: Final = 900.0
STARTS: Final = 3
"""How often a run with a store is started whose process is killed."""
SETTINGS: Final = """
[tool.harness.channels.env]
url = "{url}/env"
readonly = true
[tool.harness.agents.breaks]
python = "agents_of_trials:Breaks"
retry = 0
fallback = ["again"]
[tool.harness.agents.again]
python = "agents_of_trials:Follows"
takeover = "restart"
"""
AGENTS: Final = '''
class Follows:
    """Does the steps of the file that have not passed yet."""

    last = 0

    def propose(self, plan, history, observe):
        done = [each for each in history if each.passed]
        return plan.steps[len(done)] if len(done) < len(plan.steps) - self.last else None


class Breaks(Follows):
    """Breaks before the last step."""

    def propose(self, plan, history, observe):
        if len(history) >= len(plan.steps) - 1:
            raise RuntimeError("the agent broke")
        return super().propose(plan, history, observe)
'''
WORKERS: Final = '''
import os, signal, threading, time, urllib.request, json, random, pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Kills this worker soon after the order of its task has arrived, or a while after its start."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        threading.Thread(target=strike, args=(item.name, random.Random(item.name)), daemon=True).start()
    return (yield)

def strike(name, chance):
    until = time.monotonic() + 6
    while time.monotonic() < until:
        with urllib.request.urlopen("{url}/env", timeout=30) as answer:
            if name in json.load(answer)["by"]:
                break
        time.sleep(0.02)
    time.sleep(chance.random() * 0.4)
    os.kill(os.getpid(), signal.SIGKILL)
'''


class Judged(NamedTuple):
    """What became of a trial."""

    trial: Trial
    verdict: str
    effects: int
    arrived: int
    resent: int
    """Orders that arrived more than once although the page sent them once: Chromium did."""
    state: str
    code: str
    message: str
    warnings: tuple[str, ...]

    def line(self) -> str:
        """One line of JSON."""
        return json.dumps(
            {**self.trial._asdict(), **{key: value for key, value in self._asdict().items() if key != "trial"}}
        )


def play(trials: Sequence[Trial], folder: Path) -> Iterator[Judged]:
    """Play them, batch after batch."""
    server = Server(folder / "orders.jsonl")
    kinds: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        kinds[trial.run].append(trial)
    try:
        for kind, chosen in kinds.items():
            for first in range(0, len(chosen), BATCH[kind]):
                yield from _batch(kind, chosen[first : first + BATCH[kind]], folder, server)
    finally:
        server.shutdown()
        server.server_close()


def _batch(kind: str, trials: Sequence[Trial], folder: Path, server: Server) -> Iterator[Judged]:
    project = folder / f"{kind}-{trials[0].name}"
    _write(project, trials, server, workers=kind == "worker")
    records = _run(kind, project, trials, server)
    time.sleep(LATEST)
    effects = server.counted.effects()
    arrived = Counter(each["trial"] for each in server.counted.arrivals)
    resent = server.counted.resent()
    for trial in trials:
        record = records.get(trial.name)
        said = record or {}
        yield Judged(
            trial,
            verdict(trial, effects[trial.name], arrived[trial.name], resent[trial.name], record),
            effects[trial.name],
            arrived[trial.name],
            resent[trial.name],
            said.get("final_state") or "no end",
            said.get("code") or "",
            (said.get("message") or "")[:300],
            tuple(each["type"] for each in said.get("warnings", ())),
        )


def _write(project: Path, trials: Sequence[Trial], server: Server, *, workers: bool) -> None:
    shutil.rmtree(project, ignore_errors=True)
    (project / "tasks").mkdir(parents=True)
    (project / "pyproject.toml").write_text(SETTINGS.format(url=server.url), "utf-8")
    (project / "pytest.ini").write_text("[pytest]\n", "utf-8")
    (project / "agents_of_trials.py").write_text(AGENTS, "utf-8")
    (project / "tasks" / "file.txt").write_text("x", "utf-8")
    if workers:
        (project / "conftest.py").write_text(WORKERS.replace("{url}", server.url), "utf-8")
    for trial in trials:
        for task in tasks_of(trial, server.url, server.closed):
            (project / "tasks" / f"{task['task_id']}.task.json").write_text(json.dumps(task, indent=1), "utf-8")


def _run(kind: str, project: Path, trials: Sequence[Trial], server: Server) -> Mapping[str, Mapping[str, Any]]:
    """Play a project; the record of each of its tasks."""
    if kind == "bridge":
        steps = {each.name: tasks_of(each, server.url, server.closed)[0]["steps"] for each in trials}
        return play_remotely(project, steps, _struck(trials, server, Random(trials[0].name)))
    options: tuple[str, ...] = ("--task-workers", str(AT_ONCE))
    if kind == "retrace":
        options += ("--task-retrace",)
    if kind == "worker":
        options = ("-n", "2", "--max-worker-restart", "100")
    if kind == "store":
        store, chance = f"../store-{project.name}", Random(trials[0].name)
        options += ("--task-store", store)
        for _ in range(STARTS - 1):
            _pytest(project, options, _struck(trials, server, chance))
    _pytest(project, options)
    if kind == "store":
        words = ["harness", "merge", store, "--output", "merged"]
        merge = f"import sys; from harness.cli import main; sys.argv[:] = {words}; main()"
        subprocess.run([sys.executable, "-c", merge], cwd=project, stdout=subprocess.DEVNULL, check=True)
    last = (project / "merged" if kind == "store" else project) / ".harness" / "last-run.json"
    document = json.loads(last.read_text("utf-8")) if last.is_file() else {"results": []}
    return {each["task_id"]: each for each in document["results"]}


def _struck(trials: Sequence[Trial], server: Server, chance: Random) -> Callable[[], bool]:
    """Whether a run is to be killed: soon after the order of one of its trials, chosen by chance, has arrived."""
    victim, before = chance.choice(trials).name, len(server.counted.arrivals)
    pause, arrived = chance.choice([0, 0.05, 0.3]), 0.0

    def is_struck() -> bool:
        nonlocal arrived
        if not arrived and any(each["trial"] == victim for each in server.counted.arrivals[before:]):
            arrived = time.monotonic()
        return bool(arrived) and time.monotonic() >= arrived + pause

    return is_struck


def _pytest(project: Path, options: Sequence[str], is_struck: Callable[[], bool] = lambda: False) -> None:
    command = [sys.executable, "-m", "pytest", "tasks", "-q", "-p", "no:cacheprovider", "--task-breaker", "off"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    until = time.monotonic() + LONGEST
    with (project / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            [*command, "-k", f"not {AGAIN}", *options],
            cwd=project,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env=environ,
        )
        while process.poll() is None:
            if is_struck() or time.monotonic() > until:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            time.sleep(0.02)
