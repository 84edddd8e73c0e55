"""`python -m benchmarks.watching URL TOKEN VIEWERS TASKS`: viewers of the next run of a project, until it has ended.

It prints `ready` when it waits for the run, and at its end how many viewers have seen the end of every task.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import httpx2

LIMIT = 900.0
"""Seconds after which the viewers give up."""
POLL = 0.2


async def watch(url: str, token: str, viewers: int, tasks: int) -> int:
    """How many of the viewers have seen so many tasks end in the next run."""
    limits = httpx2.Limits(max_connections=viewers + 1)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=LIMIT) as client:
        before = await _runs(client)
        print("ready", flush=True)
        run = await _next(client, before)
        if run is None:
            return 0
        return sum(await asyncio.gather(*(_view(client, run, tasks) for _ in range(viewers))))


async def _runs(client: httpx2.AsyncClient) -> set[str]:
    return {each["run"] for each in (await client.get("/api/runs")).json()}


async def _next(client: httpx2.AsyncClient, before: set[str]) -> str | None:
    until = time.monotonic() + LIMIT
    while not (new := await _runs(client) - before):
        if time.monotonic() > until:
            return None
        await asyncio.sleep(POLL)
    return max(new)


async def _view(client: httpx2.AsyncClient, run: str, tasks: int) -> bool:
    """Follow the run as the page does; return whether so many tasks have ended."""
    ended = 0
    try:
        async with asyncio.timeout(LIMIT), client.stream("GET", f"/api/runs/{run}/events") as answer:
            async for line in answer.aiter_lines():
                ended += line.startswith("data: ") and json.loads(line[6:])["type"] == "task"
                if ended == tasks:
                    return True
    except (TimeoutError, httpx2.HTTPError):
        pass
    return False


if __name__ == "__main__":
    address, key, *counts = sys.argv[1:]
    print(asyncio.run(watch(address, key, *map(int, counts))))
