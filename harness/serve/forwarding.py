"""The route through which an agent's process asks models."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from harness.model.inference import ForwardedRequest, ForwardsRequests

MODELS: Final = "/models"
"""The path below which the APIs of the providers are served."""
_LONGEST_QUESTION: Final = 32 * 1024 * 1024
"""Bytes of one request, as the providers allow them."""


def forwarding_routes(gateway: ForwardsRequests) -> list[BaseRoute]:
    """The routes of the gateway."""

    async def endpoint(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > _LONGEST_QUESTION:
                return JSONResponse({"error": {"message": f"more than {_LONGEST_QUESTION} bytes"}}, 413)
        path = request.scope["path"].removeprefix(MODELS)
        answer = await gateway.forward(ForwardedRequest(request.method, path, dict(request.headers), bytes(body)))
        return StreamingResponse(answer.chunks, answer.status, answer.headers)

    return [Route(MODELS + "/{path:path}", endpoint, methods=["GET", "POST"])]
