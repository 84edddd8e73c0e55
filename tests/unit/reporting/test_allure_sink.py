"""A finished task in a running Allure test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import allure_commons
import pytest
from allure_commons import model2
from allure_commons.logger import AllureMemoryLogger
from allure_commons.reporter import AllureReporter
from allure_commons.utils import md5

from harness.model.record import MetFault, MetRoute, RoutedRequest, StepRecord
from harness.recovery import Retry
from harness.recovery.failure import Failure, Passed
from harness.reporting.allure.labels import running_test
from harness.reporting.allure.sink import AllureSink
from harness.reporting.archive import DirectoryArchive
from harness.reporting.redaction import MARK, Redactor
from harness.spec.faults import BrowserKill, Dns
from harness.spec.routes import Route
from harness.values import replace
from tests.unit.reporting import sample
from tests.unit.reporting.test_artifacts import evidence, keep

EPOCH = round(sample.START.timestamp() * 1000)


class Listener:
    """As allure-pytest's: it holds the reporter."""

    def __init__(self) -> None:
        self.allure_logger = AllureReporter()


class Allure:
    """A running test, and what was attached."""

    def __init__(self) -> None:
        self.listener, self.files = Listener(), AllureMemoryLogger()
        self.test = model2.TestResult(name="T", uuid="u", start=1, stop=2)
        self.listener.allure_logger.schedule_test("u", self.test)

    def attached(self, name: str) -> str:
        source = next(a.source for a in self.test.attachments if a.name == name)
        body = self.files.attachments[source]
        return Path(body).read_text() if Path(str(body)).is_file() else str(body)


@pytest.fixture
def allure(monkeypatch: pytest.MonkeyPatch) -> Iterator[Allure]:
    others = [p for p in allure_commons.plugin_manager.get_plugins() if hasattr(p, "allure_logger")]
    others += [p for p in allure_commons.plugin_manager.get_plugins() if hasattr(p, "report_result")]
    for other in others:
        allure_commons.plugin_manager.unregister(other)
    running = Allure()
    for plugin in (running.listener, running.files):
        allure_commons.plugin_manager.register(plugin)
    yield running
    for plugin in (running.listener, running.files):
        allure_commons.plugin_manager.unregister(plugin)
    for other in others:
        allure_commons.plugin_manager.register(other)


def test_steps_have_their_real_times(allure: Allure) -> None:
    plan = sample.plan()
    AllureSink().finish(*sample.told(plan, sample.failed(plan)))
    steps = allure.test.steps
    assert [step.name for step in steps][:3] == [
        "0. open http://shop.local/", "1. click #search-box", "2. type #search-box = 'wireless mouse'",
    ]  # fmt: skip
    assert [(step.start - EPOCH, step.stop - EPOCH) for step in steps] == [
        (0, 400), (500, 900), (1000, 1400), (1500, 1900), (2000, 32000),
    ]  # fmt: skip
    assert [step.status for step in steps] == ["passed"] * 4 + ["broken"]
    assert steps[4].statusDetails.message == sample.TIMEOUT.message
    assert steps[0].parameters[0].value == "http://shop.local/"


def test_attempts_are_steps_below(allure: Allure) -> None:
    plan = sample.plan()
    step = plan.steps[0]
    refused = Failure("NET_CONNECTION_REFUSED", "refused")
    tries = (sample.attempt(step, 0, 0.5, refused), sample.attempt(step, 2.5, 0.5, Passed(), Retry(2)))
    AllureSink().finish(*sample.told(plan, sample.completed(plan, [StepRecord(0, step, tries)])))
    (shown,) = allure.test.steps
    assert shown.name.endswith("(2 attempts)")
    assert (shown.status, shown.start - EPOCH, shown.stop - EPOCH) == ("passed", 0, 3000)
    assert [(s.name, s.status, s.start - EPOCH) for s in shown.steps] == [
        ("ATTEMPT 1: FAILED - refused", "broken", 0), ("RETRY (after 2s): SUCCESS", "passed", 2500),
    ]  # fmt: skip
    assert "network_error_recovered" in allure.attached("warnings")


