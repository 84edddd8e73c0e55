"""What the plugin keeps for one pytest session, and when it lets go of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin import plugin
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


def state_of(harness: Harness, root: Path) -> SessionState:
    state = SessionState(Settings(root=root), cast("Any", None))
    state._harness = cast("Any", harness)
    return state


@pytest.mark.parametrize("worker", [True, False])
def test_a_worker_closes_before_it_says_that_it_is_done(tmp_path: Path, worker: bool) -> None:
    harness, output = Harness(), dict[str, Any]()
    state = state_of(harness, tmp_path)
    config: Any = SimpleNamespace(stash={STATE: state}, pluginmanager=SimpleNamespace(getplugin=lambda _: None))
    if worker:
        config.workeroutput = output
    plugin.pytest_sessionfinish(cast("Any", SimpleNamespace(config=config)))
    assert harness.closed == worker
    assert output == ({BROWSER: "Chromium 1"} if worker else {})
    assert state.browser == "Chromium 1"


def test_what_was_cut_off_in_closing_is_not_closed_again(tmp_path: Path) -> None:
    harness = Harness(KeyboardInterrupt())
    state = state_of(harness, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        state.close()
    state.close()
    assert harness.closed == 1
