"""An agent that takes tasks from a run and buys what they ask for. Usage, with the run's address and a token:

TASKSPEC_TOKEN=... python buy_a_mouse.py ws://127.0.0.1:7890/bridge
"""

import asyncio
import os
import sys

from harness.bridge.client import Bridge, TakenTask, TaskVerdict


def steps(query: str, max_price: int, address: str) -> list[dict[str, str]]:
    """What to do in the shop."""
    return [
        {"act": "open", "url": "http://shop.local/"},
        {"act": "type", "selector": "#search-box", "value": query},
        {"act": "press", "selector": "#search-box", "value": "Enter"},
        {"act": "type", "selector": "#filter-max-price", "value": str(max_price)},
        {"act": "submit", "selector": "#filters", "effect": "read"},
        {"act": "click", "selector": ".product-item .product-link >> nth=0"},
        {"act": "click", "selector": "#add-to-cart", "effect": "write"},
        {"act": "click", "selector": "#checkout-button"},
        {"act": "type", "selector": "#address", "value": address},
        {"act": "select", "selector": "#shipping-speed", "value": "same_day"},
        {"act": "select", "selector": "#payment-card", "value": "PM-1"},
        {"act": "submit", "selector": "#checkout-form", "effect": "write"},
        {"act": "wait", "selector": "#order-id"},
    ]


async def buy(task: TakenTask) -> TaskVerdict:
    """Do the steps one after the other. A step that fails ends the task."""
    for step in steps(**task.inputs):
        outcome = await task.act(step)
        if task.verdict is not None:
            return task.verdict
        if not outcome.passed:
            return await task.give_up(f"{step['act']} {step.get('selector')}: {outcome.message}")
    return await task.finish()


async def main(url: str, token: str) -> None:
    """Take tasks until there are none."""
    async with Bridge(url, token, agent="buy_a_mouse 1.0", tell=lambda line: print(line, file=sys.stderr)) as bridge:
        while (task := await bridge.take()) is not None:
            print(f"{task.task_id}: {task.goal}")
            page = await task.observe()
            print(f"it begins at {page.url}")
            verdict = await buy(task)
            print(f"{task.task_id} {'passed' if verdict.passed else f'failed: {verdict.code}'}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if sys.argv[1:] else "ws://127.0.0.1:7890/bridge", os.environ["TASKSPEC_TOKEN"]))
