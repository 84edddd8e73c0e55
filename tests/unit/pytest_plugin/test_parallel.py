"""How many processes share the machine; the end of a session of which tasks ran ahead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.model.settings import Settings
from harness.pytest_plugin.parallel import end, passed_over_lines, processes
from harness.pytest_plugin.role import ROLE, Role
from harness.pytest_plugin.running import pytest_sessionfinish
from harness.pytest_plugin.state import BROWSER, STATE, SessionState
from harness.reporting.redaction import Redactor
from harness.runner.parallel import BrokenTask


def after(monkeypatch: pytest.MonkeyPatch, *left: Any) -> SessionState:
    """A session that has ended; so much is left of what ran ahead."""

    def stop() -> list[Any]:
        if isinstance(left[0], BaseException):
            raise left[0]
        return list(left)

    state = SessionState(Settings())
    harness = SimpleNamespace(archive=SimpleNamespace(redactor=Redactor(secrets=("pssst-1",))), browser="Chromium 1")
    monkeypatch.setattr(SessionState, "harness", lambda _self: harness)
    monkeypatch.setattr(SessionState, "browser", "Chromium 1")
    state.ahead = cast("Any", SimpleNamespace(stop=stop))
    return state


def test_what_could_not_be_finished_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenTask("tasks/b.task.yaml::B-1", OSError("the password pssst-1 is no folder"))
    state = after(monkeypatch, broken)
    end(state)
    [line] = passed_over_lines(state)
    assert line.startswith("ran ahead, could not be finished: B-1 (OSError: the password ")
    assert "pssst-1" not in line


def test_whatever_the_look_ahead_ends_with_the_session_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    state = after(monkeypatch, KeyboardInterrupt())
    state.unjudged.append(cast("pytest.Item", SimpleNamespace(nodeid="t.task.yaml::T")))
    cache = SimpleNamespace(active=True, lastfailed={})
    config = SimpleNamespace(
        stash={STATE: state, ROLE: Role.WORKER},
        workeroutput={},
        pluginmanager=SimpleNamespace(getplugin=lambda _name: cache),
    )
    with pytest.raises(KeyboardInterrupt):
        pytest_sessionfinish(cast("Any", SimpleNamespace(config=config)))
    assert config.workeroutput == {BROWSER: "Chromium 1"}
    assert cache.lastfailed == {"t.task.yaml::T": True}


def test_a_pytest_within_a_worker_of_xdist_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    assert processes(cast("pytest.Config", SimpleNamespace(stash={ROLE: Role.ALONE}))) == 1
    assert processes(cast("pytest.Config", SimpleNamespace(stash={ROLE: Role.WORKER}))) == 4
