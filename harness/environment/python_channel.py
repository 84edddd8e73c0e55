"""A channel that is Python code of the project: callables, or an object with `read` and `write`."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from harness.environment.channel import Channel, SlotPlaceholders, refusal, rejected, unreadable
from harness.resilience.threads import on_own_thread
from harness.values import map_texts


def imported(root: Path, target: str) -> Any:
    """Import `package.module:name`; modules of the project at `root` are found too. Raises the errors of the import."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    module, _, attribute = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


class PythonChannel(Channel):
    """`package.module:name`. Called with the world id, it returns the document, or an awaitable of it.

    An object (or a class, which is instantiated once) has `read(world)` instead, and may have `write(world, document)`
    and `reset(world)`. `restore`, if given, is the callable that writes. Each call also gets the `arguments` of the
    settings as keyword arguments. Synchronous code runs in a thread of its own; after `timeout` seconds it is no longer
    waited for, not even at the end of the process.

    It is called once at a time, also by parallel tasks, since foreign code may not be safe for that. A thread whose
    caller has given up holds up the others for at most `timeout`. Waiting for others does not count against `timeout`.
    """

    def __init__(
        self,
        name: str,
        target: str,
        *,
        restore: str | None = None,
        root: Path,
        timeout: float,
        arguments: Mapping[str, JsonValue],
        places: SlotPlaceholders,
    ) -> None:
        """`arguments` are keyword arguments of each call, whose texts `places` fills in.

        Raises ValueError if a target is not of this form; it is imported at its first use.
        """
        for each in (target, restore):
            if each is not None and not all(each.partition(":")):
                raise ValueError(f"channel `{name}`: {each!r} must be written `package.module:callable`")
        super().__init__(name)
        self._target, self._restore, self._root, self._timeout = target, restore, root, timeout
        self._arguments, self._places = arguments, places
        self._objects: dict[str, Any] = {}
        self._importing = asyncio.Lock()
        self._calling = asyncio.Lock()
        self._call: asyncio.Task[Any] | None = None
        """The call that holds the lock while a thread runs."""

    async def read(self, world: str) -> Any:
        source = await self._object(self._target)
        document = await self._call_told(self._target, "read", getattr(source, "read", source), world)
        try:
            return json.loads(json.dumps(document, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise rejected(self._name, f"{self._target} did not return JSON: {error}", error) from error

    async def writable(self) -> bool:
        return self._restore is not None or callable(getattr(await self._object(self._target), "write", None))

    async def resettable(self) -> bool:
        return callable(getattr(await self._object(self._target), "reset", None))

    async def restore(self, world: str, document: Any) -> None:
        # Foreign code may keep the object and change it later; the saved state must not change.
        await super().restore(world, json.loads(json.dumps(document)))

    async def reset(self, world: str) -> None:
        await self._call_told(self._target, "reset", await self._method("reset"), world)

    async def close(self) -> None:
        """There is nothing to close; a thread that is no longer waited for is left alone."""
        if self._call is not None and not self._call.done():
            self._call.cancel()
            await asyncio.wait([self._call], timeout=self._timeout)

    async def _replace(self, world: str, document: Any) -> None:
        if self._restore is None:
            await self._call_told(self._target, "write", await self._method("write"), world, document)
        else:
            await self._call_told(self._restore, "restore", await self._object(self._restore), world, document)

    async def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(await self._object(self._target), name, None)
        if not callable(method):
            way = "; name a callable for that in the channel's `restore`" if name == "write" else ""
            raise refusal(self._name, f"{self._target} has no method `{name}`{way}")
        return method  # type: ignore[no-any-return]

    async def _object(self, target: str) -> Any:
        async with self._importing:  # a class is created once, whichever task needs it first
            if target not in self._objects:

                def made() -> Any:
                    found = imported(self._root, target)
                    return found() if inspect.isclass(found) else found

                self._objects[target] = await self._call_guarded(target, "import", made)
        return self._objects[target]

    async def _call_told(self, target: str, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call foreign code with the arguments of the settings too."""
        try:
            told = map_texts(dict(self._arguments), self._places.fill)
        except OSError as error:
            raise rejected(self._name, f"the folder of a service cannot be used: {error}", error) from error
        return await self._call_guarded(target, what, partial(function, **told), *arguments)

    async def _call_guarded(self, target: str, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call foreign code: whatever it raises becomes the channel's failure."""
        call = partial(self._call_bounded, target, what, function, *arguments)
        if inspect.iscoroutinefunction(function):
            async with self._calling:
                return await call()
        await self._calling.acquire()
        self._call = asyncio.create_task(call())
        self._call.add_done_callback(lambda _: self._calling.release())
        return await asyncio.shield(self._call)

    async def _call_bounded(self, target: str, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                if inspect.iscoroutinefunction(function):
                    return await function(*arguments)
                result = await on_own_thread(function, *arguments)
                return await result if inspect.isawaitable(result) else result
        except (Exception, SystemExit) as error:  # foreign code may raise anything
            if limit.expired():
                problem = f"{target}: {what} took longer than {self._timeout:g} s"
                raise unreadable(self._name, problem, error) from error
            cause = f"{type(error).__name__}: {error}"
            raise rejected(self._name, f"{target}: {what} failed with {cause}", error) from error
