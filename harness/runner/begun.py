"""A run outside pytest: its stream of events and its harness, which end together."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from harness.model.settings import Settings
from harness.reporting.telemetry.record import RunBegun
from harness.reporting.telemetry.sinks import begun_stream
from harness.runner.harness import SyncHarness
from harness.spec.names import new_run_id


class BegunRun(AbstractContextManager["BegunRun"]):
    """A run that has begun: for the block of a `with`, or until `close`."""

    def __init__(
        self,
        settings: Settings,
        run_id: str = "",
        *,
        say: Callable[[str], None] = lambda _line: None,
        leads: bool = True,
        tasks: int | None = None,
    ) -> None:
        """`say` receives a line for each output that failed. `leads`: as in `begun_stream`. `tasks`: for `RunBegun`.

        Raises ValueError for an error in the settings or a file that they name, and OSError.
        """
        self.run_id = run_id or new_run_id(datetime.now(UTC), os.getpid())
        self._say = say
        self.stream = begun_stream(settings, self.run_id, leads=leads)
        if tasks is not None:
            self.stream.emit(RunBegun(tasks))
        try:
            self.harness = SyncHarness(settings, self.run_id, self.stream.emit)
        except BaseException:
            self.stream.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the harness, and then the stream, which tells of its end."""
        try:
            self.harness.close()
        finally:
            for problem in self.stream.close():
                self._say(problem)
