"""`harness eval` with a real browser and real sites: agents compared, killed, gone on with, replayed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.conftest import Project
from tests.acceptance.model_server import ModelServer, model_server
from tests.acceptance.test_recordings import AGENT, KEY, without_network
from tests.acceptance.test_recordings import SETTINGS as MODELS
from tests.acceptance.warm import Forked, harness, start_harness, warm

AGENTS = """
from pathlib import Path

BEGUN = Path(__file__).with_name("begun.txt")


class Sure:
    def __init__(self, odd=True):
        self.odd = odd

    def propose(self, plan, history, observe):
        if not history:
            with BEGUN.open("a") as file:
                file.write(f"{plan.key}\\n")
        if history or (plan.spec.seed % 2 and not self.odd):
            return None
        return {"act": "open", "url": "http://shop.local/"}
"""
OF_AGENTS = """
[tool.harness.agents.sure]
python = "walkers:Sure"

[tool.harness.agents.unsure]
agent = "sure"
options = { odd = false }
"""
ROOT = Path(__file__).parents[2]
TIMES = ("started", "seconds", "thinking", "acting", "waiting")
CHECK = {"steps": [], "expect_timeout": 0, "success_criteria": ["exists('#search-box')"], "agent": "sure"}


@pytest.fixture
def walks(project: Project) -> Project:
    """Two tasks, one agent that does them, and one that does so only with an even seed."""
    (project.path / "walkers.py").write_text(AGENTS, "utf-8")
    _add(project, OF_AGENTS)
    project.task("A", **CHECK)
    project.task("B", **CHECK)
    return project


def _add(project: Project, text: str) -> None:
    file = project.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8") + text, "utf-8")


def evaluate(project: Project, *args: str, agents: str = "sure,unsure") -> subprocess.CompletedProcess[str]:
    return harness("eval", ".", "--agents", agents, *args, cwd=project.path, timeout=180, COLUMNS="110")


def document(project: Project, folder: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((project.path / folder / "evaluation.json").read_text("utf-8"))
    return found


def trials(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of trials so far."""
    file = folder / "trials.jsonl"
    text = file.read_text("utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def timeless(value: Any) -> Any:
    """The document without times."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def test_two_agents_are_compared_and_judged_by_a_gate(walks: Project) -> None:
    (walks.path / "ci.gate.yaml").write_text("min_pass: 0.9\nmin_pass_k: {k: 2, share: 0.5}\nmax_cost: 1\n", "utf-8")
    args = ("--trials", "2", "--gate", "ci.gate.yaml", "--output", "out", "--summary", "job.md", "--task-workers", "2")
    (walks.path / "job.md").write_text("before\n", "utf-8")
    done = evaluate(walks, *args)
    assert done.returncode == 1, done.stdout + done.stderr
    found = document(walks)
    rates = {each["agent"]: each["rate"] for each in found["cells"]}
    assert (rates["sure"]["share"], rates["sure"]["pass_hat"]) == (1, [1, 1])
    assert (rates["unsure"]["share"], rates["unsure"]["pass_hat"]) == (0.5, [0.5, 0])
    assert [(each["pairs"], each["only_first"], each["better"]) for each in found["comparisons"]] == [(4, 2, "open")]
    assert {(each["key"], each["agent"]): each["met"] for each in found["gate"]} == {
        ("min_pass", "sure"): True, ("min_pass_k", "sure"): True, ("max_cost", "sure"): True,
        ("min_pass", "unsure"): False, ("min_pass_k", "unsure"): False, ("max_cost", "unsure"): True,
    }  # fmt: skip
    (cause,) = found["causes"]
    assert (cause["code"], cause["counts"]) == ("CRITERIA_UNMET", {"sure": 0, "unsure": 2})
    assert (walks.path / "out" / cause["artifacts"] / "error_report.json").is_file()
    assert "gate min_pass, unsure: NOT met: 50 % passed" in done.stdout
    assert "8/8 " in done.stderr
    assert (
        (walks.path / "job.md").read_text("utf-8").startswith("before\n## Evaluation of sure, unsure: gate NOT passed")
    )
    page = (walks.path / "out/index.html").read_text("utf-8")
    assert "<svg" in page
    assert '<a href="trials/A.html#sure--clean">2/2</a>' in page
    trials_of_a = (walks.path / "out/trials/A.html").read_text("utf-8")
    assert trials_of_a.count("sure: open http://shop.local/ -&gt; passed") == 3, "also of trials that passed"
    assert len(list((walks.path / "out/trajectories").glob("*/trajectory.jsonl"))) == 8
    assert not (walks.path / "errors").exists()
    named = warm().run("pytest", "ci.gate.yaml", cwd=walks.path)
    assert "ci.gate.yaml is the gate of an evaluation, not a task: harness eval TASKS --gate" in named.stdout
    spans = sorted((datetime.fromisoformat(each["started"]), each["seconds"]) for each in trials(walks.path / "out"))
    beside = [later < began + timedelta(seconds=lasted) for (began, lasted), (later, _) in pairwise(spans)]
    assert any(beside), spans

    made = trials(walks.path / "out")
    assert [each["agent"] for each in made] != sorted(each["agent"] for each in made)
    again = evaluate(walks, *args)
    assert (again.returncode, "out has an evaluation: go on with it (--resume)" in again.stderr) == (2, True)


def started(project: Project, *args: str, until: str) -> Forked:
    """The command as a process, when it has told a line that begins so: each trial is told when it is on the disk."""
    words = ("eval", ".", "--agents", "sure,unsure", *args)
    process = start_harness(*words, cwd=project.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if line.lstrip().startswith(until):
            break
    return process


@pytest.mark.thorough
def test_ctrl_c_leaves_the_results_so_far(walks: Project) -> None:
    process = started(walks, "--trials", "20", "--output", "out", until="3/80")
    for _ in range(5):  # by who is impatient
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert "of 80 trials: go on with --resume" in told
    found = document(walks)
    assert 3 <= found["made"] < 80
    assert found["made"] == len(trials(walks.path / "out"))
    assert found["gate"] == []


def test_an_evaluation_that_was_killed_goes_on_and_makes_no_trial_twice(walks: Project) -> None:
    args = ("--trials", "2", "--output", "out")
    process = started(walks, *args, until="3/8")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    before = trials(walks.path / "out")
    assert 3 <= len(before) < 8

    _add(walks, "\n[tool.harness.agents.third]\nagent = 'sure'\n")
    done = evaluate(walks, *args, "--resume")
    assert done.returncode == 2
    assert "out cannot go on, because its trials would not be comparable:" in done.stderr
    assert "\n  settings agents.third: is new\n" in done.stderr

    file = walks.path / "pyproject.toml"
    file.write_text(file.read_text("utf-8").partition("\n[tool.harness.agents.third]")[0], "utf-8")
    done = evaluate(walks, *args, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"going on after {len(before)} of 8 trials" in done.stderr
    after = trials(walks.path / "out")
    assert after[: len(before)] == before
    places = Counter((each["task_id"], each["agent"], each["number"]) for each in after)
    assert (len(places), set(places.values())) == (8, {1})
    begun = Counter((walks.path / "begun.txt").read_text("utf-8").split())
    assert len(begun) == 8
    assert sum(begun.values()) <= 9  # the one that was killed had no result
    assert document(walks)["made"] == 8


@pytest.mark.thorough
def test_an_evaluation_does_not_go_on_with_another_browser(walks: Project) -> None:
    process = started(walks, "--output", "out", until="2/20")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    before = trials(walks.path / "out")
    file = walks.path / "out/lock.json"
    lock = json.loads(file.read_text("utf-8"))
    assert lock["depends_on"]["browser"].startswith("Chromium ")
    lock["depends_on"]["browser"] = "Chromium 1.2"
    file.write_text(json.dumps(lock), "utf-8")
    done = evaluate(walks, "--output", "out", "--resume")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "\n  browser: was Chromium 1.2, is Chromium " in done.stderr
    assert "Traceback" not in done.stderr
    assert trials(walks.path / "out") == before


# With models.


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture
def buyers(project: Project, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A task, and two agents that ask a model once in it."""
    monkeypatch.setenv("MODEL_KEY", KEY)
    monkeypatch.delenv("CI", raising=False)
    (project.path / "buyer.py").write_text(AGENT, "utf-8")
    models = MODELS.format(base_url=server.base_url).replace("initial = 0.05", "retries = 0")
    _add(project, models + 'retry = { retries = 0 }\n\n[tool.harness.agents.other-buyer]\nagent = "buyer"\n')
    checks = ["json('env', 'shop.cart.WM-5521.qty') == 1"]
    spec = {"task_id": "ONE", "goal": "Buy a mouse", "agent": "buyer", "success_criteria": checks}
    (project.path / "ONE.task.yaml").write_text(yaml.safe_dump(spec), "utf-8")
    return project


@pytest.mark.thorough  # tests/unit/runner/evaluation/test_void.py and test_gate.py
def test_a_provider_that_dies_in_the_middle_changes_no_rate(buyers: Project, server: ModelServer) -> None:
    server.dies_after = 2
    done = evaluate(buyers, "--trials", "2", "--output", "out", agents="buyer,other-buyer")
    assert done.returncode == 3, done.stdout + done.stderr
    found = document(buyers)
    assert [(each["rate"]["share"], each["trials"], each["void"]) for each in found["cells"]] == [(1, 2, 1), (1, 2, 1)]
    assert [(each["worst"], each["best"]) for each in found["cells"]] == [(0.5, 1), (0.5, 1)]
    assert {each["code"] for each in found["causes"]} <= {"MODEL_UNAVAILABLE"}
    assert found["again"] == 2
    assert "no verdict: buyer, clean: 1 of 2 trials are void (50%, at most 5% may be)" in done.stdout


@pytest.mark.thorough
def test_two_replays_with_one_seed_are_equal_but_for_times(buyers: Project, server: ModelServer) -> None:
    args = ("--trials", "2", "--seed", "5")
    agents = "buyer,other-buyer"
    recorded = evaluate(buyers, *args, "--models", "record", "--output", "first", agents=agents)
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    without_network(buyers)
    asked = len(server.asked)
    for name in ("one", "two"):
        done = evaluate(buyers, *args, "--models", "replay", "--output", name, agents=agents)
        assert done.returncode == 0, done.stdout + done.stderr
    assert len(server.asked) == asked
    assert timeless(document(buyers, "one")) == timeless(document(buyers, "two"))
    lines = [json.dumps(timeless(trials(buyers.path / name))) for name in ("one", "two")]
    assert lines[0] == lines[1]
    assert document(buyers, "one")["totals"][0]["models"]["replayed_calls"] == 2
    assert (buyers.path / "one/lock.json").read_bytes() == (buyers.path / "two/lock.json").read_bytes()
    assert "recording ONE/buyer.jsonl" in (buyers.path / "one/lock.json").read_text("utf-8")


@pytest.mark.thorough
def test_the_two_brains_of_the_documentation(tmp_path: Path) -> None:
    """The command of docs/evaluation.md, with one trial: on renamed pages only the model does the tasks."""
    folder = "examples/evaluation"
    args = (folder, "--agents", "scripted,builder", "--faults", f"{folder}/renamed.faults.yaml", "--trials", "1")
    out = ("--seed", "1", "--models", "live", "--output", str(tmp_path / "out"))
    done = harness("eval", *args, *out, cwd=ROOT, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/evaluation.json").read_text("utf-8"))
    rates = {(each["agent"], each["fault"]): each["rate"]["share"] for each in found["cells"]}
    assert rates == {
        ("scripted", None): 1, ("builder", None): 1, ("scripted", "renamed"): 0, ("builder", "renamed"): 1,
    }  # fmt: skip
    assert [each["better"] for each in found["comparisons"]] == ["open", "second"]
    assert all(each["rate"]["interval"] for each in found["cells"])
