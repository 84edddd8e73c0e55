"""OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.demo.models.chat import error, overflow
from harness.demo.models.protocol import (
    CREATED,
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


def _question(body: Body) -> Question:
    if body.get("previous_response_id"):
        raise BadRequestError("This server keeps no responses: send the whole dialogue as input.")
    reader = Reader()
    reader.content(body.get("instructions") or ())
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type", "message")
        if kind == "function_call":
            reader.call(item["call_id"], item["name"], item["arguments"])
        elif kind == "function_call_output":
            reader.result(item["call_id"], item["output"])
        elif kind == "message" and item["role"] != "assistant":
            reader.content(item["content"])
    return reader.question(body, functions_of(body.get("tools") or ()), body.get("max_output_tokens"))


def _answer(question: Question, reply: Reply, identity: str) -> dict[str, Any]:
    items = [_message(identity, [_text(reply.text)], "completed")]
    if reply.function:
        items.append(_call(reply.function, reply.arguments_text, identity, "completed"))
    return _frame(question, identity) | {
        "status": "incomplete" if reply.cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if reply.cut else None,
        "output": items,
        "usage": _usage(question, reply),
    }


def _message(identity: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {"type": "message", "id": f"msg_{identity}", "status": status, "role": "assistant", "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call(name: str, arguments: str, identity: str, status: str) -> dict[str, Any]:
    ids = {"id": f"fc_{identity}", "call_id": f"call_{identity}"}
    return {"type": "function_call", **ids, "name": name, "arguments": arguments, "status": status}


def _events(question: Question, reply: Reply, identity: str, _body: Body) -> Iterator[bytes]:
    for number, data in enumerate(_steps(question, reply, identity)):
        yield event(data | {"sequence_number": number}, data["type"])


def _steps(question: Question, reply: Reply, identity: str) -> Iterator[dict[str, Any]]:
    begun = _frame(question, identity) | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    yield from _text_steps(reply, identity)
    if reply.function:
        yield from _call_steps(reply.function, reply.arguments_text, identity)
    end = "response.incomplete" if reply.cut else "response.completed"
    yield {"type": end, "response": _answer(question, reply, identity)}


def _text_steps(reply: Reply, identity: str) -> Iterator[dict[str, Any]]:
    at = {"item_id": f"msg_{identity}", "output_index": 0, "content_index": 0}
    yield {"type": "response.output_item.added", "output_index": 0, "item": _message(identity, [], "in_progress")}
    yield {"type": "response.content_part.added", **at, "part": _text("")}
    for piece in pieces(reply.text):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": reply.text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": _text(reply.text)}
    item = _message(identity, [_text(reply.text)], "completed")
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}


def _call_steps(name: str, arguments: str, identity: str) -> Iterator[dict[str, Any]]:
    at = {"item_id": f"fc_{identity}", "output_index": 1}
    item = _call(name, "", identity, "in_progress")
    yield {"type": "response.output_item.added", "output_index": 1, "item": item}
    for piece in pieces(arguments):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **at, "name": name, "arguments": arguments}
    item = _call(name, arguments, identity, "completed")
    yield {"type": "response.output_item.done", "output_index": 1, "item": item}


def _frame(question: Question, identity: str) -> dict[str, Any]:
    return {
        "id": f"resp_{identity}",
        "object": "response",
        "created_at": CREATED,
        "model": question.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "temperature": None,
        "top_p": None,
    }


def _usage(question: Question, reply: Reply) -> dict[str, Any]:
    asked, answered = question.tokens, reply.tokens
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + answered,
    }


RESPONSES = Protocol(_question, _answer, _events, error, overflow)