def test_tasks_inside_a_task_are_steps_with_their_own_below(allure: Allure) -> None:
    plan, other = sample.plan(), sample.plan("SETUP", task_id="SETUP")
    inner, instead = sample.completed(other), replace(sample.completed(other), task_id="OTHER")
    AllureSink().finish(*sample.told(plan, replace(sample.failed(plan), inner=(inner,), alternative=instead)))
    first, *_, last = allure.test.steps
    assert (first.name, last.name) == ("repair task SETUP: completed", "alternative task OTHER: completed")
    assert [len(each.steps) for each in (first, last)] == [len(other.steps)] * 2


def test_preconditions_criteria_and_skipped_steps(allure: Allure) -> None:
    plan = sample.plan()
    check = sample.step(act="assert", expr="mem('cart') == 1")
    bad = Failure("CRITERIA_UNMET", "1 != 2")
    history = [
        StepRecord(-1, check, (sample.attempt(check, 0, 0.1),)),
        StepRecord(0, plan.steps[1], (sample.attempt(plan.steps[1], 0, 0.1, sample.TIMEOUT),), skipped=True),
        StepRecord(6, check, (sample.attempt(check, 1, 0.1, bad),)),
    ]
    AllureSink().finish(*sample.told(plan, sample.completed(plan, history)))
    assert [(s.name, s.status) for s in allure.test.steps] == [
        ("precondition: mem('cart') == 1", "passed"),
        ("0. click #search-box", "skipped"),
        ("success criterion: mem('cart') == 1", "failed"),
    ]


def test_a_failure_shows_its_evidence(allure: Allure, tmp_path: Path) -> None:
    plan = sample.plan()
    result = sample.failed(plan, sample.WRONG_STATE)
    archive = DirectoryArchive(tmp_path, "run", Redactor(), 1)
    folder = keep(archive, plan, result=result, evidence=evidence(archive.scratch(plan)))
    AllureSink().finish(*sample.told(plan, replace(result, artifacts=folder)))
    types = {a.name: a.type for a in allure.test.attachments}
    assert types["Playwright trace"] == "application/vnd.allure.playwright-trace"
    assert types["network (HAR)"] == "application/json"
    assert {
        "error report",
        "screenshot",
        "DOM snapshot",
        "memory",
        "environment",
        "console",
        "step trace",
        "invoice.txt",
    } <= set(types)
    assert allure.attached("error report").startswith("{\n  ")
    failing = allure.test.steps[-1]
    assert failing.status == "failed"
    assert [a.name for a in failing.attachments] == [
        "expected", "actual", "difference", "screenshot",
    ]  # fmt: skip
    sources = [a.source for a in (*failing.attachments, *allure.test.attachments)]
    assert len(sources) == len(set(sources))


def test_the_trace_of_a_second_run_is_there_too(allure: Allure, tmp_path: Path) -> None:
    (tmp_path / "trace.zip").write_bytes(b"PK")
    (tmp_path / "trace_full.zip").write_bytes(b"PK")
    plan = sample.plan()
    AllureSink().finish(*sample.told(plan, replace(sample.failed(plan), artifacts=tmp_path)))
    traces = [each.name for each in allure.test.attachments if each.type == "application/vnd.allure.playwright-trace"]
    assert traces == ["Playwright trace", "Playwright trace of the second run, in full"]


def test_what_explains_most_comes_first(allure: Allure, tmp_path: Path) -> None:
    (tmp_path / "network_logs.har").write_text(json.dumps({"log": {"entries": [{"response": {"status": 503}}]}}))
    (tmp_path / "dom_snapshot.html").write_text("<h1>Shop</h1>")
    (tmp_path / "screenshot.png").write_bytes(b"\x89PNG")
    plan = sample.plan()
    AllureSink().finish(*sample.told(plan, sample.failed(plan, artifacts=tmp_path)))
    names = [attachment.name for attachment in allure.test.attachments]
    assert names[:4] == ["attempts", "page at the failure", "requests", "screenshot"]


def test_a_har_that_is_none_breaks_nothing(allure: Allure, tmp_path: Path) -> None:
    (tmp_path / "network_logs.har").write_text('{"log": {"entr')
    plan = sample.plan()
    AllureSink().finish(*sample.told(plan, sample.failed(plan, artifacts=tmp_path)))
    assert [attachment.name for attachment in allure.test.attachments] == ["attempts", "network (HAR)"]


