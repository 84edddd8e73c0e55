"""The stage of the table: the site that works, and the one that does not, under names."""

from __future__ import annotations

from pathlib import Path

from harness.browser import Browsers
from tests.browser.site import Site
from tests.browser.stage import Stage
from tests.browser.table.fault_site import FaultSite

FAULTY = "faulty.test"


class TableStage(Stage):
    """A stage whose browser is the same for every case: the map of hosts never changes."""

    def __init__(self, browsers: Browsers, site: Site, folder: Path, faults: FaultSite) -> None:
        super().__init__(browsers, site, folder)
        self._faults = faults

    @property
    def hosts(self) -> dict[str, int]:
        return {**super().hosts, FAULTY: self._faults.port}

    @property
    def places(self) -> dict[str, object]:
        """What `{name}` in a case's steps stands for."""
        return {"site": self.site.port, **self._faults.places}
