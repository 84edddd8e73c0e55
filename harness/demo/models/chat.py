"""OpenAI's Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
    if body.get("n", 1) != 1:
        raise BadRequestError("Only n = 1 is supported.")
    reader = Reader()
    for message in body["messages"]:
        if message["role"] == "tool":
            reader.result(message["tool_call_id"], message["content"])
            continue
        if message["role"] != "assistant":
            reader.content(message["content"])
        for call in message.get("tool_calls") or ():
            reader.call(call["id"], call["function"]["name"], call["function"]["arguments"])
    functions = functions_of([tool["function"] for tool in body.get("tools") or ()])
    return reader.question(body, functions, body.get("max_completion_tokens") or body.get("max_tokens"))


def _answer(question: Question, reply: Reply, identity: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.function:
        call = {"name": reply.function, "arguments": reply.arguments_text}
        message["tool_calls"] = [{"id": f"call_{identity}", "type": "function", "function": call}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return _frame(question, identity, "chat.completion") | {"choices": [choice], "usage": _usage(question, reply)}


def _events(question: Question, reply: Reply, identity: str, body: Body) -> Iterator[bytes]:
    frame = _frame(question, identity, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(frame | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in pieces(reply.text):
        yield chunk({"content": piece})
    if reply.function:
        start = {"index": 0, "id": f"call_{identity}", "type": "function"}
        yield chunk({"tool_calls": [start | {"function": {"name": reply.function, "arguments": ""}}]})
        for piece in pieces(reply.arguments_text):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event(frame | {"choices": [], "usage": _usage(question, reply)})
    yield event("[DONE]")


def _frame(question: Question, identity: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{identity}", "object": kind, "created": CREATED, "model": question.model}


def _finish(reply: Reply) -> str:
    if reply.cut:
        return "length"
    return "tool_calls" if reply.function else "stop"


def _usage(question: Question, reply: Reply) -> dict[str, Any]:
    asked, answered = question.tokens, reply.tokens
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def error(status: int, code: str, message: str) -> dict[str, Any]:
    """An error as OpenAI words it."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def overflow(tokens: int, window: int) -> str:
    """A request that is too long, as OpenAI words it."""
    return (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. "
        "Please reduce the length of the messages."
    )


CHAT = Protocol(_question, _answer, _events, error, overflow)