def test_the_file_of_a_task_is_a_link_in_ci(allure: Allure, tmp_path: Path) -> None:
    environ = {"GITHUB_SERVER_URL": "https://git.test", "GITHUB_REPOSITORY": "a/b", "GITHUB_SHA": "c0ffee"}
    plan = sample.plan(folder=tmp_path / "tasks")
    AllureSink(environ={**environ, "GITHUB_WORKSPACE": str(tmp_path)}).finish(
        *sample.told(plan, sample.completed(plan))
    )
    (link,) = allure.test.links
    assert (link.name, link.url) == ("b1.task.yaml", "https://git.test/a/b/blob/c0ffee/tasks/b1.task.yaml")


def test_a_task_that_was_interrupted_is_the_same_test_as_ever(allure: Allure) -> None:
    allure.test.fullName, allure.test.titlePath, allure.test.testCaseId = (
        "tasks.b1.task#B1",
        ["tasks", "b1.task.yaml"],
        "id",
    )
    plan = sample.plan(spec={"family": "B"})
    AllureSink().finish(*sample.told(plan, sample.failed(plan, Failure("INTERRUPTED", "The run was interrupted"))))
    assert (allure.test.status, allure.test.historyId) == ("broken", "id")
    labels = {label.name: label.value for label in allure.test.labels}
    assert (labels["suite"], labels["parentSuite"], labels["feature"]) == ("b1.task", "tasks", "family B")
    assert "INTERRUPTED" in allure.test.statusDetails.message


def test_a_task_that_was_lost_with_its_process_has_a_result(allure: Allure) -> None:
    plan = sample.plan(spec={"family": "B", "tags": ("smoke",)})
    lost = sample.failed(plan, Failure("WORKER_CRASHED", "The process that ran the task died"), index=-1)
    AllureSink().write_lost("tasks/b1.task.yaml::B1-2025-001", *sample.told(plan, lost))
    (found,) = allure.files.test_cases
    assert found["fullName"] == "tasks.b1.task#B1-2025-001"
    assert found["historyId"] == found["testCaseId"] == md5("tasks.b1.task#B1-2025-001")
    assert (found["name"], found["status"]) == ("B1-2025-001: buy a mouse", "broken")
    assert {"name": "tag", "value": "smoke"} in found["labels"]
    assert found["statusDetails"]["message"].startswith("B1-2025-001 failed: WORKER_CRASHED")


def test_labels_and_excluded_parameters(allure: Allure) -> None:
    plan = sample.plan(spec={"seed": 7})
    result = sample.failed(plan)
    result = replace(result, error=sample.report(plan, result, expected=True))
    AllureSink().finish(*sample.told(plan, result), "chromium 140")
    assert {label.name: label.value for label in allure.test.labels} == {
        "error_type": "timeout_step", "code": "STEP_TIMEOUT", "suspect": "site", "expected": "true",
        "epic": "shop.local",
    }  # fmt: skip
    found = {p.name: (p.value, p.excluded) for p in allure.test.parameters}
    assert found == {"seed": ("7", True), "browser": ("chromium 140", True), "final_state": ("failed", True)}


def test_a_failure_that_follows_a_fault_is_labelled_and_the_fault_is_a_step_at_its_time(allure: Allure) -> None:
    plan = sample.plan()
    gone = BrowserKill(id="nightly/gone").with_source("n.faults.yaml:5")
    met = (MetFault("nightly/gone", gone, 1, (3.0,), steps=(4,)), MetFault("dns-1", Dns(url="*"), why="nobody asked"))
    AllureSink().finish(*sample.told(plan, replace(sample.failed(plan), faults=met)), "chromium 140")
    labels = [(label.name, label.value) for label in allure.test.labels]
    assert labels[2] == ("suspect", "task")
    assert labels[4:] == [("fault", "nightly/gone"), ("after_fault", "true"), ("tag", "after fault")]
    told = "nightly/gone (browser_kill at step 0, n.faults.yaml:5): struck once in step 4 at 3.0 s"
    assert [step.name for step in allure.test.steps][-1] == f"injected fault {told}"
    assert allure.test.steps[-1].start == EPOCH + 3000
    assert allure.attached("faults") == f"{told}\ndns * from step 0 on: never struck: nobody asked"


