"""models.local: language models that follow scripts, behind the protocols of OpenAI and Anthropic.

Here: the requests, with the key, the model, the question, and the answer, or an error in the provider's shape.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route

from harness.demo.models.brain import MODELS, Model, Move, next_move
from harness.demo.models.chat import CHAT
from harness.demo.models.messages import MESSAGES
from harness.demo.models.protocol import CREATED, BadRequestError, Function, Protocol, Question, Reply, identity
from harness.demo.models.responses import RESPONSES

KEY: Final = "demo-model-key"
"""The key of the models, for ``Authorization: Bearer`` and for ``x-api-key``. It is no secret."""
_KEYLESS: Final = "/keyless"
"""Below this path the same models need no key, as a server on one's own machine needs none."""

_SHAPES: Final = (LookupError, TypeError, AttributeError, ValueError)
"""What a body of another shape raises while it is read."""


async def _list(request: Request) -> Response:
    if not _has_key(request):
        return _refuse_key(MESSAGES if "anthropic-version" in request.headers else CHAT, request)
    data = [_entry(model) for model in MODELS.values()]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
    return JSONResponse({"object": "list", "data": data, **ends})


def _entry(model: Model) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": CREATED,
        "owned_by": "taskspec-demo",
        "type": "model",
        "display_name": model.name,
        "created_at": "2025-11-16T09:00:00Z",
        "context_window": model.window,
    }


async def _ask(protocol: Protocol, request: Request) -> Response:
    if not _has_key(request):
        return _refuse_key(protocol, request)
    sent = await request.body()
    try:
        body = json.loads(sent)
        named = body["model"]
    except _SHAPES as error:
        return _refuse(protocol, 400, "invalid_request", f"The body is no JSON object with a model: {error!r}")
    if not isinstance(named, str) or named not in MODELS:
        message = f"The model `{named}` does not exist. There is {', '.join(MODELS)}."
        return _refuse(protocol, 404, "model_not_found", message)
    try:
        question = protocol.question(body)
    except BadRequestError as error:
        return _refuse(protocol, 400, "invalid_request", str(error))
    except _SHAPES as error:
        return _refuse(protocol, 400, "invalid_request", f"The body has not the shape of a request: {error!r}")
    return _answer(protocol, question, body, identity(sent))


def _answer(protocol: Protocol, question: Question, body: Mapping[str, Any], number: str) -> Response:
    model = MODELS[question.model]
    if question.tokens > model.window:
        message = protocol.overflow(question.tokens, model.window)
        return _refuse(protocol, 400, "context_length_exceeded", message)
    answer = reply(next_move(model, question), question).within(question.longest)
    if question.stream:
        events = protocol.events(question, answer, number, body)
        return StreamingResponse(_each(events), media_type="text/event-stream", headers=_HEADERS)
    return JSONResponse(protocol.answer(question, answer, number), headers=_HEADERS)


_HEADERS: Final = {"Cache-Control": "no-store"}


