"""A channel that is Python code of the project: a callable, or an object with `read` and `write`."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.world.channel import assigned, refused, unreadable


class PythonChannel:
    """`package.module:name`. Called with the world id, it returns the document, or an awaitable of it.

    An object (or a class, which is made once) has `read(world)` instead, and may have `write(world, document)` and
    `reset(world)`. What is not async runs in a thread; after `timeout` seconds nobody waits for it any more.
    """

    def __init__(self, name: str, target: str, *, root: Path, timeout: float) -> None:
        """Raises ValueError when the target is not of this form; it is imported at its first use."""
        module, colon, attribute = target.partition(":")
        if not (module and colon and attribute):
            raise ValueError(f"channel `{name}`: {target!r} must be written `package.module:callable`")
        self._name = name
        self._target = target
        self._module, self._attribute = module, attribute
        self._root = root
        self._timeout = timeout
        self._object: Any = None
        self._writing = asyncio.Lock()

    async def read(self, world: str) -> Any:
        source = await self._guarded("import", self._load)
        document = await self._guarded("read", getattr(source, "read", source), world)
        try:
            return json.loads(json.dumps(document, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise unreadable(self._name, f"{self._target} did not return JSON: {error}", error) from error

    async def write(self, world: str, path: str, value: Any) -> None:
        async with self._writing:
            await self.restore(world, assigned(self._name, await self.read(world), path, value))

    async def restore(self, world: str, document: Any) -> None:
        await self._guarded("write", await self._method("write"), world, document)

    async def reset(self, world: str) -> None:
        await self._guarded("reset", await self._method("reset"), world)

    async def close(self) -> None:
        """Nothing is held open."""

    async def _method(self, name: str) -> Callable[..., Any]:
        method = getattr(await self._guarded("import", self._load), name, None)
        if not callable(method):
            raise refused(self._name, f"{self._target} has no method `{name}`")
        return method  # type: ignore[no-any-return]

    def _load(self) -> Any:
        if self._object is None:
            if str(self._root) not in sys.path:
                sys.path.append(str(self._root))
            found: Any = importlib.import_module(self._module)
            for part in self._attribute.split("."):
                found = getattr(found, part)
            self._object = found() if inspect.isclass(found) else found
        return self._object

    async def _guarded(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """The edge to foreign code: whatever it raises is the channel's failure."""
        try:
            async with asyncio.timeout(self._timeout):
                if inspect.iscoroutinefunction(function):
                    return await function(*arguments)
                result = await asyncio.to_thread(function, *arguments)
                return await result if inspect.isawaitable(result) else result
        except TimeoutError as error:
            problem = f"{self._target}: {what} took longer than {self._timeout:g} s"
            raise unreadable(self._name, problem, error) from error
        except Exception as error:  # foreign code may raise anything
            cause = f"{type(error).__name__}: {error}"
            raise unreadable(self._name, f"{self._target}: {what} failed with {cause}", error) from error
