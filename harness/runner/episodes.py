"""The storage that the tasks of an episode hand on (docs/decisions/015-what-an-episode-hands-on.md)."""

from __future__ import annotations

from harness.browser import Storage
from harness.model.plan import Plan
from harness.model.record import Warning_
from harness.recovery.failure import Failure
from harness.runner.ground import Ground
from harness.values import replace


class Episodes:
    """By the world of an episode: the storage of its last task that ended as declared, and the login of that task."""

    def __init__(self) -> None:
        self._left: dict[str, Storage | Failure] = {}
        self._logins: dict[str, str] = {}

    def begin(self, plan: Plan, ground: Ground) -> Ground:
        """The ground with the storage of the task before; a task with another login than that one's begins without.

        If the storage could not be read, the task cannot begin: as if it had never been left, it would be logged out.
        """
        if plan.login is not None and self._logins.get(plan.world) != plan.login.name:
            return ground
        left = self._left.get(plan.world)
        if isinstance(left, Failure):
            return replace(ground, trouble=ground.trouble or left)
        return replace(ground, storage=left.state if left else None)

    def hand_on(self, plan: Plan, left: Storage | Failure | None) -> tuple[Warning_, ...]:
        """Keep what a task that ended as it declares leaves to the next one of its episode; returns warnings for it."""
        if left is None:
            return ()
        if isinstance(left, Failure):
            left = replace(
                left, message=f"{left.message}, at the end of {plan.task_id}, with which the episode goes on"
            )
        self._left[plan.world] = left
        if plan.login is not None:
            self._logins[plan.world] = plan.login.name
        lines = [left.message] if isinstance(left, Failure) else left.unsaved
        return tuple(
            Warning_("storage_not_left", f"What follows in the episode lacks it: {line}", None) for line in lines
        )
