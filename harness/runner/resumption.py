"""What a process does of a part that others have begun: what has ended, what is lost, and what runs again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct, field

from harness.recovery.failure import Failure
from harness.recovery.never_twice import what_runs_again
from harness.runner.stored_part import wrote_name


class Earlier(Struct, frozen=True):
    """What earlier processes have done of the part."""

    ended: Mapping[str, bool] = field(default_factory=dict)
    """Node id of a task that has ended -> whether it passed."""
    written: frozenset[str] = frozenset()
    """The names (`wrote_name`) of the tasks that had begun to write."""
    attempts: int = 0
    """The number of these processes."""

    def wrote(self, task_id: str) -> bool:
        return wrote_name(task_id) in self.written


class Resumption(Struct, frozen=True):
    """What is left to do of a part."""

    done: frozenset[str] = frozenset()
    """Node ids of the tasks that do not run again: they have ended."""
    lost: Mapping[str, Failure] = field(default_factory=dict)
    """Id of a task that does not run, although it has no end -> why."""


CRASHED = "The process that ran the task is gone, and it had begun to write, so it does not run again"
UNFINISHED_EPISODE = (
    "A process that had done a part of its episode is gone, and with it the state that the tasks share; since one of "
    "them had begun to write, the episode does not run again"
)


def resumption(tasks: Mapping[str, tuple[str, str | None]], earlier: Earlier) -> Resumption:
    """Decide what runs again. `tasks`: node id -> (id, episode).

    An episode runs again from its start, unless a task of it has begun to write.
    """
    broken = _broken_episodes(tasks, earlier.ended)
    free = what_runs_again({task_id: earlier.wrote(task_id) for task_id, _ in tasks.values()})
    wrote = {episode for task_id, episode in tasks.values() if episode in broken and task_id not in free}
    done: set[str] = set()
    lost: dict[str, Failure] = {}
    for nodeid, (task_id, episode) in tasks.items():
        if nodeid in earlier.ended and (episode not in broken or episode in wrote):
            done.add(nodeid)
        elif nodeid not in earlier.ended and task_id not in free:
            lost[task_id] = Failure("WORKER_CRASHED", CRASHED)
        elif nodeid not in earlier.ended and episode in wrote:
            lost[task_id] = Failure("EPISODE_STATE_LOST", UNFINISHED_EPISODE)
    return Resumption(frozenset(done), lost)


def _broken_episodes(tasks: Mapping[str, tuple[str, str | None]], ended: Collection[str]) -> set[str]:
    """The episodes of which something is left to do."""
    return {episode for nodeid, (_, episode) in tasks.items() if episode is not None and nodeid not in ended}
