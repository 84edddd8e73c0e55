"""`routes:` of a task: answers that its requests get without reaching a site."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from harness.recovery.declaration import Declaration, SourcedDeclaration
from harness.spec.context import header_problem
from harness.spec.step_keys import LATER, LONGEST, Method, checked_paths
from harness.spec.url_patterns import BODILESS, OF_URL

_BODIES = ("json", "body", "file")
_OF_ANSWERS = ("status", "headers", *_BODIES)
_OF_REQUESTS = ("method", *_OF_ANSWERS, "patch", "from_har", "missing")
_LISTS = ("method", "steps", "messages")
"""Keys that may be lists."""
_ABORT = "a route answers; to break a request, declare a fault: `faults: [{kind: abort, url: ...}]`"

_OF_MESSAGES = ("at", "patch", "drop")
_Index = Annotated[int, Field(ge=0)]


def _as_tuples(data: Any, keys: tuple[str, ...]) -> Any:
    """The mapping with the lists of these keys as tuples: whatever a validator has touched must be one."""
    if not isinstance(data, dict):
        return data
    return {key: tuple(each) if key in keys and isinstance(each, list) else each for key, each in data.items()}


def checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers; raises ValueError for a name or a value that HTTP does not allow."""
    for name, value in headers.items():
        if LATER not in name + value and (problem := header_problem(name, value)):
            raise ValueError(problem)
    return headers


def _changed_headers(headers: dict[str, str | None]) -> dict[str, str | None]:
    checked_headers({name: value or "" for name, value in headers.items()})
    return headers


_Paths = Annotated[dict[str, JsonValue], AfterValidator(checked_paths)]

