"""The answers that a fault gives in place of a model, in the forms of the providers, streaming or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from harness.spec.faults import ModelBadArguments, ModelEmpty, ModelFault, ModelOverflow, ModelRefusal, ModelUnknownTool

_BROKEN = '{"element": "the button, and then'
"""Arguments that end in their middle."""
UNKNOWN = "no_such_tool"
_REFUSAL = "I cannot help with this."

INVENTED = ModelBadArguments | ModelUnknownTool | ModelRefusal | ModelOverflow | ModelEmpty
"""Faults that answer without the model; the others spoil its answer."""


class Invented(Struct, frozen=True):
    """A whole answer."""

    status: int
    content_type: str
    body: bytes


class _Said(Struct, frozen=True):
    model: str
    tool: str = ""
    arguments: str = ""
    refusal: str = ""


def invented(fault: ModelFault, path: str, body: bytes) -> Invented:
    """The answer to a request. `path`: that of its URL, which tells the provider's form."""
    asked = _json(body)
    form = next((form for ending, form in _FORMS.items() if path.rstrip("/").endswith(ending)), _FORMS[_CHAT])
    if isinstance(fault, ModelOverflow):
        return Invented(400, "application/json", _dumped(form.overflow))
    said = _said(fault, asked)
    if asked.get("stream"):
        return Invented(200, "text/event-stream", b"".join(form.stream(said)))
    return Invented(200, "application/json", _dumped(form.whole(said)))


def _said(fault: ModelFault, asked: Mapping[str, Any]) -> _Said:
    model = str(asked.get("model", ""))
    match fault:
        case ModelBadArguments():
            tools = asked.get("tools") or [{}]
            tool = tools[0] if isinstance(tools, list) and isinstance(tools[0], dict) else {}
            name = tool.get("name") or tool.get("function", {}).get("name") or UNKNOWN
            return _Said(model, str(name), _BROKEN)
        case ModelUnknownTool():
            return _Said(model, UNKNOWN, "{}")
        case ModelRefusal():
            return _Said(model, refusal=_REFUSAL)
        case _:
            return _Said(model)


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _dumped(document: Any) -> bytes:
    return json.dumps(document).encode()


def _events(documents: Iterable[Mapping[str, Any]], *, named: bool) -> list[bytes]:
    heads = ((f"event: {each['type']}\n" if named else "", each) for each in documents)
    return [f"{head}data: {json.dumps(each)}\n\n".encode() for head, each in heads]


