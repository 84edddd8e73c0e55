"""The seven tools by which an agent uses the bridge over MCP: what each takes, does and answers. No library is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, ClassVar, Final
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from harness.bridge.hub import BridgeHub
from harness.bridge.messages import (
    Act,
    ClientMessage,
    CommandResult,
    Finish,
    ObserveMessage,
    Payload,
    SessionCreate,
    Synchronize,
    TaskTake,
)
from harness.bridge.refusals import WIRE_CODES, RefusedMessageError
from harness.spec.problems import did_you_mean
from harness.spec.validation import ACTS

_LONGEST_ARIA: Final = 64 * 1024
"""Bytes of a page's text that an answer contains; of a larger page it has the beginning."""


class ToolArguments(BaseModel):
    """The arguments of a tool. Unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: ClassVar[str]
    reads: ClassVar[bool] = False
    """Whether the tool changes nothing, so that it may be called again at will."""


_SESSION: Final = "The handle that `task_take` has answered."
_TURN: Final = "The number of the present turn, which every answer tells."


class TasksListCall(ToolArguments):
    """List the tasks that wait for an agent, and the sessions that agents have open."""

    name: ClassVar[str] = "tasks_list"
    reads: ClassVar[bool] = True


class TaskTakeCall(ToolArguments):
    """Take a task: its goal, its inputs, the acts that are allowed, and the handle that all other tools take."""

    name: ClassVar[str] = "task_take"
    session: str = Field("", max_length=100, description="A session that goes on with a further task. Default: new.")
    task: str = Field("", max_length=500, description="The id of the task. Default: the next one that is offered.")
    wait_ms: int = Field(25_000, ge=0, le=30_000, description="How long to wait for a task, in milliseconds.")


class ObserveCall(ToolArguments):
    """Look at the page: its address, its title, and its elements as an ARIA snapshot with refs."""

    name: ClassVar[str] = "observe"
    reads: ClassVar[bool] = True
    session: str = Field(max_length=100, description=_SESSION)
    turn: int | None = Field(None, ge=0, description=_TURN)
    screenshot: bool = Field(False, description="Whether a picture of the page is wanted, too.")


class ActCall(ToolArguments):
    """Do one step and wait for its end, 30 s at most; then `command_result` has the answer.

    The same step in the same turn is never done twice, however often this is called.
    """

    name: ClassVar[str] = "act"
    session: str = Field(max_length=100, description=_SESSION)
    turn: int = Field(ge=0, description=_TURN)
    step: dict[str, JsonValue]


class FinishCall(ToolArguments):
    """End the task: its success criteria are judged."""

    name: ClassVar[str] = "finish"
    session: str = Field(max_length=100, description=_SESSION)
    turn: int = Field(ge=0, description=_TURN)
    gave_up: str = Field("", max_length=2000, description="Why the goal cannot be reached. Default: it is reached.")


class CommandResultCall(ToolArguments):
    """Ask for the answer of a call that was `pending`."""

    name: ClassVar[str] = "command_result"
    reads: ClassVar[bool] = True
    session: str = Field(max_length=100, description=_SESSION)
    correlation_id: str = Field(max_length=100, description="As the pending answer told it.")


class SessionStatusCall(ToolArguments):
    """Show the state of a session: its task, its open turn, the last outcome, and pending work."""

    name: ClassVar[str] = "session_status"
    reads: ClassVar[bool] = True
    session: str = Field(max_length=100, description=_SESSION)


MCP_TOOLS: Final[Mapping[str, type[ToolArguments]]] = {
    each.name: each
    for each in (
        TasksListCall, TaskTakeCall, ObserveCall, ActCall, FinishCall, CommandResultCall, SessionStatusCall,
    )
}  # fmt: skip
"""Name -> the arguments, whose docstring describes the tool."""


class McpTool(Struct, frozen=True):
    """A tool as it is listed."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments."""
    reads: bool


@cache
def listed_tools() -> tuple[McpTool, ...]:
    """The shipped list: it needs no server."""
    return tuple(
        McpTool(name, " ".join((model.__doc__ or "").split()), _parameters(model), model.reads)
        for name, model in MCP_TOOLS.items()
    )


