"""`isolation = "reset"`: the one state of the system under test, put back to its start before a task begins."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.environment.channels import Channels
from harness.environment.python_channel import imported
from harness.recovery.failure import Failed, Failure
from harness.resilience.threads import NOT_CARRIED, on_own_thread

TOLD = 600
"""Characters of a command's output that its failure tells: the last ones."""
ADVICE = (
    "Run by hand, in the project's folder, what `reset` in [tool.harness] names: it must end without an error within"
    " `reset_timeout`."
)
"""What to do about a command or a callable that failed."""


@dataclass(frozen=True, slots=True)
class StateReset:
    """What resets the state of one slot. `timeout` is seconds for all of it."""

    target: tuple[str, ...] | str | None
    """A command, `module:callable`, or None: every channel that can be reset."""
    timeout: float
    root: Path

    async def run(self, channels: Channels, slot: int, hosts: Mapping[str, int], world: str) -> None:
        """Raises Failed(RESET_FAILED)."""
        try:
            async with asyncio.timeout(self.timeout):
                match self.target:
                    case None:
                        await self._channels(channels, world)
                    case str(target):
                        await self._call(target, hosts)
                    case command:
                        await self._command(command, slot, hosts)
        except TimeoutError as error:
            raise Failed(self._failed(f"{self._name} took longer than {self.timeout:g} s", error)) from error

    @property
    def _name(self) -> str:
        match self.target:
            case None:
                return "the reset of the channels"
            case str(target):
                return f"`{target}`"
            case command:
                return f"`{' '.join(command)}`"

    def _failed(self, why: str, cause: BaseException | None = None) -> Failure:
        """With the hint that belongs to a command or a callable; the catalog's speaks of channels."""
        failure = failed(why, cause)
        return failure if self.target is None else replace(failure, advice=ADVICE)

    async def _channels(self, channels: Channels, world: str) -> None:
        try:
            names = await channels.resettable()
            await asyncio.gather(*(channels.reset(name, world) for name in names))
        except Failed as error:
            raise Failed(failed(error.failure.message, error, error.failure.details)) from error
        if not names:
            known = ", ".join(channels.names) or "none"
            message = f"there is nothing to reset: no channel can be reset (channels: {known}), and `reset` is not set"
            raise Failed(failed(message))

    async def _call(self, target: str, hosts: Mapping[str, int]) -> None:
        try:
            function = await on_own_thread(imported, self.root, target)
            arguments = [dict(hosts)] if _takes_hosts(function) else []
            await on_own_thread(_done, function, arguments, self.timeout)
        except TimeoutError:
            raise
        except Exception as error:  # foreign code may raise anything
            carried = isinstance(error, RuntimeError) and isinstance(error.__cause__, NOT_CARRIED)
            own = error.__cause__ if carried else error
            said = f"{type(own).__name__}{f': {own}' if str(own) else ''}"
            raise Failed(self._failed(f"`{target}` failed with {said}", error)) from error

    async def _command(self, command: Sequence[str], slot: int, hosts: Mapping[str, int]) -> None:
        words = [sys.executable if word == "{python}" else word for word in command]
        environment = {**os.environ, "TASKSPEC_SLOT": str(slot), "TASKSPEC_HOSTS": json.dumps(dict(hosts))}
        try:
            process = await asyncio.create_subprocess_exec(
                *words, cwd=self.root, env=environment, start_new_session=True,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
        except OSError as error:
            raise Failed(self._failed(f"{self._name} cannot be started: {error.strerror or error}", error)) from error
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # its time is over: with all that it has started
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            said = output.decode(errors="replace").strip()[-TOLD:]
            raise Failed(self._failed(f"{self._name} ended with {process.returncode}{f': {said}' if said else ''}"))


def failed(why: str, cause: BaseException | None = None, details: Mapping[str, Any] | None = None) -> Failure:
    """The task's failure before its first step."""
    message = f"the state could not be reset before the task: {why}"
    return replace(Failure("RESET_FAILED", message, details=dict(details or {})), cause=cause)


def _done(function: Callable[..., Any], arguments: Sequence[Any], timeout: float) -> None:
    """Call it, to its end. An awaitable has a loop of its own: one that blocks holds up nobody but itself."""
    result = function(*arguments)
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result, timeout))


async def _awaited(result: Awaitable[Any], timeout: float) -> None:
    """Nobody waits any longer than that, so it ends where it can be made to."""
    async with asyncio.timeout(timeout):
        await result


def _takes_hosts(function: Any) -> bool:
    """Whether it wants to know the ports: a callable without parameters does not."""
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True
