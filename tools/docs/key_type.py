"""Describes the types of keys in plain words, from JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "yes or no"}
_PARTS = {
    "Rulebook": "mapping of rules",
    "ErrorType": "an error type",
    "JsonValue": "anything",
    "Option": "option",
    "DialogText": "`{matches: PATTERN}`",
    "FallbackPlan": "mapping",
    "Budget": "mapping",
    "Parameter": "mapping",
    "ContextOptions": "mapping",
    "Selector": "selector",
    "Point": "place",
    "Matches": "mapping",
    "Geolocation": "mapping",
    "HttpCredentials": "mapping",
    "Expect": "mapping",
    "FaultExpect": "mapping",
    "StateBinding": "places",
    "AllowedWrite": "allowed writes",
    "AgentPolicyTable": "mapping",
    "ScoringCheckpoint": "parts",
    "Repair": "repairs",
    "Handler": "handlers",
    "User": "users",
    "SkipIf": "condition",
    "DataFile": "data file",
    "Route": "routes",
    "ExpectedRequest": "mapping",
    "ClockChange": "mapping",
    "Patch": "mapping",
    "MessageRule": "entries",
    "JsonPattern": "mapping",
    "JsonPatch": "mapping",
    "JsonMessage": "mapping",
}
_TAGS = {"act": "steps", "kind": "faults"}
_PLURALS = {
    "text": "texts",
    "selector": "selectors",
    "number": "numbers",
    "anything": "anything",
    "mapping": "mappings",
    "list": "lists",
    "condition": "conditions",
    "path": "paths",
}


def described_type(schema: Schema) -> str:
    """`list of texts`, `whole number 1 to 300`, `text or number`."""
    match schema:
        case {"$ref": name}:
            found = _PARTS[name.rpartition("/")[2]]
        case {"discriminator": {"propertyName": tag}}:
            found = _TAGS[tag]
        case {"anyOf": each}:
            found = _join_with_or([described_type(one) for one in each if one.get("type") != "null"])
        case {"type": "array" | "object"}:
            found = _collection(schema)
        case _:
            found = _value(schema)
    return found


def _collection(schema: Schema) -> str:
    match schema:
        case {"prefixItems": parts}:
            return f"list of {len(parts)} {_plural_type(parts[0])}"
        case {"type": "array", "items": items}:
            return f"list of {_plural_type(items)}"
        case {"additionalProperties": values}:
            return f"mapping of {_plural_type(values)}"
        case _:
            return "anything"


def _value(schema: Schema) -> str:
    match schema:
        case {"const": word}:
            return f"`{word}`"
        case {"enum": words}:
            return _join_with_or([f"`{word}`" for word in words])
        case {"format": "path"}:
            return "path"
        case {"type": name}:
            return _WORDS[name] + _range(schema)
        case _:
            return "anything"


def _join_with_or(words: Sequence[str]) -> str:
    *before, last = [word for word in dict.fromkeys(words) if word != "whole number" or "number" not in words]
    return f"{', '.join(before)} or {last}" if before else last


def _plural_type(schema: Schema) -> str:
    kind = described_type(schema)
    first, _, rest = kind.partition(" ")
    if kind.startswith("whole number"):
        return kind.replace("whole number", "whole numbers", 1)
    return f"{_PLURALS.get(first, first)} {rest}".strip()


def _range(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        above = f" above {schema['exclusiveMinimum']:g}"
        return above if most is None else f"{above}, at most {_number(most)}"
    if least is not None and most is not None:
        return f" {_number(least)} to {_number(most)}"
    if least is not None:
        return f" from {_number(least)}"
    longest = schema.get("maxLength")
    return f", at most {_number(longest)} characters" if longest else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
