"""Models whose wires follow a script, in a run under virtual time."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.model.events import ModelAnswered, ModelAsked, ResilienceActed
from harness.model.inference import FunctionCall, Prompt, Usage
from harness.model.model_settings import ModelSettings, checked_models
from harness.model.plan import Plan
from harness.model.settings import Settings
from harness.models.exchange import Exchange, WireAnswer, current
from harness.models.run import RunModels
from harness.models.task import TaskModels
from harness.models.transport import Way
from harness.models.verdicts import ModelError
from harness.resilience.breaker import Breaker
from harness.resilience.circuits import Circuits
from harness.resilience.events import ResilienceEvent
from harness.runner.circuits import thresholds_of
from harness.runner.compile import compile_plan
from harness.spec.task import TaskSpec
from tests.unit.resilience.virtual import LoopClock, Story, now

PROMPT = Prompt("Rules.", ("x" * 391,))
"""About a hundred tokens."""
DONE = WireAnswer("", (FunctionCall("done", {}),))
USED = Usage(input=100, output=10)


def failing(status: int, **more: Any) -> ModelError:
    code = {429: "MODEL_RATE_LIMITED", 529: "MODEL_OVERLOADED", 401: "MODEL_AUTH"}.get(status, "MODEL_UNAVAILABLE")
    return ModelError(code, f"answered {status}", status=status, **more)


@dataclass
class ScriptedWire:
    """Each request takes the next of the script: an error is raised, a number of seconds passes, else it answers."""

    script: list[Any]
    seconds: float = 0.0
    """How long each answer takes."""
    at: list[float] = field(default_factory=list)
    """When the requests left."""
    prompts: list[Prompt] = field(default_factory=list)
    closed: bool = False

    async def ask(self, prompt: Prompt, exchange: Exchange) -> WireAnswer:
        assert current.get() is exchange
        self.at.append(now())
        self.prompts.append(prompt)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        await LoopClock().sleep(step if isinstance(step, float) else self.seconds)
        if isinstance(step, ModelError):
            facts = {"status": step.status, "retry_after": step.retry_after, "rule": step.rule}
            raise type(step)(step.code, str(step), billed=False, **facts)
        exchange.note_event(40)
        exchange.usage = USED
        return step if isinstance(step, WireAnswer) else DONE

    async def close(self) -> None:
        self.closed = True


def model(**more: Any) -> ModelSettings:
    base = {"provider": "openai-compatible", "model": "m", "base_url": "http://models.test/v1"}
    return ModelSettings.model_validate({**base, "retry": {"jitter": 0}, **more})


class ScriptedRun:
    """A run whose models have scripts: `wires` maps their names to them."""

    def __init__(self, wires: dict[str, list[Any]], enabled: bool = True, **models: ModelSettings) -> None:
        self.wires = {name: ScriptedWire(script) for name, script in wires.items()}
        self.models = checked_models({name: models.get(name, model()) for name in wires})
        self.story = Story()
        clock = LoopClock()
        named = {f"provider:{name}": thresholds_of(each) for name, each in self.models.items()}
        self.circuits = Circuits(clock=clock, emit=self.story, named=named)
        self.run = RunModels(
            self.models,
            clock=clock,
            environ={},
            breaker=self.breaker,
            thresholds=thresholds_of,
            tell=self.story,
            enabled=enabled,
        )
        self.asked: list[ModelAsked] = []
        self.answered: list[ModelAnswered] = []

    def breaker(self, name: str) -> Breaker:
        return self.circuits.breaker(f"provider:{name}")

    def task(self, **spec: Any) -> TaskModels:
        """The models for a new task."""
        task = self.run.of(plan(**spec), dict, self._hear, lambda: 0.5, lambda _: Way())

        async def wire(name: str) -> ScriptedWire:
            return self.wires[name]

        task.make_wire = wire
        return task

    def _hear(self, event: Any) -> None:
        if isinstance(event, ModelAsked):
            self.asked.append(event)
        elif isinstance(event, ModelAnswered):
            self.answered.append(event)
        elif isinstance(event, ResilienceActed):
            self.story(event.event)

    def told(self, kind: type[ResilienceEvent]) -> list[Any]:
        return self.story.of(kind)


def plan(**spec: Any) -> Plan:
    document = {"task_id": "T", "goal": "g", "steps": [{"act": "open", "url": "http://shop.local/"}], **spec}
    return compile_plan(
        TaskSpec.model_validate(document), folder=Path(), source="t.task.yaml", settings=Settings(), run_id="r"
    )
