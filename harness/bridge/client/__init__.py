"""The client of the bridge: an agent in Python that runs elsewhere, and whose connection may be lost at any moment.

It needs `websockets` (`pip install 'pytest-taskspec[serve]'`). `clients/js/bridge.mjs` is its twin in JavaScript.
"""

from __future__ import annotations

from harness.bridge.client.connection import Bridge, LinkState
from harness.bridge.client.losses import (
    BridgeError,
    ConnectionRefusedForGood,
    MessageRefusedError,
    QueueFullError,
    ReconnectionExhausted,
)
from harness.bridge.client.tasks import ActOutcome, RemotePage, TakenTask, TaskVerdict

__all__ = [
    "ActOutcome",
    "Bridge",
    "BridgeError",
    "ConnectionRefusedForGood",
    "LinkState",
    "MessageRefusedError",
    "QueueFullError",
    "ReconnectionExhausted",
    "RemotePage",
    "TakenTask",
    "TaskVerdict",
]
