"""The failure table: a module's CASES are its tests, the fast ones in the ordinary suite, all with TASKSPEC_TESTS=full.

One set of browsers for all of them; a case that kills its browser costs the next one a start.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.browser import Browsers
from harness.model.browser_settings import BrowserSettings
from harness.resilience import SystemClock
from tests.browser.site import Site
from tests.browser.table.case import Case
from tests.browser.table.fault_site import FaultSite
from tests.browser.table.table_stage import TableStage

FULL = "TASKSPEC_TESTS"
"""Environment variable: `full` runs every case."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each test with `case` runs once for every case of its module that was asked for."""
    if "case" in metafunc.fixturenames:
        cases: tuple[Case, ...] = metafunc.module.CASES
        chosen = [case for case in cases if case.fast or os.environ.get(FULL) == "full"]
        assert chosen, f"{metafunc.module.__name__}: at least one case must be fast"
        metafunc.parametrize("case", chosen, ids=[case.id for case in chosen])


@pytest.fixture(scope="session")
def faults(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultSite]:
    faults = FaultSite(tmp_path_factory.mktemp("keys"))
    run(faults.start())
    yield faults
    run(faults.stop())


@pytest.fixture(scope="session")
def browsers(run: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    """Of the table alone: the first map of hosts is the one whose browser stays."""

    async def make() -> Browsers:
        return Browsers(BrowserSettings(), SystemClock(), temp=tmp_path_factory.mktemp("t"))

    browsers = run(make())
    yield browsers
    run(browsers.close())


@pytest.fixture
def stage(run: Any, browsers: Browsers, site: Site, faults: FaultSite, tmp_path: Path) -> Iterator[TableStage]:
    stage = TableStage(browsers, site, tmp_path, faults)
    yield stage
    for session in stage.sessions:
        with suppress(TimeoutError):
            run(session.close())
