"""The messages of the bridge: their envelope, what each carries, and every way in which one can be wrong. Pure.

`schemas/bridge.schema.json` is made from these models; docs/bridge.md describes the exchange.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal
from uuid import UUID

from msgspec import Struct
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from harness.spec.problems import did_you_mean

LONGEST_MESSAGE: Final = 1024 * 1024
"""Bytes of one message of a client."""
_TYPE = re.compile(r"[a-z_]+")
_SHOWN = 200
"""Characters of a refused value that the refusal repeats."""


class Payload(BaseModel):
    """What a message carries. Unknown keys are refused: a misspelt one would be ignored for ever."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    type: ClassVar[str]


class Auth(Payload):
    """The first message. The answer is `connection_ack`."""

    type: ClassVar[str] = "auth"
    token: str = Field(max_length=500, description="A token of the scope `agent`, from `harness serve token`.")
    client: str = Field("", max_length=200, description="Name and version of the client, for logs and metrics.")


class HealthCheck(Payload):
    """The answer is `health`."""

    type: ClassVar[str] = "health_check"


class SessionCreate(Payload):
    """Open a session. The answer is `session_state`."""

    type: ClassVar[str] = "session_create"
    agent: str = Field("", max_length=200, description="What the agent is, for reports, such as `my-agent 1.2`.")
    folder: str = Field("", max_length=1000, description="The agent's working folder, for reports.")


class SessionJoin(Payload):
    """Go on with a session after the connection was lost. The answer is `session_state`."""

    type: ClassVar[str] = "session_join"
    session: str = Field(max_length=100)
    after: int = Field(0, ge=0, description="The `seq` of the last message that was received.")
    epoch: str = Field("", max_length=100, description="The `epoch` of that message.")


class Subscribe(Payload):
    """Receive the events of a run as they come, in messages `record`. Each has some, and the offset after them."""

    type: ClassVar[str] = "subscribe"
    run: str = Field("", max_length=100, description="The run. Default: the newest.")
    offset: int = Field(0, ge=0, description="The offset in its events from which they are sent.")


class TaskTake(Payload):
    """Take a task. The answer is `turn`, as soon as there is one."""

    type: ClassVar[str] = "task_take"
    task: str = Field("", max_length=500, description="The id of the task. Default: the next one that is offered.")
    wait_ms: int = Field(30_000, ge=0, le=600_000, description="How long to wait for one, in milliseconds.")


class ObserveMessage(Payload):
    """Look at the page. The answer is `observation`."""

    type: ClassVar[str] = "observe"
    turn: int = Field(ge=0)
    screenshot: bool = False


class Act(Payload):
    """Do one step. The answer is `outcome`; the same `id` again gets the same answer, and does nothing."""

    type: ClassVar[str] = "act"
    turn: int = Field(ge=0)
    step: dict[str, JsonValue] = Field(description="A step as in a task file: `{act: click, selector: '#buy'}`.")


class Finish(Payload):
    """End the task: its success criteria are judged. The answer is `task_ended`."""

    type: ClassVar[str] = "finish"
    turn: int = Field(ge=0)
    gave_up: str = Field("", max_length=2000, description="Why the agent cannot do the task. Default: it is done.")


class CommandResult(Payload):
    """Ask for the answer of a message that was `pending`."""

    type: ClassVar[str] = "command_result"
    correlation_id: str = Field(max_length=100)


class Synchronize(Payload):
    """Ask for the present state of everything. The answer is `session_state` with the turn and pending work."""

    type: ClassVar[str] = "synchronize"


class RequestReplay(Payload):
    """Ask for messages again. The answer is `replay_buffer`."""

    type: ClassVar[str] = "request_replay"
    after: int = Field(0, ge=0, description="The `seq` of the last message that was received.")
    epoch: str = Field("", max_length=100)
    since: AwareDatetime | None = Field(None, description="Instead of `after`: the `timestamp` of that message.")


class Cancel(Payload):
    """Stop waiting for pending work; the work itself goes on."""

    type: ClassVar[str] = "cancel"
    correlation_id: str = Field(max_length=100)


HookName = Literal[
    "SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop"
]


class HookEvent(Payload):
    """What a hook of a coding agent tells. The answer is `hook_received`."""

    type: ClassVar[str] = "hook_event"
    event: HookName
    timestamp: datetime
    session_id: str = Field(min_length=1, max_length=200)
    payload: dict[str, JsonValue]


class SessionPause(Payload):
    """Pause between two turns: the browser is closed, and its state is kept."""

    type: ClassVar[str] = "session_pause"


class SessionResume(Payload):
    """Go on with a paused session."""

    type: ClassVar[str] = "session_resume"


class SessionClose(Payload):
    """Close the session. A task that it has taken ends."""

    type: ClassVar[str] = "session_close"


