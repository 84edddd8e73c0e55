"""The trajectory that `harness show --agent` prints."""

from __future__ import annotations

from pathlib import Path

from harness.cli.ending import fail
from harness.reporting.trajectory import FILE, Trajectory, TrajectoryError, newest, read, trajectories

_LAST = "last"


def found_trajectory(root: Path, task: str, run: str | None) -> Trajectory:
    """The newest trajectory of a task (an id, a key, a folder with one, or `last`); ends the command without one.

    `root`: the project's folder.
    """
    try:
        if (Path(task) / FILE).is_file():
            return read(Path(task) / FILE)
        each = newest(root) if task == _LAST else trajectories(root, task)
        found = next((one for one in each if run is None or one.task.run == run), None)
    except (TrajectoryError, OSError) as error:
        fail(str(error))
    if found is None:
        of_run = f" in run {run}" if run else ""
        fail(f"no agent has chosen the steps of {task}{of_run}, or its trajectory was deleted: see `harness show`")
    return found
