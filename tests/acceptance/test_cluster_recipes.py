"""The recipes for jobs with indices: what they name exists, and a controller like Kubernetes' does each task once."""

from __future__ import annotations

import copy
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.pytest_plugin.options import TASK_OPTIONS
from tests.acceptance.documented import ROOT
from tests.acceptance.preempted import Suite, end, storage_of_s3

FOLDER = ROOT / "examples" / "cluster"
JOB: dict[str, Any] = yaml.safe_load((FOLDER / "kubernetes.yaml").read_text("utf-8"))
BATCH: dict[str, Any] = json.loads((FOLDER / "aws-batch.json").read_text("utf-8"))
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
TASKS = 4


def options(text: str) -> set[str]:
    return set(re.findall(r"--task-[a-z-]+", text))


def test_the_recipes_use_options_that_exist() -> None:
    texts = (" ".join(CONTAINER["command"]), " ".join(BATCH["containerProperties"]["command"]))
    known = {option.name for option in TASK_OPTIONS}
    for text in (*texts, (FOLDER / "slurm.sh").read_text("utf-8")):
        assert {"--task-shard", "--task-store", "--task-durations"} <= options(text) <= known


def test_75_is_repeated_and_failed_tasks_are_not() -> None:
    (failing,) = (rule for rule in JOB["spec"]["podFailurePolicy"]["rules"] if rule["action"] == "FailIndex")
    assert failing["onExitCodes"] == {"containerName": CONTAINER["name"], "operator": "In", "values": [1, 2, 3, 4, 5]}
    rules = BATCH["retryStrategy"]["evaluateOnExit"]
    assert {rule.get("onExitCode"): rule["action"] for rule in rules} == {None: "RETRY", "75": "RETRY", "*": "EXIT"}
    assert {"name": "TASK_SHARDS", "value": str(JOB["spec"]["completions"])} in CONTAINER["env"]


def test_the_script_for_slurm_is_a_script() -> None:
    assert subprocess.run(["bash", "-n", FOLDER / "slurm.sh"], check=False).returncode == 0


@pytest.mark.thorough
def test_the_job_is_valid_for_kubernetes() -> None:
    assert _refusal(JOB) == ""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("spec.completions", "twenty"),
        ("spec.podFailurePolicy.rules", [{"onExitCodes": {"operator": "In", "values": [1]}}]),  # without its action
        ("spec.template.spec.containers", [{"image": "suite:1.0"}]),  # without a name
        ("spec.backoffLimitPerIndexes", 2),  # misspelled
    ],
)
def test_a_broken_job_would_be_refused(place: str, value: object) -> None:
    broken = copy.deepcopy(JOB)
    *parents, last = place.split(".")
    reduce(getitem, parents, broken)[last] = value
    assert last in _refusal(broken)


def _refusal(job: dict[str, Any]) -> str:
    """Where the validator finds what it refuses, and why; empty if it accepts the job."""
    import kubernetes_validate

    try:
        kubernetes_validate.validate(job, "1.37", strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return ""


@dataclass
class Controller:
    """Does what Kubernetes does with the recipe, on this machine and with fewer parts, one pod after the other."""

    suite: Suite
    store: str
    parts: int
    ended: dict[int, int] = field(default_factory=dict)
    """Index -> the exit status with which it is over."""

    def run(self, kill: random.Random, deaths: int) -> None:
        """Run all indices to their ends; of each, the first `deaths` pods are taken away at a random moment."""
        for index in range(self.parts):
            failures = 0
            while index not in self.ended:
                left = deaths - self.pods_of(index)
                status, disrupted = self._pod(index, kill if left > 0 else None)
                failures += self._counts(index, status, disrupted=disrupted)
                assert failures <= JOB["spec"]["backoffLimitPerIndex"], f"index {index} has failed too often"

    def pods_of(self, index: int) -> int:
        return self._pods.get(index, 0)

    _pods: dict[int, int] = field(default_factory=dict)

    def _pod(self, index: int, kill: random.Random | None) -> tuple[int, bool]:
        """A pod on a machine of its own: its disk is empty. Returns its exit status, and whether it was taken away."""
        self._pods[index] = self.pods_of(index) + 1
        for name in ("errors", ".harness"):
            shutil.rmtree(self.suite.folder / name, ignore_errors=True)
        environ = {**os.environ, "TASK_SHARDS": str(self.parts), "JOB_COMPLETION_INDEX": str(index)}
        places = {"--task-store": self.store, "--task-workers": "2"}
        words = (word.partition("=") for word in CONTAINER["command"][2:])
        arguments = [f"{name}={places.get(name, value)}" for name, _, value in words]
        process = self.suite.start(*arguments, environ=environ)
        if kill is None:
            status, output = end(process)
            assert status in (0, 1, 75), output
            return status, False
        time.sleep(kill.uniform(0.8, 4.5))
        disrupted = process.poll() is None
        if disrupted and kill.random() < 0.5:
            process.send_signal(signal.SIGTERM)
            return end(process)[0], True
        if disrupted:
            os.killpg(process.pid, signal.SIGKILL)
        return end(process)[0], disrupted

    def _counts(self, index: int, status: int, *, disrupted: bool) -> int:
        """Apply `podFailurePolicy`, the first rule that fits; returns whether it counts for `backoffLimitPerIndex`."""
        if status == 0:
            self.ended[index] = status
            return 0
        for rule in JOB["spec"]["podFailurePolicy"]["rules"]:
            if "onPodConditions" in rule and disrupted:
                return 0
            if status in rule.get("onExitCodes", {}).get("values", ()):
                self.ended[index] = status
                return 0
        return 1


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Suite]:
    made = Suite(tmp_path / "project", TASKS)
    seconds = {f"T-{number}": 1.0 for number in range(TASKS)}
    (made.folder / "durations.json").write_text(json.dumps({"seconds": seconds}), "utf-8")
    yield made
    made.close()


def play(suite: Suite, store: str, merged: Path, seed: int, deaths: int) -> None:
    """Play the job to its end: each task has one report, and no order is placed twice."""
    controller = Controller(suite, store, 2)
    controller.run(random.Random(seed), deaths)
    assert set(controller.ended) == {0, 1}
    found, said = suite.merge(store, merged, "--strict")
    assert said == ""
    assert sorted(each.task_id for each in found.executions) == sorted(suite.ids)
    written = [f"i{number}" for number in range(0, TASKS, 2)]
    placed = suite.placed()
    assert set(placed.values()) <= {1}
    unplaced = set(written) - set(placed)
    codes = {each.task_id: each.record.code for each in found.executions if each.record and each.outcome == "failed"}
    assert {f"T-{item[1:]}" for item in unplaced} <= set(codes), (placed, codes)
    assert set(codes.values()) <= {"WORKER_CRASHED", "INTERRUPTED"}
    assert any(status == 1 for status in controller.ended.values()) == bool(codes)


@pytest.mark.thorough
def test_the_controller_ends_with_each_task_once(suite: Suite, tmp_path: Path) -> None:
    play(suite, str(tmp_path / "store"), tmp_path / "merged", seed=1, deaths=1)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_taken_away(suite: Suite, tmp_path: Path, seed: int) -> None:
    play(suite, str(tmp_path / "store"), tmp_path / "merged", seed=seed, deaths=3)


@pytest.mark.thorough
def test_a_store_of_s3(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with storage_of_s3(monkeypatch) as bucket:
        play(suite, f"{bucket}/run-42", tmp_path / "merged", seed=7, deaths=1)
