"""The HTTP face of the bridge: sessions, messages, blobs, and a session's messages as a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from harness.bridge.hub import BridgeHub

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

MayAct = Callable[[Mapping[str, Any]], bool]
"""Whether the ASGI scope of a request has a token that may take tasks."""


def http_routes(hub: BridgeHub, may_act: MayAct) -> list[BaseRoute]:  # noqa: ARG001
    """The routes of the HTTP face."""
    return []
