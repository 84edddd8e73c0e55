"""A task that is ready to run: everything that can be decided before the first step is decided here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from harness.criteria import Criterion
from harness.recovery import Rulebook
from harness.spec.agents import SCRIPTED
from harness.spec.context import ContextOptions
from harness.spec.source import Origin
from harness.spec.steps import Step
from harness.spec.task import ScoringCheckpoint, TaskSpec
from harness.task_secrets import LearnedSecrets

if TYPE_CHECKING:
    from harness.spec.faults import Fault
    from harness.spec.generated import Generated
    from harness.spec.one_time import OneTimePasswords
    from harness.spec.routes import Route


NO_OPTIONS: ContextOptions = ContextOptions.model_construct(set())


class ReadyRepair(Struct, frozen=True):
    """A repair of the task, ready to run (docs/design/steps-and-recovery.md)."""

    applies: frozenset[int]
    """The numbers of the preconditions that it repairs."""
    memory: dict[str, Any]
    steps: tuple[Step, ...]
    task: Plan | None
    """A task to run first, in the same world."""


class ReadyHandler(Struct, frozen=True):
    """A handler of the task or the project, ready to run."""

    when: str
    steps: tuple[Step, ...]
    times: int


class ReadyLogin(Struct, frozen=True):
    """How a task is logged in before it begins (`login`)."""

    name: str
    plan: Plan
    """Logs in."""
    check: Plan
    """Passes while the login is valid; it leaves nothing, since a login that is over is no failure."""
    proof: Plan
    """The same after the login was made: it keeps evidence."""
    holds: str
    """The criterion of both."""
    keep: bool
    """Whether later runs use the same login."""
    digest: str
    """Differs where the settings of the login, or the site, differ."""


class AgentChain(Struct, frozen=True):
    """Who goes on when the agent of a task fails (docs/decisions/025-takeover.md)."""

    names: tuple[str, ...]
    """The agents that follow the first one, in order."""
    restarts: frozenset[str] = frozenset()
    """The agents that begin anew, and do not go on where the one before has ended."""
    if_unmet: bool = False
    """Whether one also goes on when the agent is done and a success criterion does not hold."""

    def after(self, agent: str | None) -> str | None:
        """The one that follows this agent (None: the steps of the file); None if it was the last."""
        name = agent or SCRIPTED
        place = self.names.index(name) + 1 if name in self.names else 0
        return self.names[place] if place < len(self.names) else None


class ReadyUser(Struct, frozen=True):
    """A user of a task, ready to act."""

    name: str = ""
    """Empty in a task without `users`, which has one."""
    context: ContextOptions = NO_OPTIONS
    """What the user's browser context emulates."""
    login: ReadyLogin | None = None
    """The login with which the user begins."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The task as the engine runs it, frozen; `inputs`, `persona` and `env` are interpolated, `memory` is not."""

    spec: TaskSpec
    task_id: str
    key: str
    """The safe, unique directory name of this item under `errors/`."""
    world: str
    """The world id (docs/design/isolation-and-state.md)."""
    steps: tuple[Step, ...]
    preconditions: tuple[Criterion, ...]
    success_criteria: tuple[Criterion, ...]
    rulebook: Rulebook
    timeout: float
    step_timeout: float
    faults: tuple[Fault, ...] = ()
    """The faults of the task and those of `--task-faults`."""
    routes: tuple[Route, ...] = ()
    """The routes of the task. Only references to memory are still to be filled in."""
    fault_seed: int | None = None
    """The seed for the faults' probabilities."""
    folder: Path = Path()
    """The folder of the task's file; uploads must lie in it."""
    source: str = ""
    """The task's file, as shown to people."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """The places of its keys; None for a task made in Python."""
    start: datetime | None = None
    """The task's `time`: the world's clock, the browser's Date, the base of time_since."""
    scoring: tuple[ScoringCheckpoint, ...] = ()
    """The scoring checkpoints, with references filled in."""
    expected_criteria: tuple[Criterion, ...] = ()
    """The criteria of `expect`, for the page as the failure has left it."""
    relaxed: tuple[Criterion, ...] = ()
    """The relaxed criteria of `fallback_plan`; empty unless it is enabled."""
    alternative: Plan | None = None
    """The task that `fallback_plan` runs in the same world after this one failed."""
    repairs: tuple[ReadyRepair, ...] = ()
    handlers: tuple[ReadyHandler, ...] = ()
    """The handlers of the task, then the handlers of the project."""
    before_each: tuple[Step, ...] = ()
    after_each: tuple[Step, ...] = ()
    login: ReadyLogin | None = None
    """The login with which the task begins; that of the first user."""
    user: str = ""
    """The name of the first user; empty in a task without `users`."""
    others: tuple[ReadyUser, ...] = ()
    """The users after the first."""
    fresh: bool = True
    """Whether the world is emptied first; False for a task that runs in the middle of another one."""
    last_of_episode: bool = True
    """Whether no task of its episode follows, as far as known; otherwise its slot is kept for the next one."""
    base_url: str | None = None
    """The base of relative URLs."""
    agent: str | None = None
    """The name of the agent that chooses the steps; None: `steps` are executed."""
    chain: AgentChain | None = None
    """The agents that go on when this one fails; None: there is none."""
    known_secrets: tuple[str, ...] = field(default=(), repr=False)
    """The secrets that are known before the first step."""
    one_time: OneTimePasswords | None = field(default=None, repr=False, compare=False)
    """The one-time passwords, which become secrets as they are made; None if the task uses none."""
    learned: LearnedSecrets = field(default_factory=LearnedSecrets, repr=False, compare=False)
    """The secrets that the task meets while it runs."""
    generated: Generated | None = field(default=None, repr=False, compare=False)
    """The values of `${fake.x}` and `${now}`; None for a task that was not compiled."""
    heal: bool = True
    update_baselines: bool = False
    """Whether baselines are written and not compared."""
    strict: bool = False
    timeout_scale: float = 1.0
    """The factor for timeouts of the run; it also applies to steps that an agent proposes."""
    trial: int = 0
    """The number of the trial of the task, from 0, within its run or campaign: each has recordings of its own."""
    recorded_as: str = ""
    """The name of its recordings of models, if it is not `key`."""
    context: ContextOptions = NO_OPTIONS
    """What the browser context emulates: the settings, the profile and the task in one."""
    judged_later: bool = False
    """Whether a fixture of its test may fail after the task: the evidence of its end is held until then."""
    in_full: bool = False
    """Whether it is recorded with snapshots from the start, whatever the settings say."""

    @property
    def users(self) -> tuple[ReadyUser, ...]:
        """The users of the task; one without a name if it declares none."""
        return (ReadyUser(self.user, self.context, self.login), *self.others)

    def context_of(self, user: str | None) -> ContextOptions:
        """What the context of a user emulates; None: of the first."""
        return next((each.context for each in self.others if each.name == user), self.context)

    @property
    def steps_source(self) -> str:
        """The file that contains its steps: for a `task_spec.json` that may be another file."""
        return self.source if self.origin is None else self.origin.file_of("steps")

    def place_of(self, index: int | None) -> str:
        """The task's file; for a step in another file, that file and line."""
        if self.origin is None or index is None or not 0 <= index < len(self.steps):
            return self.source
        place = self.origin.place_at(("steps", index))
        if self.steps_source == self.source and not (place and place.used):
            return self.source
        return self.origin.place(("steps", index))

    @property
    def step_numbers(self) -> Mapping[int, str]:
        """`4.2` and so on, of the steps that stand with others for one of the file."""
        places = self.origin.places if self.origin is not None else {}
        return {int(path[1]): each.number for path, each in places.items() if path[0] == "steps" and each.number}

    @property
    def expect_timeout(self) -> float:
        """Seconds for which an `assert` and a success criterion are evaluated again until they hold."""
        return self.spec.expect_timeout * self.timeout_scale

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets of the task so far: of its variables, one-time passwords that were made, and what it has met."""
        made = () if self.one_time is None else self.one_time.made
        return (*self.known_secrets, *made, *self.learned.values)

    @property
    def given_secrets(self) -> Mapping[str, str]:
        """The secrets that stand in the task's file as inputs -> the references to them."""
        known = self.learned.values.difference(self.known_secrets)
        texts = {value: name for name, value in self.spec.inputs.items() if isinstance(value, str)}
        return {value: f"${{inputs.{name}}}" for value, name in texts.items() if value in known}

    @property
    def all_secrets(self) -> tuple[str, ...]:
        """The secrets of the task, of its logins and of the tasks inside it, since its reports may show them too."""
        logins = (each.login.plan for each in self.users if each.login)
        inner = (self.alternative, *(repair.task for repair in self.repairs), *logins)
        return self.secrets + tuple(secret for plan in inner if plan is not None for secret in plan.all_secrets)
