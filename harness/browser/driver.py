"""Playwright's driver process: its start, whether it still answers, and its end.

Every call to a browser goes through it. A driver that is lost would let all of them wait for ever: Playwright's own
timeouts run in the driver, and its own signals of life are wrong when it is killed. So the process is watched, and one
that is lost is killed with its browsers: that ends its pipe, and with it every call that waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import platformdirs
import psutil
from msgspec import Struct
from playwright.async_api import Playwright, async_playwright

from harness.browser import isolated
from harness.browser.bounded import bounded
from harness.browser.executable import first_line
from harness.browser.os_process import is_gone, is_stopped, kill_tree, process_seconds, status
from harness.recovery.failure import Failure
from harness.resilience import SystemClock, poll_until

T = TypeVar("T")


class DriverLoss(Struct, frozen=True):
    """Why the driver, and with it every browser, cannot be asked any more."""

    how: str
    message: str
    advice: str = ""
    code: str = "BROWSER_UNRESPONSIVE"

    def failure(self) -> Failure:
        """The failure of whoever needs a browser."""
        return Failure(self.code, self.message, details={"driver": self.how}, advice=self.advice, tainted=True)


GONE = DriverLoss("gone", "Playwright's driver process is gone", code="DRIVER_GONE")
_STOPPED = DriverLoss(
    "stopped",
    "Playwright's driver process is stopped (SIGSTOP), so the browser cannot be asked",
    "Something has stopped the driver, a process `node ... run-driver`: a debugger, a job control, a paused container.",
)
SILENT = DriverLoss(
    "silent",
    "Playwright's driver process does not answer, so the browser cannot be asked",
    "The driver, a process `node ... run-driver`, hangs: look at the machine's memory and load.",
)
_UNREADABLE = DriverLoss(
    "unreadable",
    "Playwright's driver has closed its pipe, or what it sends cannot be read",
    "Look at what stands between: if PLAYWRIGHT_NODEJS_PATH names a wrapper, it must pass on both streams unchanged.",
)


class DriverLostError(Exception):
    """A call that the driver will not answer."""

    def __init__(self, loss: DriverLoss) -> None:
        super().__init__(loss.message)
        self.loss = loss


# Whether a call will still be answered.

_LOOK_SECONDS = 0.5
"""Seconds between two looks at a driver that has not answered yet."""
_STOPPED_LOOKS = 2
"""Looks in a row that find it stopped: after Ctrl-Z and `fg` one look may come before the driver goes on."""
_IDLE_LOOKS = 16
"""Looks between which it used no processor time, though it has something to answer: it hangs. On a busy machine a
driver that works uses some.
"""
_SILENT_LOOKS = 60
"""Looks without an answer after which it is lost, whatever it does."""
_UNPROMPT_LOOKS = 2
"""Looks without an answer after which it is to blame for a browser that does not answer."""
_BEAT_SECONDS = 2.0
"""Seconds from an answer to the next question."""


class Looks:
    """The looks at a driver that has not answered yet. They are counted, not their seconds: while this process itself
    is suspended, or a busy machine does not let it look, nothing is known about the driver.
    """

    def __init__(self) -> None:
        self.silent = self._stopped = self._idle = 0
        self._used = 0.0

    def judge(self, pid: int | None) -> DriverLoss | None:
        """Look once; returns why no answer will come, if that is clear."""
        found = None if pid is None else status(pid)
        if pid is not None and is_gone(found):
            return GONE
        stopped = is_stopped(found)
        used = process_seconds(pid) if pid is not None else 0.0
        self._stopped = self._stopped + 1 if stopped else 0
        self._idle = self._idle + 1 if used == self._used else 0
        self._used = used
        self.silent += 1
        if self._stopped >= _STOPPED_LOOKS:
            return _STOPPED
        return SILENT if self._idle >= _IDLE_LOOKS or self.silent >= _SILENT_LOOKS else None


async def _answered(call: Coroutine[Any, Any, T], pid: Callable[[], int | None], looks: Looks | None = None) -> T:
    """The result of a call that the driver answers. Raises DriverLostError if it will not, and what the call raises."""
    looks, running = looks or Looks(), asyncio.ensure_future(call)
    try:
        while not running.done():
            await asyncio.wait({running}, timeout=_LOOK_SECONDS)
            if not running.done() and (loss := looks.judge(pid())):
                raise DriverLostError(loss)
        return running.result()
    finally:
        running.cancel()


# The process.

_STOP_SECONDS = 2.0
_ENDING_SECONDS = 0.1
"""Seconds within which a process whose pipe has ended is gone, if it has ended."""
_FORGOTTEN = ("Connection closed while reading from the driver", "Target page, context or browser has been closed")
"""Errors of calls whose caller was cancelled, and that the driver could not answer because it was ended."""
_COMPILED = "NODE_COMPILE_CACHE"

_STARTING: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""One driver starts at a time: its environment is this process's, and it is known by being the new child."""


