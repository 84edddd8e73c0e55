"""Trials are judged, kept apart, and summed up."""

from __future__ import annotations

import io
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from jsonschema import Draft202012Validator
from rich.console import Console

from harness.cli.schema import schemas
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.runner.campaign.document import Campaign
from harness.runner.campaign.summary import markdown, show, summed_up
from harness.runner.campaign.trials import Running, Size
from harness.values import replace
from tests.unit.runner.campaign.stage import CRASHED, FAULTS, REFUSED, Runner, made, plan, trials

START = datetime(2026, 1, 1, tzinfo=UTC)
AS_EXPECTED = Runner(refuse=(REFUSED, None), page_crash=(None, CRASHED))


def campaign(folder: Path, runner: Runner, text: str = FAULTS, *, number: int = 2, stop: int | None = None) -> Campaign:
    running = Running(plan(folder, text), made(folder, text), Size(number, number, 5), "run", folder)

    def tell(_: object) -> None:
        if len(running.done) == stop:
            raise KeyboardInterrupt

    with trials(runner) as several, suppress(KeyboardInterrupt):
        running.make(several, tell)
    end = START + timedelta(seconds=9)
    return summed_up(running, START, end, artifacts="errors", interrupted=stop is not None)


def shown(found: Campaign, width: int = 120) -> str:
    stream = io.StringIO()
    show(found, Console(file=stream, width=width))
    return stream.getvalue()


def test_a_campaign_in_which_all_is_as_expected(tmp_path: Path) -> None:
    found = campaign(tmp_path, AS_EXPECTED)
    refuse, crash, slow, other = found.cells
    assert found.unmet == ()
    assert (refuse.classified.share, refuse.recovered.share) == (1, 1)
    assert refuse.recovery is not None
    assert (refuse.recovery.median, refuse.recovery.max) == (2, 2)
    assert (crash.classified.of, crash.recovered.share, crash.outcomes) == (0, 0, {"failed PAGE_CRASHED": 2})
    assert (slow.expected_code, slow.classified.share, slow.recovery) == ("-", 1, None)
    assert other.task_id == "B"
    assert (found.totals.recovery.good, found.totals.recovery.of) == (4, 4)
    assert (found.totals.clean.share, found.totals.faulted.share) == (1, 0.3333)  # of A 4 of 6, of B 0 of 2


def test_tasks_are_not_pooled(tmp_path: Path) -> None:
    """Of two tasks of which one always passes and one never does, half do so twice in a row, and not a sixth."""

    class OneFails(Runner):
        def __call__(self, plan: Plan) -> TaskResult:
            self.endings = {"clean": (None, REFUSED if plan.task_id == "B" else None)}
            return super().__call__(plan)

    clean = campaign(tmp_path, OneFails()).totals.clean
    assert (clean.good, clean.of, clean.tasks) == (2, 4, 2)
    assert (clean.share, clean.pass_hat, clean.interval) == (0.5, (0.5, 0.5), None)


def test_what_is_not_as_expected_is_named_with_its_seed(tmp_path: Path) -> None:
    found = campaign(
        tmp_path, Runner(refuse=(CRASHED, CRASHED), slow=(REFUSED, None), page_crash=(CRASHED, None)), number=1
    )
    assert found.unmet == (
        "A refuse-0 (trial 0, seed 5): code: expected NET_CONNECTION_REFUSED, was PAGE_CRASHED",
        "A refuse-0 (trial 0, seed 5): was not recovered from",
        "A crash (trial 0, seed 5): was recovered from, which was not expected",
        "A slow-2 (trial 0, seed 5): code: expected no failure, was NET_CONNECTION_REFUSED",
        "B crash (trial 0, seed 5): was recovered from, which was not expected",
    )
    pairs = {(each.expected, each.seen): each.count for each in found.confusion}
    assert pairs == {("NET_CONNECTION_REFUSED", "PAGE_CRASHED"): 1, ("-", "NET_CONNECTION_REFUSED"): 1}


def test_a_clean_trial_that_fails_counts(tmp_path: Path) -> None:
    found = campaign(
        tmp_path, Runner(refuse=(REFUSED, None), page_crash=(None, CRASHED), clean=(None, REFUSED)), number=1
    )
    assert "A clean (trial 0, seed 5): the clean trial did not end as the task declares: refused" in found.unmet


def test_a_trial_that_cannot_be_made_does_not_end_the_others(tmp_path: Path) -> None:
    class Broken(Runner):
        def __call__(self, plan: Plan) -> TaskResult:
            if plan.faults and plan.faults[0].kind == "refuse":
                raise OSError("no more processes")
            return super().__call__(plan)

    found = campaign(tmp_path, Broken(page_crash=(None, CRASHED)), number=1)
    assert found.cells[0].trials[0].error == "OSError: no more processes"
    assert found.cells[0].outcomes == {"not tried": 1}
    assert found.cells[2].recovered.share == 1
    assert found.unmet == ("A refuse-0 (trial 0, seed 5): OSError: no more processes",)


def test_what_runs_before_a_task_must_pass(tmp_path: Path) -> None:
    found = campaign(tmp_path, Runner(clean=(None, REFUSED)), number=1)
    (trial,) = found.cells[3].trials
    assert trial.error == "A, which runs before it, did not end as it declares"


