"""Lines of trials, made up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.model.consumption import ModelFigures
from harness.model.evaluation import Evaluation, EvaluationTrial
from harness.runner.evaluation.summary import Shape, summed_up
from tests.unit.reporting.sample import START

PASSED, FAILED, VOID = "p", "f", "v"
CODES = {PASSED: None, FAILED: "AGENT_STUCK", VOID: "MODEL_UNAVAILABLE"}
OUTCOMES = {PASSED: "passed", FAILED: "failed", VOID: "void"}


def line(task_id: str, agent: str, number: int, outcome: str, **more: Any) -> EvaluationTrial:
    """A trial; `outcome` is one of p, f, v."""
    code = CODES[outcome]
    return EvaluationTrial(**{
        "task_id": task_id, "agent": agent, "fault": None, "number": number, "seed": number,
        "outcome": OUTCOMES[outcome], "code": code, "message": f"message of {code}" if code else "", "started": START,
        "seconds": 10, "thinking": 3, "acting": 4, "waiting": 3, "steps": 5,
        "models": ModelFigures(calls=2, input_tokens=1000, output_tokens=10, cost_usd=0.01), **more,
    })  # fmt: skip


def lines(agent: str, tasks: Iterable[str], fault: str | None = None, **more: Any) -> list[EvaluationTrial]:
    """The trials of an agent: a word for each task, with a letter for each trial (`ppfv`)."""
    return [
        line(f"T{place:02}", agent, number, letter, fault=fault, struck=int(fault is not None), **more)
        for place, word in enumerate(tasks)
        for number, letter in enumerate(word)
    ]


def evaluation(*several: list[EvaluationTrial], planned: int | None = None) -> Evaluation:
    """The document of these trials."""
    trials = [each for part in several for each in part]
    names = {name: tuple(dict.fromkeys(getattr(each, name) for each in trials)) for name in ("agent", "task_id")}
    faults = tuple(dict.fromkeys(each.fault for each in trials if each.fault))
    places = len({each.place for each in trials})
    most = 1 + max(each.number for each in trials)
    return summed_up(trials, Shape(names["agent"], names["task_id"], faults, most, 0, planned or places))
