"""The browser that `harness services start --persist` keeps ready beside the services: started, looked at, ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.reporting.names import shown_path
from harness.resilience import Clock, Deadline, SystemClock
from harness.services.identity import Identity
from harness.warm_offer import FOLDER, KEEPER, KEPT, OFFER, TEMP, kept_in, write_private

POLL = 0.05
ENDED_WITHIN = 5.0
AGAIN = "`harness services stop`, then `start --persist`"


@dataclass(frozen=True, slots=True)
class Keeper:
    """What is written of the process that keeps a browser."""

    folder: Path

    def identity(self) -> Identity | None:
        """Who it says that it is; None when there is none."""
        return _identity(kept_in(self.folder).get("keeper"))

    def say(self, state: str, why: str = "", server: Identity | None = None, temp: str = "") -> None:
        """Of this very process: what it has come to, and what is left to be ended and removed should it be killed."""
        me = Identity.of(os.getpid())
        assert me is not None
        left = {"server": asdict(server) if server else None, "temp": temp}
        self._write({"keeper": asdict(me), "state": state, "why": why, **left})

    def appoint(self, process: Identity) -> None:
        """What it says of itself meanwhile stays."""
        if self.identity() != process:
            self._write({"keeper": asdict(process), "state": "starting", "why": ""})

    def forget(self) -> None:
        (self.folder / KEPT).unlink(missing_ok=True)

    def line(self, log: Path) -> str:
        """For `status`; empty when none was to be kept. `log` is what the keeper writes to."""
        said, keeper = kept_in(self.folder), self.identity()
        if keeper is None:
            return ""
        state, why = said.get("state"), said.get("why")
        if state == "failed":
            return f"browser: failed: {why} ({shown_path(log)}); {AGAIN}"
        if not keeper.alive:
            return f"browser: gone: its keeper ended ({shown_path(log)}); {AGAIN}"
        if state == "ready" and not (self.folder / OFFER).exists():
            state = "taken by a run; the next one is started when that has ended"
        return f"browser: {state}, kept by pid {keeper.pid} for the next run"

    def taken(self) -> bool:
        """Whether a run has the browser, and it lives: then it is that run's, also when its keeper was killed."""
        server = self.server()
        ready = kept_in(self.folder).get("state") == "ready"
        return ready and not (self.folder / OFFER).exists() and server is not None and server.alive

    def server(self) -> Identity | None:
        """The process that answers for the browser."""
        return _identity(kept_in(self.folder).get("server"))

    def sweep(self) -> None:
        """End and remove all that a keeper that has ended left behind."""
        server = self.server()
        if server is not None and server.alive:
            from harness.browser.chromium import end_tree  # Playwright is loaded only when there is one to end

            end_tree(server.pid)
        temp = Path(str(kept_in(self.folder).get("temp") or "."))
        if temp.name.startswith(TEMP):
            shutil.rmtree(temp, ignore_errors=True)
        for traces in self.folder.glob("traces-*"):
            shutil.rmtree(traces, ignore_errors=True)
        for pattern in (OFFER, "taken-*.json", "launch.json", "*.json.*"):
            for file in self.folder.glob(pattern):
                file.unlink(missing_ok=True)

    def _write(self, said: dict[str, object]) -> None:
        write_private(self.folder / KEPT, said)


def start(root: Path, log: Path) -> None:
    """Have one kept, if none is. It comes up by itself: nobody waits for it."""
    keeper = Keeper(root / FOLDER)
    if (old := keeper.identity()) and old.alive:
        return
    if not keeper.taken():
        keeper.sweep()
    keeper.folder.mkdir(parents=True, exist_ok=True)
    keeper.folder.chmod(0o700)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", KEEPER, str(root)],
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
    keeper.sweep()
    keeper.forget()
    return alive


def _identity(said: object) -> Identity | None:
    """One that was written down."""
    if isinstance(said, dict):
        with contextlib.suppress(TypeError):
            return Identity(**said)
    return None
