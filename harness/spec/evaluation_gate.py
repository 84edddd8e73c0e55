"""`*.gate.yaml`: the thresholds that decide an evaluation of agents in CI."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from harness.recovery.declaration import Declaration
from harness.spec.agents import unknown_agent
from harness.spec.problems import Problem, SpecError, join_or
from harness.spec.source import Origin, read_mapping
from harness.spec.validation import not_a_key, problems_of_error


class PassHatGate(Declaration):
    """A threshold of pass^k."""

    k: int = Field(ge=1, le=1000, description="Number of trials of a task that must all pass.")
    share: float = Field(ge=0, le=1, description="The least mean of pass^k over tasks, 0 to 1.")


class EvaluationGate(Declaration):
    """Thresholds of an evaluation, for its trials without faults."""

    agents: tuple[str, ...] | None = Field(
        None, min_length=1, description="The agents that must meet them. Default: all of the evaluation."
    )
    min_pass: float | None = Field(
        None, ge=0, le=1, description="The least mean of the tasks' rates, 0 to 1."
    )  # fmt: skip
    min_pass_k: PassHatGate | None = Field(None, description="The least mean of pass^k.")
    max_cost: float | None = Field(
        None, ge=0, description="The most US dollars for each trial that passed; a price that is not known fails it."
    )
    no_worse_than: str | None = Field(
        None, min_length=1, description="An evaluation.json of earlier, relative to this file: the difference of the "
        "rates must be surely above -`margin`, by the lower bound of its interval."
    )  # fmt: skip
    margin: float = Field(
        0.05, ge=0, le=1, description="How much worse than `no_worse_than` is still accepted, as a share."
    )

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        keys = ("min_pass", "min_pass_k", "max_cost", "no_worse_than")
        if all(getattr(self, key) is None for key in keys):
            raise ValueError(f"a gate needs a threshold: {join_or(keys)}")
        if "margin" in self.model_fields_set and self.no_worse_than is None:
            raise ValueError("`margin` has no effect without `no_worse_than`")
        return self


def load_gate(path: Path, declared: Collection[str] | None = None) -> EvaluationGate:
    """Load a gate; a relative `no_worse_than` is then absolute. Raises SpecError with all its problems.

    `declared`: the project's agents; without them each name of an agent is accepted.
    """
    source = read_mapping(path)
    origin = Origin(source.file, source)
    data = {key: value for key, value in source.data.items() if key != "$schema"}
    try:
        gate = EvaluationGate.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        raise SpecError(
            not_a_key(path, (PassHatGate if len(path) > 1 else EvaluationGate).model_fields, origin)
            if kind == "extra_forbidden"
            else problem
            for path, kind, problem in problems_of_error(error, data, origin)
        ) from None
    problems = list(_of_agents(gate, origin, declared))
    if gate.no_worse_than is not None:
        earlier = path.absolute().parent / gate.no_worse_than
        if not earlier.is_file():
            problems.append(origin.problem(("no_worse_than",), f"there is no file {gate.no_worse_than}"))
        gate = gate.model_copy(update={"no_worse_than": str(earlier)})
    if problems:
        raise SpecError(problems)
    return gate


def baseline_problem(path: Path, message: str) -> Problem:
    """What is wrong with the evaluation that `no_worse_than` names, with its place in the gate's file."""
    source = read_mapping(path)
    return Origin(source.file, source).problem(("no_worse_than",), message)


def _of_agents(gate: EvaluationGate, origin: Origin, declared: Collection[str] | None) -> Iterator[Problem]:
    for number, name in enumerate(gate.agents or ()):
        if name in (gate.agents or ())[:number]:
            yield origin.problem(("agents", number), f"`{name}` is there twice")
        if declared is not None and (unknown := unknown_agent(name, declared)):
            message = f"there is no agent `{name}`"
            yield origin.problem(("agents", number), message, expected=unknown[0], hint=unknown[1])