@dataclass(slots=True, eq=False)
class Driver:
    """A started Playwright, and what is known about its process."""

    playwright: Playwright
    pid: int | None
    """None: it is not a process of ours, and is not watched."""
    lost: DriverLoss | None = None
    """Why it was given up."""
    _looks: Looks = field(default_factory=Looks)
    _watch: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, temp: Path, on_lost: Callable[[Driver], None] = lambda _: None) -> Driver:
        """Start Playwright; the driver's temporary files go below `temp`. Raises DriverLostError.

        `on_lost` is called once if it does not answer any more; its browsers must be killed then.
        """
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(exception_handler)
        async with _STARTING.setdefault(loop, asyncio.Lock()):
            before = _driver_pids()

            def pid() -> int | None:
                return next(iter(_driver_pids() - before), None)

            try:
                with _environment_of_driver(temp):
                    playwright = await _answered(_started(), pid)
            except BaseException:
                await _end(pid())
                raise
            driver = cls(playwright, pid())
        if driver.pid is not None:
            driver._watch = loop.create_task(driver._keep_watch(on_lost))
        return driver

    @property
    def loss(self) -> DriverLoss | None:
        """Why it cannot be asked any more, as far as that is known at once. None: it runs."""
        if self.lost is not None or self.pid is None:
            return self.lost
        found = status(self.pid)
        return GONE if is_gone(found) else _STOPPED if is_stopped(found) else None

    @property
    def alive(self) -> bool:
        """Whether the process runs. A stopped one (SIGSTOP) counts as gone: only its parent could resume it."""
        return self.loss is None

    @property
    def silent(self) -> bool:
        """Whether it owes an answer for some time already."""
        return self._looks.silent >= _UNPROMPT_LOOKS

    async def answers(self) -> bool:
        """Return whether the process runs and answers, however late on a busy machine; `lost` says why it does not."""
        try:
            if loss := self.loss:
                raise DriverLostError(loss)
            await _answered(self._ask(), lambda: self.pid)
        except DriverLostError as lost:
            self.lost = self.lost or lost.loss
        return self.lost is None

    async def examine(self, seconds: float) -> None:
        """Find out whether its pipe has ended, if that takes no longer."""
        try:
            async with asyncio.timeout(seconds):
                await self._ask()
        except DriverLostError as lost:
            self.lost = self.lost or lost.loss
        except TimeoutError:
            return

    async def _keep_watch(self, on_lost: Callable[[Driver], None]) -> None:
        """Ask again and again, until there is no answer."""
        while True:
            try:
                await _answered(self._ask(), lambda: self.pid, self._looks)
                self._looks = Looks()
                await _answered(SystemClock().sleep(_BEAT_SECONDS), lambda: self.pid)
            except DriverLostError as lost:
                self.lost = self.lost or lost.loss
                return on_lost(self)

    async def _ask(self) -> None:
        """One question and its answer. Raises DriverLostError if the pipe has ended.

        Playwright raises the error of an earlier event at the next call, whichever that is: then it is asked again.
        """
        for _ in range(2):
            try:
                await (await self.playwright.request.new_context()).dispose()
            except Exception:  # noqa: BLE001, S112 - Playwright raises all kinds when its driver is gone
                continue
            return
        await SystemClock().sleep(_ENDING_SECONDS)
        raise DriverLostError(self.loss or _UNREADABLE)

    def kill(self) -> None:
        """Kill the driver and its browsers now."""
        if self.pid is not None:
            kill_tree(self.pid)

    def kill_browsers(self, *, but: Collection[int]) -> None:
        """Kill the browsers that it has started, but not those whose pid is known."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children() if self.pid is not None else ():
                if child.pid not in but:
                    kill_tree(child.pid)

    async def stop(self) -> None:
        """Stop within STOP_SECONDS; then kill."""
        if self._watch is not None:
            self._watch.cancel()
        if self.alive:
            await bounded(self.playwright.stop(), _STOP_SECONDS, None)
        await _end(self.pid)


async def _end(pid: int | None) -> None:
    """Kill a driver with its browsers, and wait until the loop that started it knows: it may be closed after that."""
    if pid is not None:
        kill_tree(pid)
        await poll_until(SystemClock(), lambda: not psutil.pid_exists(pid), 0.01, _STOP_SECONDS)


async def _started() -> Playwright:
    try:
        playwright = await async_playwright().start()
        await isolated.register(playwright)
    except Exception as error:  # Playwright raises all kinds when its driver does not start
        message = f"Playwright's driver does not start: {first_line(error)}"
        raise DriverLostError(DriverLoss("not started", message, code="BROWSER_LAUNCH_FAILED")) from error
    return playwright


def exception_handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors that nothing awaits, like asyncio, but not those of calls that Playwright abandons at its end."""
    if not any(text in str(context.get("exception", "")) for text in _FORGOTTEN):
        loop.default_exception_handler(context)


def _driver_pids() -> set[int]:
    found = set()
    for child in psutil.Process().children():
        try:
            if "run-driver" in child.cmdline():
                found.add(child.pid)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


@contextmanager
def _environment_of_driver(temp: Path) -> Iterator[None]:
    """Set what the driver takes only from the environment: its temporary folder, and where Node keeps compiled code.

    With its code compiled before, it starts with a sixth less processor time. A folder that a project names stays.
    """
    compiled = os.environ.get(_COMPILED, str(Path(platformdirs.user_cache_dir("pytest-taskspec")) / "node"))
    ours = {"TMPDIR": str(temp), _COMPILED: compiled}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