with warnings.catch_warnings():  # `json` hides a method of pydantic's models that pydantic itself has given up
    warnings.filterwarnings("ignore", message='Field name "json"')

    class Patch(Declaration):
        """What is changed of the site's own answer."""

        json: _Paths = Field(  # type: ignore[assignment]
            default_factory=dict,
            description="Path in the JSON of the answer -> value to put there, as `{items[0].price: 5}`. Keys that are "
            "missing are made; `*` stands for all items.",
        )
        status: int | None = Field(None, ge=200, le=599, description="Status instead of the site's, as an HTTP status.")
        headers: Annotated[dict[str, str | None], AfterValidator(_changed_headers)] = Field(
            default_factory=dict, description="Headers that are put into the answer; one without a value is left out."
        )

        @model_validator(mode="after")
        def _changes(self) -> Self:
            if not self.model_fields_set:
                raise ValueError("`patch` needs `json`, `status` or `headers`: what it changes")
            if self.json and self.status in BODILESS:
                raise ValueError(f"an answer of status {self.status} has no body: leave `json` out")
            return self

    class JsonPattern(Declaration):
        """What the JSON of a message must have."""

        json: _Paths = Field(  # type: ignore[assignment]
            min_length=1,
            description="Path in the JSON of the message -> value that it must have there. A mapping must be contained "
            "in the one found.",
        )

    class JsonPatch(Declaration):
        """What is changed of a message."""

        json: _Paths = Field(  # type: ignore[assignment]
            min_length=1,
            description="Path in the JSON of the message -> value to put there. Keys that are missing are made.",
        )

    class JsonMessage(Declaration):
        """A message that a page gets, as JSON."""

        json: JsonValue = Field(description="The message, sent as JSON.")  # type: ignore[assignment]
        same: Annotated[tuple[str, ...], AfterValidator(checked_paths)] = Field(
            (),
            description="Paths, such as `id`: the message has the values there of the one that it answers.",
        )

        @model_validator(mode="before")
        @classmethod
        def _listed(cls, data: Any) -> Any:
            return _as_tuples(data, ("same",))

    _Pattern = Annotated[str, Field(min_length=1)] | JsonPattern
    _Content = str | JsonMessage

    class MessageRule(Declaration):
        """What a route does about messages of a WebSocket; without `sent` and `received` at once."""

        sent: _Pattern | None = Field(
            None,
            description="Messages of the page: a pattern for the whole text, where `*` matches anything, or the `json` "
            "that they must have.",
        )
        received: _Pattern | None = Field(None, description="Messages of the server, in the same way.")
        at: int | None = Field(
            None,
            ge=1,
            le=10_000,
            description="Default: all. Which of these messages of a WebSocket it is about, counted from 1, "
            "as a plain number.",
        )
        send: _Content | tuple[_Content, ...] = Field(
            (), description="Messages that the page gets, as an answer: texts, or mappings with `json`."
        )
        patch: JsonPatch | None = Field(None, description="What is changed of the message before it goes on.")
        drop: bool = Field(False, description="Whether the message goes no further.")
        close: int | None = Field(
            None,
            ge=1000,
            le=4999,
            description="The WebSocket is closed with this code, such as `1000`, as a plain number.",
        )
        reason: str = Field("", max_length=123, description="The reason for `close`.")

        @model_validator(mode="before")
        @classmethod
        def _listed(cls, data: Any) -> Any:
            return _as_tuples(data, ("send",))

        @model_validator(mode="after")
        def _acts(self) -> Self:
            if self.sent is not None and self.received is not None:
                raise ValueError("a message is either `sent` by the page or `received`: make two entries")
            if not (self.sends or self.patch or self.drop or self.close is not None):
                raise ValueError("an entry of `messages` needs `send`, `patch`, `drop` or `close`: what it does")
            if self.patch is not None and self.drop:
                raise ValueError("a message that is dropped is not changed: leave `patch` out")
            if self.reason and self.close is None:
                raise ValueError("`reason` is only for `close`")
            if self.at_once and (idle := next((key for key in _OF_MESSAGES if key in self.model_fields_set), None)):
                raise ValueError(f"`{idle}` needs `sent` or `received`: which messages")
            if self.at_once and any(isinstance(each, JsonMessage) and each.same for each in self.sends):
                raise ValueError("`same` needs `sent` or `received`: the message that is answered")
            return self

        @property
        def at_once(self) -> bool:
            """Whether it acts when the route takes a WebSocket, whatever messages come."""
            return self.sent is None and self.received is None

        @property
        def sends(self) -> tuple[str | JsonMessage, ...]:
            """The messages that the page gets."""
            return self.send if isinstance(self.send, tuple) else (self.send,)

    class Route(SourcedDeclaration):
        """Answers the requests that match, in place of their site. Of several routes the first in the file answers.

        With `messages` or `connect` it is about WebSockets.
        """

        url: str = Field(min_length=1, max_length=2000, description=OF_URL)
        method: Method | tuple[Method, ...] | None = Field(None, description="HTTP method or methods. Default: all.")
        steps: _Index | tuple[_Index, _Index] | None = Field(
            None,
            description="The step during which it answers, or the first and the last one as `[2, 4]`. Default: the "
            "whole task.",
        )
        times: int | None = Field(
            None, ge=1, le=10_000, description="How many requests it answers. Later ones pass, as a number of requests."
        )
        delay: float = Field(0, ge=0, le=LONGEST, description="Delay before the answer, in seconds.")
        optional: bool = Field(False, description="Whether it is no warning that no request matched.")
        status: int | None = Field(
            None, ge=200, le=599, description="Status of the answer. Default: 200 with a body, as an HTTP status."
        )
        headers: Annotated[dict[str, str], AfterValidator(checked_headers)] = Field(
            default_factory=dict, description="Headers of the answer."
        )
        json: JsonValue = Field(None, description="Body of the answer, sent as JSON.")  # type: ignore[assignment]
        body: str = Field("", max_length=1_000_000, description="Body of the answer, as text.")
        file: str | None = Field(
            None,
            min_length=1,
            description="File in the folder of the task's file that is the body. Its suffix gives the content type.",
        )
        patch: Patch | None = Field(
            None,
            description="The request goes to its site, whose answer is changed, instead of the keys above.",
        )
        from_har: str | None = Field(
            None,
            min_length=1,
            description="HAR file in the folder of the task's file, whose recorded answers are given.",
        )
        missing: Literal["fail", "pass"] = Field(
            "fail", description="What becomes of a request that the HAR file does not have."
        )
        connect: bool = Field(
            True,
            description="Whether WebSockets that match reach their server. Without, the route stands in for it, and "
            "nothing passes.",
        )
        messages: tuple[MessageRule, ...] = Field(
            (),
            max_length=100,
            description="What is done about the messages of WebSockets that match. Of several entries that match a "
            "message, the first acts.",
        )

        @model_validator(mode="before")
        @classmethod
        def _answers(cls, data: Any) -> Any:
            if isinstance(data, dict) and "abort" in data:
                raise ValueError(_ABORT)
            return _as_tuples(data, _LISTS)

        @model_validator(mode="after")
        def _one_answer(self) -> Self:
            if isinstance(self.steps, tuple) and self.steps[0] > self.steps[1]:
                raise ValueError("`steps` names the first step and then the last one")
            if {"messages", "connect"} & self.model_fields_set:
                return self._one_socket()
            self._says_how()
            bodies = [name for name in _BODIES if name in self.model_fields_set]
            if len(bodies) > 1:
                raise ValueError(f"an answer has one body: leave `{bodies[1]}` out")
            if bodies and self.status in BODILESS:
                raise ValueError(f"an answer of status {self.status} has no body: leave `{bodies[0]}` out")
            return self

        def _says_how(self) -> None:
            """Raises ValueError if it does not say in one way what it answers."""
            given = self.model_fields_set
            own = [name for name in _OF_ANSWERS if name in given]
            if self.patch is not None and (others := [*own, *(["from_har"] if self.from_har else [])]):
                raise ValueError(f"`patch` changes the site's own answer: leave `{others[0]}` out")
            if self.from_har is not None and own:
                raise ValueError(f"`from_har` has the whole answer: leave `{own[0]}` out")
            if self.from_har is None and not {*_BODIES, "status", "patch"} & given:
                raise ValueError(
                    "a route needs `status`, `json`, `body`, `file`, `patch` or `from_har`: what it answers; one for "
                    "WebSockets `messages` or `connect: false`"
                )
            if "missing" in given and self.from_har is None:
                raise ValueError("`missing` is only for a route with `from_har`")

        def _one_socket(self) -> Self:
            if other := next((key for key in _OF_REQUESTS if key in self.model_fields_set), None):
                raise ValueError(f"a route for WebSockets answers no request: leave `{other}` out")
            if self.connect and not self.messages:
                raise ValueError("a route for WebSockets needs `messages` or `connect: false`: what it does")
            if not self.connect and any(each.received is not None for each in self.messages):
                raise ValueError("with `connect: false` no server sends anything: leave `received` out")
            return self

        @property
        def for_sockets(self) -> bool:
            """Whether it is about WebSockets, and not about requests."""
            return bool(self.messages) or not self.connect

        @property
        def methods(self) -> tuple[str, ...]:
            """The methods that it answers; empty: all."""
            return (self.method,) if isinstance(self.method, str) else self.method or ()

        def lasts_at(self, step: int) -> bool:
            """Return whether it answers while this step runs."""
            first, last = (self.steps, self.steps) if isinstance(self.steps, int) else self.steps or (step, step)
            return first <= step <= last

        @property
        def values_given(self) -> dict[str, Any]:
            """The values that may contain references, as the file has them."""
            return self.model_dump(exclude_unset=True)

        def describe(self) -> str:
            """One line for people: the requests, and what they are answered with."""
            if self.for_sockets:
                known = ("send", "patch", "drop", "close")
                does = [
                    key for key in known if any(getattr(each, key) not in ((), None, False) for each in self.messages)
                ]
                return f"{self.url} -> {', '.join(does if self.connect else ['no server', *does])}"
            asked = " ".join(("|".join(self.methods), self.url)).strip()
            if self.patch is not None:
                return f"{asked} -> patch of {', '.join(self.patch.model_dump(exclude_defaults=True))}"
            return f"{asked} -> {self.from_har or self.status or 200}"
