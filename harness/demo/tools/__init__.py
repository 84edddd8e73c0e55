"""The tools of the shop (MCP): ``http://shop.local/mcp``, and a program that speaks over stdio."""

from __future__ import annotations

from starlette.routing import Route

from harness.demo.tools.streamable import Door

ROUTES = [Route("/mcp", Door())]
