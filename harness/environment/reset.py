"""`isolation = "reset"`: resets the one state of the system under test before a task begins."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from harness.environment.channels import Channels
from harness.environment.python_channel import imported
from harness.recovery.failure import Failed, Failure
from harness.resilience.process import Program
from harness.resilience.threads import NOT_CARRIED, on_own_thread
from harness.values import replace

TOLD_LINES, TOLD = 20, 2000
"""The numbers of last lines and of last characters of a command's output that its failure shows."""
_PYTHON = re.compile(r"(?<!\$)\{(?:(\{python\})\}|python\})")
"""The placeholder of the interpreter; `{{python}}` is the text `{python}`."""
_ADVICE = (
    "Run the `reset` of [tool.harness] by hand in the project's folder: it must end without an error "
    "within `reset_timeout`."
)
"""The advice after a failed callable."""


class StateReset(Struct, frozen=True):
    """Resets the state of one slot. `timeout` is in seconds for all of it."""

    target: tuple[str, ...] | str | None
    """A command, `module:callable`, or None: every channel that can be reset."""
    timeout: float
    root: Path

    async def run(self, channels: Channels, slot: int, hosts: Mapping[str, int], world: str) -> None:
        """Reset the state. Raises Failed(RESET_FAILED)."""
        if isinstance(self.target, tuple):
            words = [_PYTHON.sub(lambda found: found[1] or sys.executable, word) for word in self.target]
            environment = {"TASKSPEC_SLOT": str(slot), "TASKSPEC_HOSTS": json.dumps(dict(hosts))}
            program = Program(words, environment, self.root)
            await run_reset_command(program, self.timeout, "the `reset` of [tool.harness]")
            return
        try:
            async with asyncio.timeout(self.timeout):
                await (self._channels(channels, world) if self.target is None else self._call(self.target, hosts))
        except TimeoutError as error:
            name = "the reset of the channels" if self.target is None else f"`{self.target}`"
            raise Failed(self._reset_failed(f"{name} took longer than {self.timeout:g} s", error)) from error

    def _reset_failed(self, why: str, cause: BaseException | None = None) -> Failure:
        """The failure, with advice about a callable; the catalog's advice is about channels."""
        failure = reset_failure(why, cause)
        return failure if self.target is None else replace(failure, advice=_ADVICE)

    async def _channels(self, channels: Channels, world: str) -> None:
        try:
            names = await channels.resettable()
            await asyncio.gather(*(channels.reset(name, world) for name in names))
        except Failed as error:
            raise Failed(reset_failure(error.failure.message, error, error.failure.details)) from error
        if not names:
            known = ", ".join(channels.names) or "none"
            message = f"there is nothing to reset: no channel can be reset (channels: {known}), and `reset` is not set"
            raise Failed(reset_failure(message))

    async def _call(self, target: str, hosts: Mapping[str, int]) -> None:
        try:
            function = await on_own_thread(imported, self.root, target)
            arguments = [dict(hosts)] if _takes_hosts(function) else []
            await on_own_thread(_call_and_wait, function, arguments, self.timeout)
        except TimeoutError:
            raise
        except Exception as error:  # foreign code may raise anything
            carried = isinstance(error, RuntimeError) and isinstance(error.__cause__, NOT_CARRIED)
            own = error.__cause__ if carried else error
            said = f"{type(own).__name__}{f': {own}' if str(own) else ''}"
            raise Failed(self._reset_failed(f"`{target}` failed with {said}", error)) from error


async def run_reset_command(program: Program, seconds: float, name: str) -> None:
    """Run a command that resets the state to its end; `name` says whose it is. Raises Failed(RESET_FAILED)."""
    try:
        problem = await _run_to_end(program, seconds)
    except OSError as error:
        problem = f"cannot be started: {error.strerror or error}"
    if problem:
        told = f"{name}, `{shlex.join(program.command)}` in {program.cwd.absolute()}, {problem}"
        advice = f"Run this command by hand in that folder: it must end with exit status 0 within {seconds:g} s"
        raise Failed(replace(reset_failure(told), advice=f"{advice} (`reset_timeout`)."))


async def _run_to_end(program: Program, seconds: float) -> str:
    """Run a command; return what went wrong in words, or "". Raises OSError if it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        *program.command, cwd=program.cwd, env={**os.environ, **program.environment}, start_new_session=True,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        return f"took longer than {seconds:g} s and was ended"
    finally:
        if process.returncode is None:  # end it with all processes that it has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode == 0:
        return ""
    last = "\n".join(output.decode(errors="replace").strip().splitlines()[-TOLD_LINES:])[-TOLD:]
    return f"ended with exit status {process.returncode}. Its last lines:\n{last or '(it wrote nothing)'}"


def reset_failure(why: str, cause: BaseException | None = None, details: Mapping[str, Any] | None = None) -> Failure:
    """The failure of the task before its first step."""
    message = f"the state could not be reset before the task: {why}"
    return replace(Failure("RESET_FAILED", message, details=dict(details or {})), cause=cause)


def _call_and_wait(function: Callable[..., Any], arguments: Sequence[Any], timeout: float) -> None:
    """Call the function and wait for its end. An awaitable gets a loop of its own, so that it blocks no other."""
    result = function(*arguments)

    async def wait() -> None:
        async with asyncio.timeout(timeout):  # then it is cancelled if possible
            await result

    if inspect.isawaitable(result):
        asyncio.run(wait())


def _takes_hosts(function: Any) -> bool:
    """Return whether the callable takes the ports: one without parameters does not."""
    try:
        return bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return True
