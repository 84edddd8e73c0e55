"""world.local: health and the environment API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from harness.demo.visit import document, world_id, worlds
from harness.demo.worlds import Document


async def read(request: Request) -> JSONResponse:
    """GET /env: the whole document of the caller's world."""
    return JSONResponse(document(request))


async def replace(request: Request) -> JSONResponse:
    """PUT /env: the body becomes the document."""
    return await _write(request, patch=False)


async def patch(request: Request) -> JSONResponse:
    """PATCH /env: the body is a merge patch (RFC 7386)."""
    return await _write(request, patch=True)


async def reset(request: Request) -> JSONResponse:
    """POST /env/reset: back to the seed."""
    worlds(request).reset(world_id(request))
    return JSONResponse(document(request))


async def effects(request: Request) -> JSONResponse:
    """GET /effects: how often each tool of the shop has changed the caller's world."""
    return JSONResponse(worlds(request).effects(world_id(request)))


async def _write(request: Request, *, patch: bool) -> JSONResponse:
    try:
        body = _parse(await request.body())
    except ValueError as error:
        return JSONResponse({"error": f"not JSON: {error}"}, status_code=400)
    if not isinstance(body, dict):
        return JSONResponse({"error": f"not a JSON object: found {type(body).__name__}"}, status_code=400)
    world = world_id(request)
    changed = merge(worlds(request).read(world), body) if patch else body
    wrong = objection(changed)
    if wrong:
        return JSONResponse({"error": wrong}, status_code=400)
    worlds(request).replace(world, changed)
    return JSONResponse(document(request))


def _parse(body: bytes) -> Any:
    """Parse JSON; raise ``ValueError`` for anything else, and for text that SQLite cannot store."""
    try:
        value: Any = json.loads(body, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


ROUTES = [
    Route("/env", read, methods=["GET"]),
    Route("/env", replace, methods=["PUT"]),
    Route("/env", patch, methods=["PATCH"]),
    Route("/env/reset", reset, methods=["POST"]),
    Route("/effects", effects),
]


def merge(target: Any, patch: Any) -> Any:
    """Return ``target`` with ``patch`` applied; null removes a member, an array replaces the whole array."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged


# The settings in the document that change how a site behaves, with their allowed values.

_BREAKDOWNS: Final = ("none", "reset", "reset_once", "hang", "hang_once")
_SWITCHES: Final[Mapping[Sequence[str], Sequence[str]]] = {
    ("shop", "settings", "login"): ("optional", "required"),
    ("shop", "settings", "checkout", "before_commit"): _BREAKDOWNS,
    ("shop", "settings", "checkout", "after_commit"): _BREAKDOWNS,
    ("shop", "settings", "returns", "initial_state"): ("approved", "processing", "rejected"),
    ("gov", "settings", "calendar", "widget"): ("grid", "table"),
}


def objection(document: Document) -> str:
    """Return the error in the switches of a document; empty if there is none. A missing switch has its default."""
    for path, allowed in _SWITCHES.items():
        found = _at(document, path)
        if found is not None and found not in allowed:
            return f"{'.'.join(path)}: expected one of {', '.join(allowed)}; found {found!r}"
    return ""


def _at(document: Document, path: Sequence[str]) -> object:
    node: object = document
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    return node
