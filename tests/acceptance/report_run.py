"""A small pytest run whose items put fabricated results into Allure, as the plugin does (its conftest.py)."""

CONFTEST = """
from harness.values import replace
from pathlib import Path

import pytest

from harness.recovery.failure import Failure, Passed
from harness.model.ports import Evidence, Item, Snapshot
from harness.model.record import StepRecord
from harness.recovery import Retry
from harness.reporting.allure.labels import entitle, labels
from harness.reporting.allure.sink import AllureSink
from harness.reporting.archive import DirectoryArchive

from harness.reporting.redaction import Redactor
from tests.unit.reporting import sample
from tests.unit.reporting.sample import failure_text
from tests.unit.reporting.test_artifacts import evidence


@pytest.fixture
def archive():
    return DirectoryArchive(Path("errors"), "run-1", Redactor(), 5)


def keep(archive, plan, result, trace):
    found = evidence(archive.scratch(plan))
    (found.folder / "trace.zip").write_bytes(Path(trace).read_bytes())
    (found.folder / "screenshot.png").write_bytes(Path("page.png").read_bytes())
    folder = archive.keep(plan, result, result.error, found, Snapshot({"cart": 1}, {"env": {"order": None}}))
    return replace(result, artifacts=folder)
"""

TESTS = """
import pytest
from conftest import *

B1 = sample.plan(spec={"family": "B", "priority": 1})
C2 = sample.plan(key="C2", task_id="C2-2025-002", spec={"family": "C", "priority": 2})
D4 = sample.plan(key="D4", task_id="D4-2025-003", spec={"family": "D"})


def marked(plan):
    def decorate(function):
        entitle(function, plan.spec)
        for mark in labels(plan.spec):
            function = mark(function)
        return function
    return decorate


@marked(B1)
def test_b1(archive):
    result = keep(archive, B1, sample.failed(B1, attempts=2), "trace.zip")
    AllureSink().finish(*sample.told(B1, result), "chromium")
    raise RuntimeError(failure_text(B1, result))


@marked(C2)
def test_c2(archive):
    result = keep(archive, C2, sample.failed(C2, sample.WRONG_STATE), "trace.zip")
    AllureSink().finish(*sample.told(C2, result), "chromium")
    raise AssertionError(failure_text(C2, result))


@marked(D4)
def test_d4():
    step = D4.steps[0]
    refused = Failure("NET_CONNECTION_REFUSED", "connection refused")
    tries = (sample.attempt(step, 0, 0.5, refused), sample.attempt(step, 2.5, 0.5, Passed(), Retry(2.0)))
    rest = sample.passed_records(D4, 6)[1:]
    AllureSink().finish(*sample.told(D4, sample.completed(D4, [StepRecord(0, step, tries), *rest])), "chromium")
"""
