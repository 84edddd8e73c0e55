"""Takes the browser that was started before the run, by `harness services start --persist` (docs/decisions/010)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from playwright.async_api import Error as PlaywrightError

from harness.browser.arguments import BASE, SEALED
from harness.browser.certificate import ThrowAwayKey
from harness.browser.chromium import Chromium, LocalProcess, kill_tree
from harness.browser.driver import Driver
from harness.browser.executable import find
from harness.browser.tls import TlsFront
from harness.failure import Failed
from harness.settings import BrowserSettings
from harness.warm_offer import KEEPER, OFFER, TEMP, Offer, kept_in

CONNECT_SECONDS = 15.0
SEEN_BY_CHROMIUM = ("TZ", "LANG", "LANGUAGE", "DISPLAY", "WAYLAND_DISPLAY", "HOME", "LD_LIBRARY_PATH", "LD_PRELOAD")
SEEN_BEGINNINGS = ("LC_", "XDG_", "FONTCONFIG_", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "GOOGLE_")
NAME = "the browser kept by `harness services start --persist`"
Fronts = Callable[[ThrowAwayKey, Mapping[str, int]], TlsFront]
"""What answers the https of the run's hosts, with this key, on these ports. Raises OSError for a port that is taken."""


def wanted(
    settings: BrowserSettings, hosts: Mapping[str, int], executable: Path, environ: Mapping[str, str]
) -> dict[str, Any]:
    """All that a browser depends on when it is started. One that is kept sends no UDP.

    Raises OSError when the executable is not there.
    """
    stat = executable.resolve().stat()
    return {
        "playwright": version("playwright"),
        "executable": [str(executable), stat.st_ino, stat.st_size, stat.st_mtime_ns],
        "args": [*BASE, *SEALED, *settings.args],
        "headed": settings.headed,
        "hosts": dict(sorted(hosts.items())),
        "environment": {name: value for name, value in sorted(environ.items()) if _seen(name)},
    }


def _seen(name: str) -> bool:
    return name in SEEN_BY_CHROMIUM or name.startswith(SEEN_BEGINNINGS) or name.lower().startswith(SEEN_BEGINNINGS[3:7])


def chosen(settings: BrowserSettings, own: Path, environ: Mapping[str, str]) -> Path | None:
    """The executable that a run would start; None where it would not come from a path, or there is none."""
    with contextlib.suppress(Failed):
        return None if settings.channel else find(settings, own, environ)
    return None


@dataclass(frozen=True, slots=True)
class Served(LocalProcess):
    """A browser below a server, which has no use without it."""

    server: int

    def kill(self) -> None:
        LocalProcess.kill(self)
        kill_tree(self.server)


class Warm:
    """Takes the browser that is offered, once in a process."""

    def __init__(self, settings: BrowserSettings, folder: Path, guard: Callable[[int], None]) -> None:
        """`guard` is told of the processes that are this run's from then on."""
        self._settings = settings
        self._folder = folder
        self._guard = guard
        self._tried = False
        self.refusal = ""
        """Why it was not taken; empty when there is none."""
        self.described = ""
        """Of the one that was taken: its sandbox."""
        self._taken: Offer | None = None

    async def browser(self, driver: Driver, hosts: Mapping[str, int], fronts: Fronts) -> Chromium | None:
        """The one that is offered, if it is what this run would start, and answers."""
        if self._tried:
            return None
        self._tried = True
        offer = self._claimed(driver, hosts)
        if offer is None:
            return None
        try:
            front = fronts(ThrowAwayKey.of(offer.key), offer.ports)
        except OSError:
            kill_tree(offer.server)
            self.refusal = _not_it("a port of its https is taken")
            return None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._connected(driver, offer, front)
        except (PlaywrightError, TimeoutError):
            await front.close()
            kill_tree(offer.server)
            self.refusal = _not_it("it does not answer")
            return None
        except BaseException:
            await front.close()
            raise

    def pass_over(self) -> None:
        """Say that it is not for a task that needs another browser, when one is kept."""
        if not self._tried and kept_in(self._folder):
            self.refusal = _not_it("it is for tasks with allowed_domains")

    async def close(self) -> None:
        """Remove what the one that was taken has left, also when its keeper was killed meanwhile.

        Its traces are always the run's to remove: they are packed after a crash.
        """
        if self._taken is None:
            return
        await asyncio.to_thread(shutil.rmtree, self._taken.traces, ignore_errors=True)
        if Path(self._taken.temp).name.startswith(TEMP):
            await asyncio.to_thread(shutil.rmtree, self._taken.temp, ignore_errors=True)

    def _claimed(self, driver: Driver, hosts: Mapping[str, int]) -> Offer | None:
        """It is taken with its file, which only one can move away."""
        offer = Offer.read(self._folder / OFFER)
        if offer is None:
            if kept := kept_in(self._folder):
                self.refusal = _not_it(_none_offered(kept))
            return None
        executable = chosen(self._settings, Path(driver.playwright.chromium.executable_path), os.environ)
        here = wanted(self._settings, hosts, executable, os.environ) if executable else {}
        if other := [name for name in offer.fits if offer.fits[name] != here.get(name)]:
            self.refusal = _not_it(f"it differs in {', '.join(other)}")
            return None
        mine = self._folder / f"taken-{os.getpid()}.json"
        try:
            (self._folder / OFFER).rename(mine)
        except OSError:
            self.refusal = _not_it("another run has it")
            return None
        taken = Offer.read(mine)
        mine.unlink()
        if taken is None or not _runs(taken.server, "launch-server"):
            self.refusal = _not_it("it has ended")
            return None
        if taken.fits != offer.fits:  # another one, in the moment between
            kill_tree(taken.server)
            self.refusal = _not_it("another one was just started, which differs")
            return None
        self._guard(taken.server)
        self.described, self._taken = taken.sandbox, taken
        return taken

    async def _connected(self, driver: Driver, offer: Offer, front: TlsFront) -> Chromium:
        browser = await driver.playwright.chromium.connect(offer.url, slow_mo=self._settings.slowmo)
        control = await browser.new_browser_cdp_session()
        if offer.mark not in str((await control.send("SystemInfo.getInfo"))["commandLine"]):
            raise PlaywrightError("another browser answers at its address")
        found = await LocalProcess.of(control)
        for pid in found.pids:
            self._guard(pid)
        process = Served(found.pid, found.group, offer.server)
        return await Chromium.of(browser, control, process, front, Path(offer.traces))


def _none_offered(kept: Mapping[str, Any]) -> str:
    """Why, by what its keeper has written."""
    keeper = kept.get("keeper")
    if kept.get("state") == "failed":
        return f"it did not start: {kept.get('why')}"
    if not (isinstance(keeper, dict) and _runs(int(keeper.get("pid", 0)), KEEPER)):
        return "what keeps it has ended"
    return "another run has it" if kept.get("state") == "ready" else "it is just starting"


def _runs(pid: int, word: str) -> bool:
    """Whether that process is one of ours: a pid that was written down may be somebody else's by now."""
    with contextlib.suppress(psutil.Error):
        return word in psutil.Process(pid).cmdline()
    return False


def _not_it(why: str) -> str:
    return f"not {NAME}: {why}"