CLIENT_MESSAGES: Final[Mapping[str, type[Payload]]] = {
    each.type: each
    for each in (
        Auth, HealthCheck, SessionCreate, SessionJoin, Subscribe, TaskTake, ObserveMessage, Act, Finish, CommandResult,
        Synchronize, RequestReplay, Cancel, HookEvent, SessionPause, SessionResume, SessionClose,
    )
}  # fmt: skip
"""Type -> what such a message of a client carries."""


class Phase(StrEnum):
    """How far a connection is."""

    CONNECTED = "connected"
    ACKNOWLEDGED = "acknowledged"
    JOINED = "joined"


SEQUENCE: Final[Mapping[Phase, frozenset[str]]] = {
    Phase.CONNECTED: frozenset({"auth"}),
    Phase.ACKNOWLEDGED: frozenset({"health_check", "session_create", "session_join", "subscribe"}),
    Phase.JOINED: frozenset(CLIENT_MESSAGES) - {"auth", "session_create", "session_join"},
}
"""Phase -> the types that a client may send in it."""


# What the server sends. `seq` and `epoch` are in the envelope of every message to a joined client.

_SERVER_MESSAGES: Final = (
    "connection_ack", "health", "session_state", "turn", "observation", "outcome", "task_ended", "pending",
    "replay_buffer", "hook_received", "record", "error", "tool_error", "connection_error",
)  # fmt: skip


class Violation(Struct, frozen=True):
    """One rule that a message breaks."""

    field: str
    constraint: str
    """`required`, `matches`, `uuid`, `iso8601`, `object`, or the constraint of a payload's own key."""
    received: Any = None


class ClientMessage(Struct, frozen=True):
    """A message of a client that is right."""

    type: str
    id: str
    timestamp: datetime
    payload: Payload


def read_message(document: Any) -> ClientMessage | tuple[Violation, ...]:
    """The message of a JSON value, or everything that is wrong with it."""
    if not isinstance(document, dict):
        return (Violation("", "object", _shown(document)),)
    found = [*_envelope_violations(document)]
    kind = document.get("type")
    model = CLIENT_MESSAGES.get(kind) if isinstance(kind, str) else None
    if model is None and not any(each.field == "type" for each in found):
        hint = did_you_mean(str(kind), CLIENT_MESSAGES)
        found.append(Violation("type", f"known{f' ({hint})' if hint else ''}", _shown(kind)))
    payload: Payload | None = None
    if model is not None and isinstance(document.get("payload"), dict):
        try:
            payload = model.model_validate(document["payload"])
        except ValidationError as error:
            found += _payload_violations(error)
    if found or payload is None:
        return tuple(found)
    return ClientMessage(str(kind), document["id"], datetime.fromisoformat(document["timestamp"]), payload)


def _envelope_violations(document: Mapping[str, Any]) -> list[Violation]:
    """001's four rules of fields: required, and of the right form."""
    found = []
    for name, (constraint, holds) in _RULES.items():
        value = document.get(name)
        if value is None:
            found.append(Violation(name, "required"))
        elif not holds(value):
            found.append(Violation(name, constraint, _shown(value)))
    found += [Violation(str(name), "unknown", _shown(value)) for name, value in document.items() if name not in _RULES]
    return found


def _is_uuid(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(UUID(value)) == value.lower()
    except ValueError:
        return False


def _is_moment(value: Any) -> bool:
    """Whether a text is a moment of ISO 8601 with a `T` and an offset."""
    try:
        return isinstance(value, str) and "T" in value and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


_RULES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "type": ("matches", lambda value: isinstance(value, str) and bool(_TYPE.fullmatch(value))),
    "id": ("uuid", _is_uuid),
    "timestamp": ("iso8601", _is_moment),
    "payload": ("object", lambda value: isinstance(value, dict)),
}
"""Field of the envelope -> the name of its rule, and whether a value fulfils it."""


def _payload_violations(error: ValidationError) -> list[Violation]:
    def constraint(found: Any) -> str:
        return str({"missing": "required", "extra_forbidden": "unknown"}.get(found["type"], found["msg"]))

    return [
        Violation(".".join(["payload", *map(str, each["loc"])]), constraint(each), _shown(each["input"]))
        for each in error.errors(include_url=False)
    ]


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_SHOWN]
    return value if isinstance(value, int | float | bool | None) else f"{type(value).__name__}"


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
    answers = ", ".join(f"`{each}`" for each in _SERVER_MESSAGES)
    return {
        "title": "BridgeMessage",
        "description": f"A message of a client, {LONGEST_MESSAGE:,} bytes at most. The server sends {answers}.",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in CLIENT_MESSAGES],
        "$defs": definitions,
    }
