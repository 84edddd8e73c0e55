"""What the plugin keeps for one pytest session."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from harness.plan import new_run_id
from harness.reporting.progress import Progress
from harness.settings import Settings

if TYPE_CHECKING:
    from harness.wiring import SyncHarness


@dataclass(slots=True)
class State:
    """One session, or one xdist worker of it."""

    settings: Settings
    progress: Progress
    run_id: str = field(default_factory=lambda: new_run_id(datetime.now(UTC), os.getpid()))
    known: set[str] = field(default_factory=set)
    selected: set[str] = field(default_factory=set)
    done: dict[str, bool] = field(default_factory=dict)
    """Task id -> whether it passed (or showed the failure it declares)."""
    _harness: SyncHarness | None = None

    def harness(self) -> SyncHarness:
        """Made with the first task that runs."""
        if self._harness is None:
            from harness.wiring import SyncHarness  # Playwright is loaded only in a session that runs a task

            self._harness = SyncHarness(self.settings, self.run_id)
        return self._harness

    @property
    def browser(self) -> str:
        """Name and version of the browser, once one was started in this process."""
        return self._harness.browser if self._harness else ""

    def close(self) -> None:
        if self._harness is not None:
            self._harness.close()
            self._harness = None


STATE: pytest.StashKey[State] = pytest.StashKey()
