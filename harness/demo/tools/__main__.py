"""``python -m harness.demo.tools``: the shop's tools over standard input and output, with worlds of their own."""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import sys
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from harness.demo.connection import ConnectionReset
from harness.demo.tools import NOT_INSTALLED
from harness.demo.worlds import Worlds

BROKEN = 3
"""The exit code of a checkout that breaks down by ``reset``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until standard input ends; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m harness.demo.tools", description="Tools of the demo shop (MCP).")
    parser.add_argument("--state", default=":memory:", metavar="FILE", help="SQLite file (default: in memory)")
    options = parser.parse_args(arguments)
    try:
        import mcp  # noqa: F401
    except ModuleNotFoundError:
        return _complain(NOT_INSTALLED)
    try:
        worlds = Worlds(options.state)
    except sqlite3.Error as error:
        return _complain(f"cannot use {options.state} as state file: {error}")
    asyncio.run(_serve(worlds))
    worlds.close()
    return 0


async def _serve(worlds: Worlds) -> None:
    from mcp.server.stdio import stdio_server

    from harness.demo.tools.protocol import server_of

    server = server_of(worlds, _break_down)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _break_down(breakdown: Response, _request: Request | None) -> None:
    """End the process instead of a connection, or keep silent for ever."""
    if isinstance(breakdown, ConnectionReset):
        os._exit(BROKEN)
    await asyncio.Event().wait()


def _complain(message: str) -> int:
    print(f"harness.demo.tools: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