async def _each(events: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The events from the loop's own thread: a sync iterator would take a thread for each."""
    for data in events:
        yield data


def _has_key(request: Request) -> bool:
    if request.url.path.startswith(f"{_KEYLESS}/"):
        return True
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    return KEY in (bearer, request.headers.get("x-api-key"))


def _refuse_key(protocol: Protocol, request: Request) -> Response:
    given = "authorization" in request.headers or "x-api-key" in request.headers
    message = "The API key is wrong." if given else "There is no API key."
    return _refuse(protocol, 401, "invalid_api_key", f"{message} The key of the demo is {KEY}.")


def _refuse(protocol: Protocol, status: int, code: str, message: str) -> Response:
    return JSONResponse(protocol.error(status, code, message), status_code=status, headers=_HEADERS)


def _post(path: str, protocol: Protocol) -> Route:
    endpoint: Callable[[Request], Any] = partial(_ask, protocol)
    return Route(path, endpoint, methods=["POST"])


_ROUTES = [
    Route("/v1/models", _list, methods=["GET"]),
    _post("/v1/chat/completions", CHAT),
    _post("/v1/responses", RESPONSES),
    _post("/v1/messages", MESSAGES),
]
ROUTES = [*_ROUTES, Mount(_KEYLESS, routes=_ROUTES)]


# Turns a move into a call of one of the offered tools: the arguments are filled in as the tool's schema names them.

_TOOLS: Final[Mapping[str, Sequence[str]]] = {
    "open": ("browser_navigate", "navigate", "open"),
    "click": ("browser_click", "click"),
    "check": ("browser_check", "browser_click", "check", "click"),
    "download": ("browser_download", "browser_click", "download", "click"),
    "type": ("browser_type", "type", "fill"),
    "select": ("browser_select_option", "select"),
    "upload": ("browser_file_upload", "browser_upload", "upload"),
    "press": ("browser_press_key", "press"),
    "wait": ("browser_wait_for", "wait"),
    "wait_a_second": ("browser_wait_for", "wait"),
    "look": ("look",),
    "remember": ("remember",),
    "done": ("done", "task_finish", "finish"),
    "give_up": ("give_up", "task_give_up"),
}
"""Verb -> tools that can do it, the fittest first."""


def reply(move: Move, question: Question) -> Reply:
    """The move as a call; in words only, if no tool of the request can do it."""
    offered = {function.name: function for function in question.functions}
    if move.verb == "call":
        return _called(move, offered)
    tool = next((offered[name] for name in _TOOLS[move.verb] if name in offered), None)
    if tool is None and move.verb == "look":
        return reply(Move("wait_a_second", move.text), question)
    return Reply(move.text) if tool is None else Reply(move.text, tool.name, _arguments(move, tool))


def _called(move: Move, offered: Mapping[str, Function]) -> Reply:
    """The call of a tool of a server; the model gives up on one that it is not offered."""
    name = move.value.replace(".", "__", 1)
    if name in offered:
        return Reply(move.text, name, json.loads(move.arguments or "{}"))
    reason = {"reason": f"I am not offered {move.value}."}
    give_up = next((each for each in _TOOLS["give_up"] if each in offered), None)
    return Reply(reason["reason"], give_up, reason if give_up else {})


def _arguments(move: Move, tool: Function) -> dict[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    values = _values(move)
    found = {name: _fitting(values[name], schema) for name, schema in properties.items() if values.get(name)}
    for name in tool.parameters.get("required", ()):
        if name not in found and name not in values:
            found[name] = _any(properties.get(name, {}))
    return found


def _values(move: Move) -> dict[str, str]:
    """Argument -> value, under every name by which tools ask for it."""
    values = dict.fromkeys(("ref", "target", "selector"), move.ref) | {"element": move.element}
    if move.verb == "wait_a_second":
        return values | {"time": "1", "seconds": "1"}
    if move.verb == "remember":
        return values | dict.fromkeys(("name", "key"), move.key)
    names = ("text", "value", "values", "url", "key", "paths", "path", "find", "reason", "answer", "summary")
    return values | dict.fromkeys(names, move.value or (move.text if move.verb == "done" else ""))


def _fitting(value: str, schema: Mapping[str, Any]) -> Any:
    kinds = _kinds(schema)
    if "string" in kinds or not kinds:
        return value
    if "array" in kinds:
        return [value]
    return float(value) if value.replace(".", "", 1).isdecimal() else value


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a schema allows, also those of its alternatives."""
    kind = schema.get("type", ())
    kinds = {kind} if isinstance(kind, str) else set(kind)
    return kinds.union(*(_kinds(each) for each in schema.get("anyOf", ())))


def _any(schema: Mapping[str, Any]) -> Any:
    """A value for an argument that must be given and that the move says nothing about."""
    if schema.get("enum"):
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    blanks: dict[str, Any] = {"array": [], "object": {}, "boolean": False, "integer": 0, "number": 0}
    return next((blanks[kind] for kind in sorted(_kinds(schema)) if kind in blanks), "")