def test_what_routes_answered_is_attached(allure: Allure) -> None:
    plan = sample.plan()
    route = Route.model_validate({"url": "*/api", "status": 201}).with_source("t.task.yaml:5")
    answered = (RoutedRequest(2, "POST", "http://x/api", 201), RoutedRequest(3, "GET", "http://x/api", 201))
    met = (MetRoute(0, route, 2, answered), MetRoute(1, route))
    AllureSink().finish(*sample.told(plan, replace(sample.completed(plan), routes=met)), "chromium 140")
    assert allure.attached("routes").splitlines() == [
        "*/api -> 201 (t.task.yaml:5): answered 2 times, first in step 2: POST http://x/api",
        "  step 2: POST http://x/api -> 201",
        "  step 3: GET http://x/api -> 201",
        "*/api -> 201 (t.task.yaml:5): answered no request: none matched",
    ]


def test_a_step_is_named_by_what_was_done(allure: Allure) -> None:
    plan = sample.plan()
    declared, real = (sample.step(act="click", selector=f"#o-{name}") for name in ("${memory.id}", "7"))
    AllureSink().finish(
        *sample.told(plan, sample.completed(plan, [StepRecord(0, declared, (sample.attempt(real, 0, 0.1),))]))
    )
    assert allure.test.steps[0].name == "0. click #o-7"


def test_files_of_a_passing_task(allure: Allure, tmp_path: Path) -> None:
    picture = tmp_path / "cart.png"
    picture.write_bytes(b"\x89PNG")
    plan = sample.plan()
    AllureSink(kept=lambda _key: [picture]).finish(*sample.told(plan, sample.completed(plan)))
    assert [(a.name, a.type) for a in allure.test.attachments] == [("cart.png", "image/png")]


def test_no_secrets(allure: Allure) -> None:
    steps = [{"act": "type", "selector": "#a", "value": "env-secret"}]
    plan = sample.plan(steps=steps, secrets=("env-secret",))
    sink = AllureSink()
    sink.finish(*sample.told(plan, sample.failed(plan, Failure("ACTION_FAILED", "env-secret"), 0, attempts=2)))
    shown = [allure.test.steps[0], *allure.test.steps[0].steps]
    assert all("env-secret" not in s.name and s.statusDetails.message == MARK for s in shown)


def test_an_interrupted_test_is_broken_though_its_setup_passed(allure: Allure) -> None:
    allure.test.status = "passed"
    plan = sample.plan(secrets=("env-secret",))
    failure = Failure("INTERRUPTED", "The run was interrupted env-secret")
    result = replace(sample.failed(plan, failure), final_state="aborted")
    AllureSink().finish(*sample.told(plan, result))
    assert allure.test.status == "broken"
    lines = allure.test.statusDetails.message.splitlines()
    assert lines[0] == "B1-2025-001 aborted: INTERRUPTED at step 4 (of 0-5): wait .product-grid .product-item"
    assert lines[1] == f"The run was interrupted {MARK}"
    assert "> " in allure.test.statusDetails.trace
    assert "env-secret" not in allure.test.statusDetails.trace


def test_any_other_status_is_pytests_business(allure: Allure) -> None:
    allure.test.status = "passed"
    plan = sample.plan()
    AllureSink().finish(*sample.told(plan, sample.failed(plan)))
    assert allure.test.status == "passed"


def test_evidence_is_not_at_a_criterion_that_holds(allure: Allure) -> None:
    plan = sample.plan()
    check = sample.step(act="assert", expr="mem('cart') == 1")
    failure = Failure("INCOMPLETE", "no receipt", assertion=sample.WRONG_STATE.assertion)
    history = (*sample.passed_records(plan, 6), StepRecord(6, check, (sample.attempt(check, 9, 0.1),)))
    AllureSink().finish(*sample.told(plan, replace(sample.failed(plan, failure, 6), history=history)))
    assert [(step.status, step.attachments) for step in allure.test.steps] == [("passed", [])] * 7


def test_nothing_happens_without_alluredir() -> None:
    others = [p for p in allure_commons.plugin_manager.get_plugins() if hasattr(p, "allure_logger")]
    for other in others:
        allure_commons.plugin_manager.unregister(other)
    try:
        plan = sample.plan()
        AllureSink(kept=lambda _key: pytest.fail("looked for files")).finish(*sample.told(plan, sample.completed(plan)))
        assert running_test() is None
    finally:
        for other in others:
            allure_commons.plugin_manager.register(other)