def _parameters(model: type[ToolArguments]) -> dict[str, Any]:
    schema: dict[str, Any] = _plain(model.model_json_schema())
    schema.pop("$defs", None)  # of JSON values, which need no schema
    schema.pop("description", None)
    if "step" in schema["properties"]:
        schema["properties"]["step"] = step_schema()
    return schema


@cache
def step_schema() -> dict[str, Any]:
    """The JSON Schema of a step: every key of every act, with its description. The engine checks what fits together."""
    properties: dict[str, Any] = {
        "act": {"type": "string", "enum": sorted(ACTS), "description": "What to do. A task may allow fewer acts."}
    }
    for model in ACTS.values():
        for key, value in model.model_json_schema()["properties"].items():
            known = properties.get(key)
            description = value.get("description", "")
            if known is None:
                kind = {"type": value["type"]} if value.get("type") in _PLAIN else {}
                properties[key] = {**kind, "description": description}
            elif known.get("type") != value.get("type") and key != "act":
                known.pop("type", None)
    text = "A step as in a task file: `{act: click, selector: '#buy'}`. A selector may be a ref: `aria-ref=e12`."
    return {"type": "object", "description": text, "properties": properties, "required": ["act"]}


_PLAIN = frozenset({"string", "integer", "number", "boolean"})


def _plain(schema: Any) -> Any:
    """The schema without titles, and without the `null` of what may be left out."""
    if isinstance(schema, dict):
        kept = {key: _plain(value) for key, value in schema.items() if key != "title" or isinstance(value, dict)}
        some = [each for each in kept.get("anyOf", ()) if each.get("type") != "null"]
        if len(some) != 1:
            return kept
        return {**{key: value for key, value in kept.items() if key not in ("anyOf", "default")}, **some[0]}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


class FaceReply(Struct, frozen=True):
    """The answer of a tool."""

    structured: dict[str, Any]
    is_error: bool = False
    """Whether the call was refused. A step that failed is an answer, not an error."""
    pictures: tuple[tuple[str, bytes], ...] = ()
    """Media type and content."""