class _Chat:
    """OpenAI's Chat Completions, and every server that speaks it."""

    overflow: Mapping[str, Any] = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens, however you requested more.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }

    @staticmethod
    def whole(said: _Said) -> Mapping[str, Any]:
        message = {"role": "assistant", "content": None, **_Chat._content(said)}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        choice = {"index": 0, "message": message, "finish_reason": _Chat._end(said)}
        return {**_Chat._head(said, "chat.completion"), "choices": [choice], "usage": usage}

    @staticmethod
    def stream(said: _Said) -> list[bytes]:
        head = _Chat._head(said, "chat.completion.chunk")
        delta = {"role": "assistant", **_Chat._content(said)}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        chunks = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _Chat._end(said)}]},
            {**head, "choices": [], "usage": usage},
        ]
        return [*_events(chunks, named=False), b"data: [DONE]\n\n"]

    @staticmethod
    def _head(said: _Said, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-fault", "object": kind, "created": 0, "model": said.model}

    @staticmethod
    def _content(said: _Said) -> dict[str, Any]:
        if said.refusal:
            return {"refusal": said.refusal}
        function = {"name": said.tool, "arguments": said.arguments}
        call = {"index": 0, "id": "call_fault", "type": "function", "function": function}
        return {"tool_calls": [call]} if said.tool else {}

    @staticmethod
    def _end(said: _Said) -> str:
        return "content_filter" if said.refusal else "tool_calls" if said.tool else "stop"


class _Responses:
    """OpenAI's Responses."""

    overflow = _Chat.overflow

    @staticmethod
    def whole(said: _Said, status: str = "completed") -> Mapping[str, Any]:
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details}
        done = status == "completed"
        return {
            "id": "resp_fault", "object": "response", "created_at": 0, "model": said.model, "status": status,
            "output": [item] if done and (item := _Responses._item(said)) else [],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage if done else None,
        }  # fmt: skip

    @staticmethod
    def stream(said: _Said) -> list[bytes]:
        begin, end = _Responses.whole(said, "in_progress"), _Responses.whole(said)
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begin}]
        if item := _Responses._item(said):
            place = {"output_index": 0, "item_id": item["id"]}
            empty: dict[str, Any] = {"content": []} if "content" in item else {"arguments": ""}
            events += [
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {**item, **empty, "status": "in_progress"},
                },
                *_Responses._grown(said, place),
                {"type": "response.output_item.done", "output_index": 0, "item": item},
            ]
        events.append({"type": "response.completed", "response": end})
        return _events(({**each, "sequence_number": number} for number, each in enumerate(events)), named=True)

    @staticmethod
    def _item(said: _Said) -> dict[str, Any] | None:
        if said.refusal:
            content = [{"type": "refusal", "refusal": said.refusal}]
            message = {"id": "msg_fault", "type": "message", "role": "assistant", "status": "completed"}
            return {**message, "content": content}
        if not said.tool:
            return None
        call = {"call_id": "call_fault", "name": said.tool, "arguments": said.arguments}
        return {"id": "fc_fault", "type": "function_call", "status": "completed", **call}

    @staticmethod
    def _grown(said: _Said, place: Mapping[str, Any]) -> list[dict[str, Any]]:
        if said.refusal:
            part = {"type": "response.refusal.delta", "content_index": 0, "delta": said.refusal}
            end = {"type": "response.refusal.done", "content_index": 0, "refusal": said.refusal}
            return [{**place, **part}, {**place, **end}]
        name = "response.function_call_arguments"
        delta = {"type": f"{name}.delta", "delta": said.arguments}
        return [{**place, **delta}, {**place, "type": f"{name}.done", "arguments": said.arguments}]


class _Messages:
    """Anthropic's Messages."""

    overflow: Mapping[str, Any] = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 200001 tokens > 200000 maximum"},
    }

    @staticmethod
    def whole(said: _Said) -> Mapping[str, Any]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        content = [_Messages._block(said, filled=True)] if said.tool or said.refusal else []
        return {**_Messages._head(said), "content": content, "stop_reason": _Messages._end(said), "usage": usage}

    @staticmethod
    def stream(said: _Said) -> list[bytes]:
        usage = {"input_tokens": 1, "output_tokens": 1}
        begun = {**_Messages._head(said), "content": [], "stop_reason": None, "usage": usage}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
        if said.tool or said.refusal:
            delta = {"type": "input_json_delta", "partial_json": said.arguments}
            delta = {"type": "text_delta", "text": said.refusal} if said.refusal else delta
            block = _Messages._block(said, filled=False)
            events += [
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
            ]
        ended = {"stop_reason": _Messages._end(said), "stop_sequence": None}
        events += [{"type": "message_delta", "delta": ended, "usage": {"output_tokens": 1}}, {"type": "message_stop"}]
        return _events(events, named=True)

    @staticmethod
    def _head(said: _Said) -> dict[str, Any]:
        head = {"id": "msg_fault", "type": "message", "role": "assistant", "model": said.model}
        return {**head, "stop_sequence": None}

    @staticmethod
    def _block(said: _Said, *, filled: bool) -> dict[str, Any]:
        if said.refusal:
            return {"type": "text", "text": said.refusal if filled else ""}
        # A whole answer has the arguments as an object, which cannot be broken JSON: it has a wrong key instead.
        wrong = {"no_such_argument": 1} if filled and said.arguments == _BROKEN else {}
        return {"type": "tool_use", "id": "toolu_fault", "name": said.tool, "input": wrong}

    @staticmethod
    def _end(said: _Said) -> str:
        return "refusal" if said.refusal else "tool_use" if said.tool else "end_turn"


_CHAT = "/chat/completions"
_FORMS: Mapping[str, type[_Chat | _Responses | _Messages]]
_FORMS = {_CHAT: _Chat, "/responses": _Responses, "/messages": _Messages}
"""The end of a URL's path -> the form of its answers."""
