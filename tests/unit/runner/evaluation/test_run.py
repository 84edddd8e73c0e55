"""An evaluation under way: what was made stays, and only the rest is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.model.evaluation import EvaluationTrial
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.recovery.failure import Failure
from harness.runner.evaluation.run import EvaluationRun, TrialJournal, opened
from harness.runner.evaluation.trials import EvaluationSize
from tests.unit.runner.campaign.stage import Runner, trials
from tests.unit.runner.evaluation.test_schedule import attacks, judging


def made(evaluation: EvaluationRun, runner: Runner, folder: Path, journal: TrialJournal) -> list[EvaluationTrial]:
    """The trials that are made now."""
    several: list[EvaluationTrial] = []
    with trials(runner) as there:
        evaluation.make(there, judging(folder), journal, several.append)
    return several


class Interrupted(Runner):
    """Ctrl-C comes while it runs its third task."""

    def __call__(self, plan: Plan) -> TaskResult:
        self.endings = {"clean": (None, Failure("INTERRUPTED", "Ctrl-C") if len(self.plans) >= 2 else None)}
        return super().__call__(plan)


def test_an_interrupted_trial_was_not_made_and_the_others_are_not_made_again(tmp_path: Path) -> None:
    found = {
        agent: [each for each in own if each.label == "A clean"] for agent, own in attacks(tmp_path, "llm").items()
    }
    evaluation = EvaluationRun(found, EvaluationSize(4, 0), "run")
    with opened(tmp_path) as journal:
        assert evaluation.document(journal) is None
        with pytest.raises(KeyboardInterrupt):
            made(evaluation, Interrupted(), tmp_path, journal)
        document = evaluation.document(journal)
    assert document is not None
    assert (document.made, document.planned, document.verdict) == (2, 4, "interrupted after 2 of 4 trials")
    with opened(tmp_path) as journal:
        rest = made(evaluation, Runner(), tmp_path, journal)
        document = evaluation.document(journal)
    assert [each.number for each in rest] == [2, 3]
    assert document is not None
    assert (document.made, document.complete, document.again) == (4, True, 0)


def test_what_infrastructure_has_broken_is_mended_by_going_on(tmp_path: Path) -> None:
    """A provider that was down all night costs the trials of that night, and not those that were made."""
    found = {
        agent: [each for each in own if each.label == "A clean"] for agent, own in attacks(tmp_path, "llm").items()
    }
    evaluation = EvaluationRun(found, EvaluationSize(2, 0), "run")
    dead = Runner(clean=(None, Failure("MODEL_AUTH", "no key")))
    with opened(tmp_path) as journal:
        assert [each.outcome for each in made(evaluation, dead, tmp_path, journal)] == ["void", "void"]
    with opened(tmp_path) as journal:
        journal.check(evaluation.seeds)
        mended = made(evaluation, Runner(), tmp_path, journal)
        document = evaluation.document(journal)
    assert [(each.attempt, each.outcome) for each in mended] == [(2, "passed"), (2, "passed")]
    assert document is not None
    assert (document.made, document.again, document.no_verdict) == (2, 2, ())
    with opened(tmp_path) as journal:
        journal.check(evaluation.seeds)
        assert not made(evaluation, Runner(), tmp_path, journal)


def test_a_verdict_with_a_few_void_trials_stays_as_it_is(tmp_path: Path) -> None:
    found = {
        agent: [each for each in own if each.label == "A clean"] for agent, own in attacks(tmp_path, "llm").items()
    }
    evaluation = EvaluationRun(found, EvaluationSize(20, 0), "run")
    once = iter([Failure("MODEL_AUTH", "no key")])

    class Once(Runner):
        def __call__(self, plan: Plan) -> TaskResult:
            self.endings = {"clean": (None, next(once, None))}
            return super().__call__(plan)

    with opened(tmp_path) as journal:
        assert len(made(evaluation, Once(), tmp_path, journal)) == 20
    with opened(tmp_path) as journal:
        assert not made(evaluation, Runner(), tmp_path, journal)
