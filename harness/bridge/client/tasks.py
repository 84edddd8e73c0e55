"""A task that an agent has taken: what the agent sees and does, in a few methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct


class Asks(Protocol):
    """What a task needs of its bridge."""

    async def request(self, type: str, /, **payload: Any) -> dict[str, Any]:  # noqa: A002 - the envelope's word
        """Send a message and return its answer."""

    async def blob(self, sha256: str) -> bytes:
        """A body that a message named."""


class RemotePage(Struct, frozen=True):
    """What an agent sees of the page."""

    url: str
    title: str
    aria: str
    """The tree of roles and names."""
    screenshot: bytes | None
    """A picture as PNG, if it was asked for."""
    payload: dict[str, Any]
    """All of the message `observation`."""


class ActOutcome(Struct, frozen=True):
    """How a step ended."""

    passed: bool
    code: str
    """The code of the failure; empty if it passed."""
    message: str
    hint: str
    warnings: tuple[str, ...]
    payload: dict[str, Any]
    """All of the message `outcome`."""


class TaskVerdict(Struct, frozen=True):
    """The end of a task."""

    passed: bool | None
    """None: the server does not tell agents."""
    code: str
    payload: dict[str, Any]
    """All of the message `task_ended`."""


class TakenTask:
    """A task that is this session's until it ends."""

    def __init__(self, bridge: Asks, turn: Mapping[str, Any]) -> None:
        self._bridge = bridge
        self.task_id = str(turn.get("task_id", ""))
        self.goal = str(turn.get("goal", ""))
        self.inputs: dict[str, Any] = dict(turn.get("inputs") or {})
        self.turn = int(turn["turn"])
        """The number of the present turn."""
        self.payload = dict(turn)
        """All of the message `turn`: the limits and tools, too."""
        self.verdict: TaskVerdict | None = None
        """How the task ended; None while it goes on."""

    @property
    def over(self) -> bool:
        """Whether the task has ended: by `finish`, by a limit, or by the run's end."""
        return self.verdict is not None

    async def observe(self, *, screenshot: bool = False) -> RemotePage:
        """Look at the page. It uses up no turn."""
        answer = await self._bridge.request("observe", turn=self.turn, screenshot=screenshot)
        found = answer["payload"]
        aria, picture = str(found.get("aria") or ""), found.get("screenshot_blob")
        if large := found.get("aria_blob"):
            aria = (await self._bridge.blob(large["sha256"])).decode()
        shown = await self._bridge.blob(picture["sha256"]) if picture else None
        return RemotePage(str(found.get("url") or ""), str(found.get("title") or ""), aria, shown, found)

    async def act(self, step: Mapping[str, Any]) -> ActOutcome:
        """Do one step, as in a task file. A step that fails is an outcome, not an error: look at `passed`."""
        answer = await self._bridge.request("act", turn=self.turn, step=dict(step))
        found = answer["payload"]
        if answer["type"] == "task_ended":
            self.has_ended(found)
        following = found.get("turn")
        if isinstance(following, Mapping):
            following = following.get("turn")
        if isinstance(following, int):
            self.turn = following
        failure = found.get("failure") or {}
        return ActOutcome(
            bool(found.get("passed")),
            str(failure.get("code") or ""),
            str(failure.get("message") or ""),
            str(failure.get("hint") or ""),
            tuple(str(each) for each in found.get("warnings") or ()),
            found,
        )

    async def finish(self) -> TaskVerdict:
        """End the task: its success criteria are judged."""
        return await self._end("")

    async def give_up(self, reason: str) -> TaskVerdict:
        """End the task without having done it."""
        return await self._end(reason)

    async def _end(self, gave_up: str) -> TaskVerdict:
        answer = await self._bridge.request("finish", turn=self.turn, gave_up=gave_up)
        return self.has_ended(answer["payload"])

    def has_ended(self, payload: Mapping[str, Any]) -> TaskVerdict:
        """Note the end that the server tells."""
        passed = payload.get("passed")
        self.verdict = TaskVerdict(
            passed if isinstance(passed, bool) else None, str(payload.get("code") or ""), dict(payload)
        )
        return self.verdict
