"""In which order trials are made, which are left, and what the result of one becomes."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from harness.model.agent_settings import AgentSettings, OwnBreakerTable
from harness.model.evaluation import EvaluationTrial
from harness.model.record import MetFault
from harness.model.settings import Settings
from harness.recovery.failure import Failure
from harness.reporting.redaction import Redactor
from harness.runner.campaign.trials import Attack, FailedBefore, PlannedTrial, run_turn, staged
from harness.runner.evaluation.trials import (
    NEVER,
    EvaluationSize,
    Judging,
    Place,
    agents_attacks,
    place_of,
    remaining,
    schedule,
    without_memory,
)
from harness.values import replace
from tests.unit.reporting.sample import START
from tests.unit.runner.campaign.stage import Runner, plan, tasks
from tests.unit.runner.evaluation.lines import line

SIZE = EvaluationSize(trials=4, seed=7)


def attacks(folder: Path, *agents: str) -> dict[str, list[Attack]]:
    return agents_attacks(agents, plan(folder), tasks(folder), Settings(), "run")


def judging(folder: Path) -> Judging:
    return Judging((), folder, lambda text, _: Redactor(["s3cret-word"]).text(text), lambda: START)


def made(turn: PlannedTrial, folder: Path, runner: Runner) -> EvaluationTrial:
    return judging(folder).line(turn, asyncio.run(run_turn(turn, runner.play, "run")))


def test_agents_take_turns_and_each_begins_as_often(tmp_path: Path) -> None:
    turns = list(schedule(attacks(tmp_path, "monkey", "llm"), SIZE))
    pairs = [turns[n : n + 2] for n in range(0, len(turns), 2)]
    assert len(pairs) == 6 * 4
    for one, other in pairs:
        assert {one.attack.agent, other.attack.agent} == {"monkey", "llm"}
        assert (one.attack.label, one.number, one.seed) == (other.attack.label, other.number, other.seed)
        assert one.seed == 7 + one.number
    begin = Counter((one.attack.label, one.attack.agent) for one, _ in pairs)
    assert set(begin.values()) == {2}


def test_the_order_is_of_the_seed(tmp_path: Path) -> None:
    found = attacks(tmp_path, "monkey", "llm")
    order = [place_of(each) for each in schedule(found, SIZE)]
    assert order == [place_of(each) for each in schedule(found, SIZE)]
    other = [place_of(each) for each in schedule(found, EvaluationSize(4, 8))]
    assert other != order
    assert sorted(map(str, other)) == sorted(map(str, order))
    rounds = [[each[0] for each in order if each[3] == number] for number in range(4)]
    assert any(each != rounds[0] for each in rounds)


def test_tasks_without_faults_are_tried_too(tmp_path: Path) -> None:
    found = agents_attacks(("llm",), None, tasks(tmp_path), Settings(), "run")
    assert [each.label for each in found["llm"]] == ["A clean", "B clean"]


def test_a_trial_has_the_agent_a_seed_and_a_folder_of_its_own(tmp_path: Path) -> None:
    plans = [staged(each, "run")[0] for each in schedule(attacks(tmp_path, "monkey", "llm"), SIZE)]
    assert len({each.key for each in plans}) == len({each.world for each in plans}) == len(plans)
    assert {(each.agent, each.spec.seed) for each in plans} == {(a, s) for a in ("monkey", "llm") for s in range(7, 11)}
    assert {each.recorded_as for each in plans} == {"A", "B"}


def test_what_runs_before_a_trial_does_its_own_steps(tmp_path: Path) -> None:
    turn = next(each for each in schedule(attacks(tmp_path, "llm"), SIZE) if each.attack.label == "B clean")
    plan, (before,) = staged(turn, "run")
    assert (plan.agent, before.agent, before.task_id) == ("llm", None, "A")


def test_what_is_left_to_do(tmp_path: Path) -> None:
    """A void trial is made again once, at the end; what cannot pass is not."""
    turns = list(schedule(attacks(tmp_path, "llm"), EvaluationSize(1, 0)))
    done: dict[Place, list[EvaluationTrial]] = {}
    order = []
    for turn in chain.from_iterable(remaining(turns, done)):
        task, agent, fault, number = place_of(turn)
        order.append((fault, turn.attempt))
        code = {"crash": "MODEL_UNAVAILABLE", "slow-2": "MODEL_CASSETTE_MISS"}.get(fault or "")
        made = line(task, agent, number, "v" if code else "p", fault=fault, code=code, attempt=turn.attempt)
        done.setdefault(made.place, []).append(made)
    assert sorted(map(str, order[:6])) == sorted(str((each.attack.name or None, 1)) for each in turns)
    assert order[6:] == [("crash", 2), ("crash", 2)]
    assert not list(chain.from_iterable(remaining(turns, done)))
    again = Counter(
        (place_of(turn)[2], turn.attempt) for turn in chain.from_iterable(remaining(turns, done, repair=True))
    )
    vain = sum(fault == "slow-2" for fault, _ in order)
    assert again == {("crash", 3): 2, ("slow-2", 2): vain}


@pytest.mark.parametrize(
    ("last", "outcome", "why"),
    [
        (None, "passed", ""),
        (Failure("AGENT_STUCK", "word s3cret-word"), "failed", ""),
        (Failure("BROWSER_CRASHED", "gone"), "void", "BROWSER_CRASHED: The browser is gone."),
    ],
)
def test_a_clean_trial_is_judged(tmp_path: Path, last: Failure | None, outcome: str, why: str) -> None:
    turn = next(each for each in schedule(attacks(tmp_path, "llm"), SIZE) if each.attack.label == "A clean")
    found = made(turn, tmp_path, Runner(clean=(None, last)))
    assert (found.outcome, found.why_void, found.code) == (outcome, why, last.code if last else None)
    assert (found.task_id, found.agent, found.fault, found.seed) == ("A", "llm", None, turn.seed)
    assert "s3cret-word" not in found.model_dump_json()
    assert (found.seconds, found.acting, found.thinking, found.waiting, found.steps) == (2, 1, 0, 1, 1)


def test_a_failure_by_the_fault_counts(tmp_path: Path) -> None:
    turn = next(each for each in schedule(attacks(tmp_path, "llm"), SIZE) if each.attack.name == "crash")
    found = made(turn, tmp_path, Runner(page_crash=(None, Failure("PAGE_CRASHED", "crashed"))))
    assert (found.outcome, found.struck, found.fault) == ("failed", 1, "crash")


def test_a_fault_that_could_not_be_done_is_void(tmp_path: Path) -> None:
    turn = next(each for each in schedule(attacks(tmp_path, "llm"), SIZE) if each.attack.name == "crash")
    result = Runner(page_crash=(None, Failure("AGENT_STUCK", "so")))(turn.attack.plan)
    broken = MetFault("crash", turn.attack.plan.faults[-1], problem="there was no page")
    found = judging(tmp_path).line(turn, replace(result, faults=(broken,)))
    assert (found.outcome, found.why_void) == ("void", "the fault failed: there was no page")


@pytest.mark.parametrize(("own", "outcome"), [(True, "failed"), (False, "void")])
def test_a_failure_before_the_trial_is_the_agents_only_if_it_chose_the_steps(
    tmp_path: Path, own: bool, outcome: str
) -> None:
    turn = next(each for each in schedule(attacks(tmp_path, "llm"), SIZE) if each.attack.label == "B clean")
    stuck = Runner(clean=(None, Failure("AGENT_STUCK", "s3cret-word")))(turn.attack.preludes[0])
    found = judging(tmp_path).line(turn, FailedBefore("llm" if own else None, stuck))
    assert found.outcome == outcome
    assert (found.message + found.why_void).startswith("A, which runs before it, did not end as it declares")
    assert "s3cret-word" not in found.model_dump_json()
    assert (
        judging(tmp_path).line(turn, FailedBefore("llm", replace(stuck, failure=Failure("SERVICE_DOWN", "x")))).outcome
        == "void"
    )


def test_the_failures_of_an_agent_keep_it_from_no_later_trial() -> None:
    mine = AgentSettings(python="a:b", timeout=5, breaker=OwnBreakerTable(failure_threshold=2, reset_seconds=9))
    found = without_memory(Settings(agents={"mine": mine}), ("mine", "llm", "scripted")).agents
    assert {name: each.breaker.failure_threshold for name, each in found.items()} == {"mine": NEVER, "llm": NEVER}
    assert (found["mine"].timeout, found["mine"].breaker.reset_seconds) == (5, 9)


def test_a_trial_that_could_not_be_made_is_void(tmp_path: Path) -> None:
    class Broken(Runner):
        def __call__(self, plan: object) -> object:  # type: ignore[override]
            raise OSError("no more processes, s3cret-word")

    turn = next(iter(schedule(attacks(tmp_path, "llm"), SIZE)))
    found = made(turn, tmp_path, Broken())
    assert (found.outcome, found.final_state) == ("void", "")
    assert found.why_void.startswith("OSError: no more processes")
    assert "s3cret-word" not in found.why_void
