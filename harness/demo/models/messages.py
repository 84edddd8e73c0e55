"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from harness.demo.models.protocol import (
    BadRequestError,
    Body,
    Protocol,
    Question,
    Reader,
    Reply,
    event,
    functions_of,
    pieces,
)

_KINDS: Final = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}


def _question(body: Body) -> Question:
    if not isinstance(body.get("max_tokens"), int):
        raise BadRequestError("max_tokens: Field required")
    reader = Reader()
    reader.content(body.get("system") or ())
    for message in body["messages"]:
        blocks = message["content"]
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            if block["type"] == "tool_use":
                reader.call(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False))
            elif block["type"] == "tool_result":
                reader.result(block["tool_use_id"], block.get("content"), failed=bool(block.get("is_error")))
            elif message["role"] == "user":
                reader.content([block])
    functions = functions_of(body.get("tools") or (), "input_schema")
    offered = [] if (body.get("tool_choice") or {}).get("type") == "none" else functions
    return reader.question(body, offered, body["max_tokens"])


def _answer(question: Question, reply: Reply, identity: str) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
    if reply.function:
        blocks.append({"type": "tool_use", **_call(reply.function, identity), "input": reply.arguments})
    return _frame(question, identity) | {
        "content": blocks,
        "stop_reason": _stop(reply),
        "usage": _usage(question, reply.tokens),
    }


def _events(question: Question, reply: Reply, identity: str, _body: Body) -> Iterator[bytes]:
    for data in _steps(question, reply, identity):
        yield event(data, data["type"])


def _steps(question: Question, reply: Reply, identity: str) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": _frame(question, identity) | {"usage": _usage(question, 0)}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "ping"}
    for piece in pieces(reply.text):
        yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}
    yield {"type": "content_block_stop", "index": 0}
    if reply.function:
        block: dict[str, Any] = {"type": "tool_use", **_call(reply.function, identity), "input": {}}
        yield {"type": "content_block_start", "index": 1, "content_block": block}
        for piece in pieces(reply.arguments_text):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "index": 1, "delta": delta}
        yield {"type": "content_block_stop", "index": 1}
    end = {"stop_reason": _stop(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": reply.tokens}}
    yield {"type": "message_stop"}


def _frame(question: Question, identity: str) -> dict[str, Any]:
    return {
        "id": f"msg_{identity}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _call(name: str, identity: str) -> dict[str, Any]:
    return {"id": f"toolu_{identity}", "name": name}


def _stop(reply: Reply) -> str:
    if reply.cut:
        return "max_tokens"
    return "tool_use" if reply.function else "end_turn"


def _usage(question: Question, answered: int) -> dict[str, Any]:
    return {
        "input_tokens": question.tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": answered,
    }


def _error(status: int, _code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": _KINDS[status], "message": message}}


def _overflow(tokens: int, window: int) -> str:
    return f"prompt is too long: {tokens} tokens > {window} maximum"


MESSAGES = Protocol(_question, _answer, _events, _error, _overflow)
