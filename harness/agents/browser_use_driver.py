"""Lets browser-use do one task. It runs in an interpreter that has browser-use, and not the harness.

Usage: python browser_use_driver.py --cdp ws://... --task "..." --model NAME [--steps 40] [--vision]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from importlib import import_module
from typing import Any

os.environ.setdefault("ANONYMIZED_TELEMETRY", "false")
os.environ.setdefault("BROWSER_USE_CLOUD_SYNC", "false")
os.environ.setdefault("BROWSER_USE_VERSION_CHECK", "false")


async def main(cdp: str, task: str, model: str, steps: int, *, vision: bool) -> int:
    """Do the task; returns 0 if browser-use says that it is done, also if it says that it was not successful."""
    try:
        used: Any = import_module("browser_use")
    except ImportError as error:
        print(f"{sys.executable} has no browser-use ({error}): pip install browser-use", file=sys.stderr)
        return 2
    llm = used.ChatOpenAI(model=model, base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
    session = used.BrowserSession(cdp_url=cdp, keep_alive=True, enable_default_extensions=False)
    agent = used.Agent(task=task, llm=llm, browser_session=session, use_vision=vision, use_judge=False)
    history = await agent.run(max_steps=steps)
    if history.is_done():
        print(f"done: {history.final_result()}")
        return 0
    errors = [each for each in history.errors() if each]
    print(
        f"not done after {len(history.history)} steps: {errors[-1] if errors else 'no step was left'}", file=sys.stderr
    )
    return 1


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cdp", required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--vision", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    sys.exit(asyncio.run(main(given.cdp, given.task, given.model, given.steps, vision=given.vision)))
