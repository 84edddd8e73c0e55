"""What the plugin keeps for one pytest session, and when it lets go of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin import running
from harness.pytest_plugin.role import ROLE, Role
from harness.pytest_plugin.state import BROWSER, STATE, SessionState


class Harness:
    browser = "Chromium 1"

    def __init__(self, error: BaseException | None = None) -> None:
        self.closed = 0
        self._error = error

    def close(self) -> None:
        self.closed += 1
        if self._error is not None:
            raise self._error


@pytest.fixture
def state(tmp_path: Path) -> SessionState:
    return SessionState(Settings(root=tmp_path))


def begin(state: SessionState, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task runs, in this harness."""
    monkeypatch.setattr("harness.runner.sync.SyncHarness", lambda *_: harness)
    assert state.harness() is cast("Any", harness)


@pytest.mark.parametrize("worker", [True, False])
def test_a_worker_closes_before_it_says_that_it_is_done(
    state: SessionState, monkeypatch: pytest.MonkeyPatch, worker: bool
) -> None:
    harness, output = Harness(), dict[str, Any]()
    begin(state, harness, monkeypatch)
    role = Role.WORKER if worker else Role.ALONE
    config: Any = SimpleNamespace(
        stash={STATE: state, ROLE: role}, pluginmanager=SimpleNamespace(getplugin=lambda _: None)
    )
    if worker:
        config.workeroutput = output
    running.pytest_sessionfinish(cast("Any", SimpleNamespace(config=config)))
    assert harness.closed == worker
    assert output == ({BROWSER: "Chromium 1"} if worker else {})
    assert state.browser == "Chromium 1"


def test_what_was_cut_off_in_closing_is_not_closed_again(state: SessionState, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(KeyboardInterrupt())
    begin(state, harness, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        state.close()
    state.close()
    assert harness.closed == 1