class BridgeTools:
    """Calls of the tools; all faces that offer them use one object."""

    def __init__(self, hub: BridgeHub) -> None:
        self._hub = hub

    async def call(self, name: str, arguments: Mapping[str, Any], client: str = "") -> FaceReply:
        """Call a tool; refusals are answers, too. `client`: name and version of the agent's program."""
        try:
            return await self._called(self._checked(name, arguments), client)
        except RefusedMessageError as refused:
            session = arguments.get("session")
            return refusal_reply(refused.payload, session if isinstance(session, str) else "")

    @staticmethod
    def _checked(name: str, arguments: Mapping[str, Any]) -> ToolArguments:
        if (model := MCP_TOOLS.get(name)) is None:
            hint = did_you_mean(name, MCP_TOOLS) or f"the tools are {', '.join(MCP_TOOLS)}"
            raise RefusedMessageError("PROTO_INVALID_MESSAGE", f"there is no tool `{name[:100]}`: {hint}")
        try:
            return model.model_validate(arguments)
        except ValidationError as error:
            found = error.errors(include_url=False)
            violations = [{"field": ".".join(map(str, each["loc"])), "constraint": each["msg"]} for each in found]
            first = f"`{violations[0]['field']}`: {violations[0]['constraint']}"
            raise RefusedMessageError(
                "PROTO_INVALID_MESSAGE", f"the arguments of `{name}` do not fit: {first}", violations=violations
            ) from None

    async def _called(self, call: ToolArguments, client: str) -> FaceReply:  # noqa: PLR0911 - one way for each tool
        match call:
            case TasksListCall():
                sessions = [each.summary() for each in self._hub.sessions.values()]
                return FaceReply({"tasks": await self._hub.desk.offered(), "sessions": sessions})
            case TaskTakeCall():
                return await self._take(call, client)
            case ObserveCall():
                turn = self._hub.going_on(call.session).summary()["turn"] or 0 if call.turn is None else call.turn
                return await self._answered(call.session, ObserveMessage(turn=turn, screenshot=call.screenshot))
            case ActCall():
                return await self._acted(call.session, Act(turn=call.turn, step=call.step))
            case FinishCall():
                return await self._acted(call.session, Finish(turn=call.turn, gave_up=call.gave_up))
            case CommandResultCall():
                return await self._answered(call.session, CommandResult(correlation_id=call.correlation_id))
            case SessionStatusCall():
                return await self._answered(call.session, Synchronize())
        raise AssertionError(call)

    async def _take(self, call: TaskTakeCall, client: str) -> FaceReply:
        wanted = TaskTake(task=call.task, wait_ms=call.wait_ms)
        if call.session:
            return await self._answered(call.session, wanted)
        session = self._hub.create(SessionCreate(agent=client, folder=""), client)
        reply = await self._answered(session.id, wanted)
        if reply.is_error:  # an agent that asks again and again would fill the bridge with sessions
            self._hub.close(session, "it was opened for a task, and got none")
            reply.structured.pop("session", None)
        return reply

    def _with_bodies(self, session: str, seen: FaceReply) -> FaceReply:
        """The answer with the page's text and picture in place of the names of their bodies."""
        told, pictures = dict(seen.structured), []
        if (text := told.pop("aria_blob", None)) is not None:
            body = self._hub.find(session).blobs.get(text["sha256"])
            content = body[1] if body else b""
            told["aria"] = content[:_LONGEST_ARIA].decode("utf-8", "ignore")
            told["aria_truncated"] = len(content) > _LONGEST_ARIA or not body
        if (picture := told.pop("screenshot_blob", None)) is not None:
            body = self._hub.find(session).blobs.get(picture["sha256"])
            pictures += [body] if body else []
        return FaceReply(told, seen.is_error, tuple(pictures))

    async def _acted(self, session: str, payload: Act | Finish) -> FaceReply:
        """Act or finish. The id comes from what is asked: a call that a client sends anew is the same message.

        Equal steps of two tasks are not: an agent that goes on with the turns of the last task must hear it.
        """
        task = self._hub.going_on(session).tasks
        asked = json.dumps([payload.type, payload.model_dump(mode="json")], sort_keys=True)
        return await self._answered(session, payload, uuid5(NAMESPACE_OID, f"{session} {task} {asked}"))

    async def _answered(self, name: str, payload: Payload, id: UUID | None = None) -> FaceReply:  # noqa: A002
        """What the bridge answers to a message with this payload. `id`: of the message; default: a new one."""
        session = self._hub.going_on(name)
        self._hub.be_there(session)
        message = ClientMessage(payload.type, str(id or uuid4()), datetime.now(UTC), payload)
        kind, told = await self._hub.answer(session, message)
        if kind == "error":
            return refusal_reply(told, name)
        reply = FaceReply({"session": name, **_shaped(kind, told)})
        return self._with_bodies(name, reply) if kind == "observation" else reply


def refusal_reply(payload: Mapping[str, Any], session: str = "") -> FaceReply:
    """The answer to a call that was refused."""
    known = WIRE_CODES.get(str(payload.get("code")))
    told = {"passed": False, "retryable": bool(known and known.severity == "critical"), **payload}
    return FaceReply({**told, **({"session": session} if session else {})}, is_error=True)


def _shaped(kind: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer of the bridge, by its type, as a tool tells it."""
    match kind:
        case "turn":
            rest = {key: value for key, value in told.items() if key not in _LEFT and key != "tools"}
            return {"status": "turn", **rest, "acts": told.get("tools", []), "left": _left(told)}
        case "outcome":
            return _outcome(told)
        case "pending":
            return {"status": "pending", **told}
        case "task_ended":
            return {"status": "ended", **told}
    return told


def _outcome(told: Mapping[str, Any]) -> dict[str, Any]:
    """How a step ended, with all that tells what to do next beside it."""
    failure, following = told.get("failure") or {}, told.get("turn") or {}
    return {
        "status": "done",
        "passed": bool(told.get("passed")),
        **{key: failure.get(key) for key in ("code", "category", "retryable", "message", "hint", "attempts")},
        "warnings": list(told.get("warnings", ())),
        "turn": following.get("turn"),
        "left": _left(following),
    }


_LEFT: Final = ("turn_ms", "task_ms")


def _left(turn: Mapping[str, Any]) -> dict[str, Any]:
    return {key: turn[key] for key in _LEFT if key in turn}
