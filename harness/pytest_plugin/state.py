"""What the plugin keeps for one pytest session."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from harness.reporting.progress import Progress
from harness.settings import Settings
from harness.wiring import SyncHarness, new_run_id


@dataclass(slots=True)
class State:
    """One session, or one xdist worker of it."""

    settings: Settings
    progress: Progress
    run_id: str = field(default_factory=new_run_id)
    known: set[str] = field(default_factory=set)
    selected: set[str] = field(default_factory=set)
    done: dict[str, bool] = field(default_factory=dict)
    """Task id -> whether it passed (or showed the failure it declares)."""
    _harness: SyncHarness | None = None

    def harness(self) -> SyncHarness:
        """Made with the first task that runs."""
        if self._harness is None:
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
