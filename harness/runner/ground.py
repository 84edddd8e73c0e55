"""What one task stands on: the resources that it shares with the tasks inside it, and who may step in.

And the storage that the tasks of an episode hand on (docs/decisions/015-what-an-episode-hands-on.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from harness.browser import Storage, StorageState
from harness.model.plan import Plan
from harness.model.ports import Ask, RepairHook
from harness.model.record import MetFault, Warning_
from harness.recovery.failure import Failure
from harness.runner.toolbox import TaskTools
from harness.spec.steps import Step
from harness.values import replace

if TYPE_CHECKING:
    from harness.browser.route_answers import Memory
    from harness.browser.routing import Routing
    from harness.runner.commands import TaskCommands


class Interaction(Struct, frozen=True):
    """The hooks of a task to a person and the project (ports.Ports)."""

    ask: Ask | None = None
    repair: RepairHook | None = None


NO_INTERACTION = Interaction()


class Ground(Struct, frozen=True):
    """The resources of one task, shared with the tasks inside it."""

    slot: int = 0
    trouble: Failure | None = None
    """The failure because of which the task cannot begin."""
    episode: bool = False
    """Whether the task belongs to an episode, which passes the browser's storage on."""
    of_login: bool = False
    """Whether it is a login or a check of one: these tasks are there for the storage alone."""
    left: dict[tuple[str, str], Storage | Failure] = field(default_factory=dict)
    """Key of a task and name of a user -> the final storage of the browser, or the reason why it could not be read."""
    storages: Mapping[str, StorageState] = field(default_factory=dict)
    """Name of a user -> the storage with which the browser begins; it is empty for others."""
    tools: TaskTools | None = None
    commands: TaskCommands | None = None
    needed: frozenset[str] | None = None
    """The services that the task needs (`Needs`); None: it may need all of them."""

    def leave_for(self, plan: Plan, user: str) -> Callable[[Storage | Failure], Failure | None] | None:
        """Who takes a user's storage at the end of a task (`SessionRequest.leave`)."""
        if plan.in_full or not (self.episode or self.of_login):
            return None

        def leave(found: Storage | Failure) -> Failure | None:
            self.left[plan.key, user] = found
            return found if self.of_login and isinstance(found, Failure) else None

        return leave


class Episodes:
    """By the world of an episode and a user: the storage that the last task left that ended as declared, and the login
    of that task.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str], Storage | Failure] = {}
        self._logins: dict[tuple[str, str], str] = {}

    def begin(self, plan: Plan, ground: Ground) -> Ground:
        """The ground with the storages of the task before; a user with another login than that one's begins without.

        If one could not be read, the task cannot begin: as if it had never been left, it would be logged out.
        """
        for user in plan.users:
            place = plan.world, user.name
            if user.login is not None and self._logins.get(place) != user.login.name:
                continue
            left = self._left.get(place)
            if isinstance(left, Failure):
                return replace(ground, trouble=ground.trouble or left)
            if left is not None:
                ground = replace(ground, storages={**ground.storages, user.name: left.state})
        return ground

    def hand_on(self, plan: Plan, ended: str, all_left: Mapping[tuple[str, str], Storage | Failure]) -> list[Warning_]:
        """Keep what a task that ends as it declares leaves to the next one of its episode; returns warnings for it.

        `ended`: the key of the task that ended it, which may be another one.
        """
        lines: list[str] = []
        for user in plan.users:
            if (left := all_left.get((ended, user.name))) is None:
                continue
            if isinstance(left, Failure):
                message = f"{left.message}, at the end of {plan.task_id}, with which the episode goes on"
                left = replace(left, message=message)
            self._left[plan.world, user.name] = left
            if user.login is not None:
                self._logins[plan.world, user.name] = user.login.name
            lines += [left.message] if isinstance(left, Failure) else left.unsaved
        return [Warning_("storage_not_left", f"What follows in the episode lacks it: {line}", None) for line in lines]


class NoFaults:
    """The injector of a task without faults (ports.Injector)."""

    def begin(self, at: float) -> None:
        """No time counts."""

    async def before_step(self, index: int, step: Step) -> None:
        """No step is struck."""

    def claim_loss(self) -> bool:
        return False

    def results(self) -> tuple[MetFault, ...]:
        return ()

    async def close(self) -> None:
        """There is nothing to undo."""


async def routing_of(plan: Plan, memory: Memory) -> Routing | None:
    """The routes of a task, ready to answer; few tasks have some. Raises Failed."""
    if not plan.routes:
        return None
    from harness.browser.routing import Routing

    return await Routing.of(plan.routes, plan.folder, memory)
