"""What the agents of a task see and what models answer them, for the task's trajectory."""

from __future__ import annotations

from harness.agents.python import ModelsOf
from harness.model.inference import ModelAnswer, ModelClient, Prompt
from harness.model.plan import Plan
from harness.model.ports import Observation
from harness.model.trajectory import Noted, SaidByModel, SeenByAgent
from harness.recovery.failure import Failed
from harness.reporting.trajectory import LONGEST, MOST
from harness.resilience import Clock
from harness.values import replace


class ProposalNotes:
    """Notes what happens at the proposals of one task; not those of the tasks inside it. Use it on one loop."""

    def __init__(self, plan: Plan, clock: Clock) -> None:
        self._key = plan.key
        self._clock = clock
        self.noted: list[Noted] = []
        """The first looks and answers, in order."""

    @classmethod
    def of(cls, plan: Plan, clock: Clock) -> ProposalNotes | None:
        """None for a task without agents."""
        return None if plan.agent is None and plan.chain is None else cls(plan, clock)

    def saw(self, plan: Plan, agent: str, step: int, seen: Observation) -> None:
        """Note that an agent has looked at the page, unless it saw the same at its last look."""
        look = SeenByAgent(agent, step, self._clock.wall(), seen.url, seen.aria[:LONGEST])
        if not self.noted or replace(look, at=self.noted[-1].at) != self.noted[-1]:
            self._note(plan, look)

    def models(self, models: ModelsOf) -> ModelsOf:
        """The same models, whose answers are noted."""
        return lambda plan, agent, step: _NotedClient(self, plan, agent, step, models(plan, agent, step))

    def said(self, plan: Plan, agent: str, step: int, answer: ModelAnswer) -> None:
        """Note an answer of a model."""
        call = answer.calls[0] if answer.calls else None
        tool, arguments = (call.name, dict(call.arguments)) if call else ("", {})
        at, text = self._clock.wall(), answer.text[:LONGEST]
        self._note(plan, SaidByModel(agent, step, at, answer.call.model, tool, arguments, text))

    def failed(self, plan: Plan, agent: str, step: int, model: str, code: str) -> None:
        """Note that neither the model nor its fallbacks have answered."""
        self._note(plan, SaidByModel(agent, step, self._clock.wall(), model, code=code))

    def _note(self, plan: Plan, what: Noted) -> None:
        if plan.key == self._key and len(self.noted) < MOST:
            self.noted.append(what)


class _NotedClient:
    """The models for one proposal (`inference.ModelClient`)."""

    def __init__(self, notes: ProposalNotes, plan: Plan, agent: str, step: int, models: ModelClient) -> None:
        self._notes = notes
        self._place = plan, agent, step
        self._models = models

    async def ask(self, model: str, prompt: Prompt) -> ModelAnswer:
        """Ask the model. Raises Failed."""
        try:
            answer = await self._models.ask(model, prompt)
        except Failed as failed:
            self._notes.failed(*self._place, model, failed.failure.code)
            raise
        self._notes.said(*self._place, answer)
        return answer
