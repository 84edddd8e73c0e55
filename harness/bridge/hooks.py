"""Hooks of coding agents: what they tell is kept with the task that the agent has, and its stop ends the task."""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from harness.bridge.messages import HookEvent, HookName, Violation
from harness.bridge.refusals import RefusedMessageError
from harness.bridge.turns import task_of
from harness.model.agent_events import AgentEvent, bounded
from harness.resilience.events import Emit, HookRefused

if TYPE_CHECKING:
    from harness.bridge.session import BridgeSession

_STOPS: Final = frozenset({"Stop", "SessionEnd"})
"""The events after which the agent does nothing more: a task that it has not finished ends."""
_AGENTS: Final = 50
"""Agents whose events are kept before they have taken a task, and the events of each."""
_HANDLE = re.compile(r"sess-[0-9a-f]{12}")


class HookDesk:
    """Takes in the events of hooks, and finds the sessions that they are of."""

    def __init__(self, sessions: Mapping[str, BridgeSession], emit: Emit) -> None:
        """`sessions`: those of the bridge, by their ids."""
        self._open = sessions
        self._emit = emit
        self._sessions: OrderedDict[str, str] = OrderedDict()
        """The agent's own name for its session -> the bridge's."""
        self._early: OrderedDict[str, list[AgentEvent]] = OrderedDict()
        """Events of agents that no session is known of yet."""

    def take(self, document: Any) -> dict[str, Any]:
        """Take in what a hook has sent, and return the answer. Raises RefusedMessageError."""
        try:
            event = HookEvent.model_validate(document)
        except ValidationError as error:
            raise self.refused(error) from None
        return self.receive(event)

    def receive(self, event: HookEvent, session: BridgeSession | None = None) -> dict[str, Any]:
        """Keep an event. `session`: the one that it came in, if it came as a message."""
        if session is not None:
            self._bind(event.session_id, session.id)
        found = self._session(event)
        kept = AgentEvent(event.timestamp, event.event, event.session_id, bounded(event.payload))
        if found is None:
            self._keep_early(event.session_id, kept)
            return {"received": True, "session": None, "task": None}
        task = task_of(found)
        if task is not None:
            task.events.extend((*self._early.pop(event.session_id, ()), kept))
            if event.event in _STOPS:
                task.stop(event.event)
        else:
            self._keep_early(event.session_id, kept)
        return {"received": True, "session": found.id, "task": task.task_id if task else None}

    def invalid(self, document: Any, violations: tuple[Violation, ...]) -> RefusedMessageError | None:
        """The refusal of a message `hook_event` whose event is wrong; None for all else."""
        if not all(each.field.startswith("payload.") for each in violations):
            return None
        if not isinstance(document, dict) or document.get("type") != HookEvent.type:
            return None
        try:
            HookEvent.model_validate(document["payload"])
        except ValidationError as error:
            return self.refused(error)
        return None

    def refused(self, error: ValidationError) -> RefusedMessageError:
        """The refusal of an event, in the form that 001 demands; it counts towards the thresholds."""
        errors = [_described(each) for each in error.errors(include_url=False)]
        first = f"{errors[0]['field']}: {errors[0]['message']}"
        self._emit(HookRefused("HOOK_VALIDATION_FAILED", first[:300]))
        return RefusedMessageError("HOOK_VALIDATION_FAILED", received=False, errors=errors)

    def _session(self, event: HookEvent) -> BridgeSession | None:
        """The session of an event: named by it, known from before, or named in a call of our tools."""
        sessions = self._open
        if (own := sessions.get(event.session_id)) is not None:
            return own
        if event.event in ("PreToolUse", "PostToolUse"):
            named = _HANDLE.findall(json.dumps(event.payload))
            known = next((each for each in named if each in sessions), None)
            if known is not None:
                self._bind(event.session_id, known)
        return sessions.get(self._sessions.get(event.session_id, ""))

    def _bind(self, agent: str, session: str) -> None:
        self._sessions[agent] = session
        self._sessions.move_to_end(agent)
        while len(self._sessions) > _AGENTS:
            self._sessions.popitem(last=False)

    def _keep_early(self, agent: str, event: AgentEvent) -> None:
        kept = self._early.setdefault(agent, [])
        kept.append(event)
        del kept[:-_AGENTS]
        while len(self._early) > _AGENTS:
            self._early.popitem(last=False)


def _described(error: Mapping[str, Any]) -> dict[str, str]:
    field = ".".join(map(str, error["loc"])) or "the event"
    if error["type"] == "literal_error":
        return {"field": field, "message": f"Invalid enum value. Expected one of: {', '.join(get_args(HookName))}"}
    known = {"missing": "Required", "extra_forbidden": "Unrecognized key"}
    return {"field": field, "message": known.get(error["type"], str(error["msg"]))}