def test_a_failure_without_artifacts_is_incomplete(tmp_path: Path) -> None:
    found = campaign(tmp_path, AS_EXPECTED)
    assert (found.totals.artifacts.good, found.totals.artifacts.of) == (0, 4)
    assert found.cells[1].trials[0].missing == ("no directory was written",)


def test_a_gate_decides_alone(tmp_path: Path) -> None:
    worse = Runner(refuse=(CRASHED, CRASHED), page_crash=(None, CRASHED))
    lenient = FAULTS + "gate: {recovery: 0.5, classification: 0.5, clean: 1}\n"
    strict = FAULTS + "gate: {recovery: 0.51, classification: 0.5}\n"
    assert campaign(tmp_path, worse, lenient).unmet == ()
    assert campaign(tmp_path, worse, strict).unmet == ("gate recovery: 0.5 (2 of 4), wanted at least 0.51",)


def test_no_threshold_makes_up_for_a_trial_that_tests_nothing(tmp_path: Path) -> None:
    class Void(Runner):
        def __call__(self, plan: Plan) -> TaskResult:
            kind = plan.faults[0].kind if plan.faults else ""
            if kind == "refuse":
                raise OSError("no more processes")
            result = super().__call__(plan)
            never = tuple(replace(each, count=0, strikes=()) for each in result.faults)
            return replace(result, faults=never) if kind == "slow" else result

    lenient = FAULTS + "gate: {clean: 0}\n"
    assert campaign(tmp_path, Void(page_crash=(CRASHED, None)), lenient, number=1).unmet == (
        "A refuse-0 (trial 0, seed 5): OSError: no more processes",
        "A slow-2 (trial 0, seed 5): the fault never struck",
    )


def test_a_fault_that_failed_fails_the_gate(tmp_path: Path) -> None:
    class Broken(Runner):
        def __call__(self, plan: Plan) -> TaskResult:
            result = super().__call__(plan)
            broken = (replace(each, problem="it is down") for each in result.faults)
            return replace(result, faults=tuple(broken))

    text = "faults: [{tasks: A, kind: page_crash, expect: {recovered: true}}]\ngate: {clean: 1}\n"
    assert campaign(tmp_path, Broken(), text, number=1).unmet == ("A page_crash-0 (trial 0, seed 5): it is down",)


def test_a_gate_needs_something_to_measure(tmp_path: Path) -> None:
    text = "faults: [{tasks: A, kind: page_crash}]\ngate: {recovery: 0.5}\n"
    assert campaign(tmp_path, AS_EXPECTED, text).unmet == ("gate recovery: no trial to measure, wanted at least 0.5",)


def test_an_interrupted_campaign_keeps_what_was_done(tmp_path: Path) -> None:
    found = campaign(tmp_path, AS_EXPECTED, stop=2)
    assert found.interrupted
    assert [len(cell.trials) for cell in found.cells] == [1, 0, 0, 0]
    assert found.cells[1].passed.share is None
    assert shown(found)
    assert markdown(found).startswith("# Campaign small: interrupted after 2 of 12 trials\n")


def test_what_was_not_tried_is_not_called_none(tmp_path: Path) -> None:
    running = Running(plan(tmp_path), made(tmp_path), Size(1, 0, 5), "run", tmp_path)
    with trials(Runner()) as several:
        running.make(several, lambda _: None)
    text = shown(summed_up(running, START, START, artifacts="errors", interrupted=False))
    assert "artifacts: no task failed, nothing to keep\n" in text
    assert "clean trials that pass: not tried\n" in text
    untried = Running(plan(tmp_path), made(tmp_path), Size(1, 1, 5), "run", tmp_path)
    nothing = shown(summed_up(untried, START, START, artifacts="errors", interrupted=True))
    assert "recovered: no such fault struck\nclassified: no fault struck that declares a code\n" in nothing
    assert "struck: none was tried\n" in nothing


def test_a_campaign_knows_whether_it_ends_services(tmp_path: Path) -> None:
    kill = "faults: [{tasks: A, kind: service_killed, service: demo}]\n"
    sizes = (Size(1, 1, 5), "run", tmp_path)
    assert not Running(plan(tmp_path), made(tmp_path), *sizes).ends_services
    assert Running(plan(tmp_path, kill), made(tmp_path, kill), *sizes).ends_services


def test_the_document_is_that_of_its_schema(tmp_path: Path) -> None:
    found = campaign(tmp_path, AS_EXPECTED)
    schema = schemas()["campaign.schema.json"]
    Draft202012Validator(schema).validate(found.model_dump(mode="json"))
    assert Campaign.model_validate_json(found.model_dump_json()) == found


def test_the_table_fits_its_width(tmp_path: Path) -> None:
    found = campaign(tmp_path, Runner(refuse=(CRASHED, CRASHED), page_crash=(None, CRASHED)))
    for width in (60, 100, 160):
        table = shown(found, width).partition("recovered: ")[0]
        assert max(map(len, table.splitlines())) <= width
    assert "NET_CONNECTION_REFUSED was seen as PAGE_CRASHED: 2" in shown(found)
    assert "classified: 50 % (2/4) of the failures whose code is declared" in shown(found)


def test_markdown_for_a_pull_request(tmp_path: Path) -> None:
    text = markdown(campaign(tmp_path, AS_EXPECTED))
    assert text.startswith("# Campaign small: as expected\n")
    assert "| A | refuse-0 | 2/2 | NET_CONNECTION_REFUSED | 2/2 | 2/2 | 2.0 |" in text
