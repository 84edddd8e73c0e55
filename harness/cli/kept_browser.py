"""The browser that `harness services start --persist` keeps ready beside the services: started, looked at, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from harness.resilience import Clock, Deadline, SystemClock
from harness.services.identity import Identity
from harness.warm_offer import FOLDER, KEPT, OFFER, Offer, write_private

POLL = 0.05
ENDED_WITHIN = 5.0


@dataclass(frozen=True, slots=True)
class Keeper:
    """What is written of the process that keeps a browser."""

    folder: Path

    def identity(self) -> Identity | None:
        """Who it says that it is; None when there is none."""
        said = self._said()
        if isinstance(keeper := said.get("keeper"), dict):
            with contextlib.suppress(TypeError):
                return Identity(**keeper)
        return None

    def say(self, state: str, why: str = "") -> None:
        """Of this very process: what it has come to."""
        me = Identity.of(os.getpid())
        assert me is not None
        self._write({"keeper": asdict(me), "state": state, "why": why})

    def appoint(self, process: Identity) -> None:
        self._write({"keeper": asdict(process), "state": "starting", "why": ""})

    def forget(self) -> None:
        (self.folder / KEPT).unlink(missing_ok=True)

    def line(self) -> str:
        """For `status`; empty when none was to be kept."""
        said, keeper = self._said(), self.identity()
        if keeper is None:
            return ""
        if not keeper.alive:
            return "browser: gone: its keeper ended; `harness services stop`, then `start --persist`"
        state, why = said.get("state"), said.get("why")
        if state == "ready" and not (self.folder / OFFER).exists():
            state = "taken by a run; the next one is started when that has ended"
        return f"browser: {state}{f': {why}' if why else ''}, kept by pid {keeper.pid} for the next run"

    def _said(self) -> dict[str, object]:
        with contextlib.suppress(OSError, ValueError):
            said = json.loads((self.folder / KEPT).read_text("utf-8"))
            return said if isinstance(said, dict) else {}
        return {}

    def _write(self, said: dict[str, object]) -> None:
        write_private(self.folder / KEPT, said)


def start(root: Path, log: Path) -> None:
    """Have one kept, if none is. It comes up by itself: nobody waits for it."""
    keeper = Keeper(root / FOLDER)
    if (old := keeper.identity()) and old.alive:
        return
    keeper.folder.mkdir(parents=True, exist_ok=True)
    keeper.folder.chmod(0o700)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.cli.browser_keeper", str(root)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=root,
            start_new_session=True,
        )
    if identity := Identity.of(process.pid):
        keeper.appoint(identity)


async def stop(root: Path, clock: Clock | None = None) -> bool:
    """End the keeper and its browser; whether there was one. Raises TimeoutError."""
    keeper, clock = Keeper(root / FOLDER), clock or SystemClock()
    process = keeper.identity()
    if process is None:
        return False
    alive = process.alive
    if alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)
        deadline = Deadline.after(ENDED_WITHIN, clock.now())
        while process.alive:
            if not deadline.allows(POLL, clock.now()):
                raise TimeoutError(f"pid {process.pid}, which keeps a browser, does not end")
            await clock.sleep(POLL)
    _end_orphan(keeper.folder / OFFER)
    keeper.forget()
    return alive


def _end_orphan(file: Path) -> None:
    """The browser of a keeper that was killed."""
    offer = Offer.read(file)
    if offer is not None:
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if "launch-server" in psutil.Process(offer.server).cmdline():
                os.kill(offer.server, signal.SIGTERM)  # it ends its browser
        file.unlink(missing_ok=True)
