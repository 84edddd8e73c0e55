"""The JSON Schema of what a client of the bridge sends, made from the models of the messages. Pure."""

from __future__ import annotations

from typing import Any

from harness.bridge.messages import CLIENT_MESSAGES, LONGEST_MESSAGE, SERVER_MESSAGES


def message_schema() -> dict[str, Any]:
    """One message of a client: its envelope, and for each type its payload."""
    definitions: dict[str, Any] = {}
    for kind, model in CLIENT_MESSAGES.items():
        payload = model.model_json_schema()
        definitions |= payload.pop("$defs", {})
        envelope: dict[str, Any] = {
            "type": {"const": kind},
            "id": {"type": "string", "format": "uuid", "description": "A message sent again keeps its id."},
            "timestamp": {"type": "string", "format": "date-time"},
            "payload": payload,
        }
        definitions[kind] = {
            "type": "object",
            "description": payload.get("description", ""),
            "properties": envelope,
            "required": list(envelope),
            "additionalProperties": False,
        }
    answers = ", ".join(f"`{each}`" for each in SERVER_MESSAGES)
    return {
        "title": "BridgeMessage",
        "description": f"A message of a client, {LONGEST_MESSAGE:,} bytes at most. The server sends {answers}.",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in CLIENT_MESSAGES],
        "$defs": definitions,
    }
