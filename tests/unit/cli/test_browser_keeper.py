"""How a browser is started to be kept, and what is left of it when it is withdrawn."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.browser.certificate import ThrowAwayKey
from harness.cli import browser_keeper
from harness.cli.browser_keeper import Keeping, Started
from harness.settings import Settings
from harness.warm_offer import FOLDER, OFFER, Offer

NO_SANDBOX = "[pid=1][err] No usable sandbox!"


@pytest.fixture
def keeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeping:
    (tmp_path / FOLDER).mkdir(parents=True)
    monkeypatch.setattr(browser_keeper, "no_sandbox_reason", lambda: None)
    monkeypatch.setattr(browser_keeper, "_children", list)
    return Keeping(Settings(root=tmp_path), Path(sys.executable))


def started(keeping: Keeping, folder: Path, mark: str) -> Started:
    """One that is offered under this mark; its own is `mine`."""
    it = Started("mine", ThrowAwayKey.new(), {}, folder / FOLDER / "traces-1", folder / "temp", {}, offered=True)
    it.traces.mkdir()
    it.temp.mkdir()
    if mark:
        Offer("ws://a", mark, "", {}, "", "", 0, {}, "").write(folder / FOLDER)
    keeping._started = it
    return it


def test_of_one_that_nobody_took_nothing_is_left(keeping: Keeping, tmp_path: Path) -> None:
    it = started(keeping, tmp_path, "mine")
    keeping.withdraw()
    assert not list((tmp_path / FOLDER).iterdir())
    assert not it.temp.exists()


@pytest.mark.parametrize("mark", ["", "another"])
def test_the_traces_of_one_that_was_taken_are_the_runs(keeping: Keeping, tmp_path: Path, mark: str) -> None:
    it = started(keeping, tmp_path, mark)
    keeping.withdraw()
    assert it.traces.exists()
    assert not it.temp.exists()
    assert (tmp_path / FOLDER / OFFER).exists() is bool(mark), "what another offers is not ours to withdraw"


def test_without_a_sandbox_when_it_cannot_be_had(keeping: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def server(config: Path, _: Path) -> asyncio.subprocess.Process:
        asked.append(json.loads(config.read_text())["chromiumSandbox"])
        said = NO_SANDBOX if asked[-1] else "[pid=1][err] no display"
        command: list[Any] = [sys.executable, "-c", f"print({said!r})"]
        return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)

    monkeypatch.setattr(browser_keeper, "_server", server)
    assert asyncio.run(keeping._start()) == (None, "the browser does not start: no display")
    assert asked == [True, False]
    keeping.withdraw()
    assert [path.name for path in keeping._folder.iterdir()] == ["kept.json"]


def test_what_the_server_says_later_is_logged_and_holds_it_up_by_no_full_pipe(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import sys; print('ws://127.0.0.1:1/secret', flush=True); print('x' * 5_000_000); print('last words')"

    async def server(_: Path, __: Path) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)

    async def main() -> None:
        assert await keeping._launched() == "ws://127.0.0.1:1/secret"
        assert keeping._started is not None
        assert keeping._started.telling is not None
        async with asyncio.timeout(30):
            await keeping._started.telling
        keeping.withdraw()

    monkeypatch.setattr(browser_keeper, "_server", server)
    asyncio.run(main())
    logged = capsys.readouterr().err
    assert logged.endswith("last words\n")
    assert "secret" not in logged
