"""What fails later, how the site answers, and which ways lead back: the other three tables of the campaign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Step = Mapping[str, Any]


class Answer(NamedTuple):
    """How the site answers an order."""

    status: int = 200
    headers: Mapping[str, str] = {}
    effect: bool = True
    ends: bytes | None = None
    """What it writes before it closes the connection, instead of an answer."""
    reset: bool = False
    unread: bool = False
    """Whether the connection is reset before the body is read."""
    before: float = 0.0
    """Seconds until it does the order."""
    after: float = 0.0
    """Seconds from the order to the answer."""


_HALF: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n<p id=o>"
ANSWERS: Final[Mapping[str, Answer]] = {
    "200": Answer(),
    "201": Answer(201),
    "204": Answer(204),
    "302": Answer(302, {"Location": "/thanks"}),
    "303": Answer(303, {"Location": "/thanks"}),
    "307": Answer(307, {"Location": "/order?{query}&answer=200"}, effect=False),
    "308": Answer(308, {"Location": "/order?{query}&answer=200"}, effect=False),
    "400": Answer(400, effect=False),
    "404": Answer(404, effect=False),
    "409": Answer(409, effect=False),
    "408": Answer(408),
    "429": Answer(429, {"Retry-After": "1"}),
    "500": Answer(500),
    "502": Answer(502),
    "503": Answer(503),
    "503-refused": Answer(503, effect=False),
    "fin": Answer(ends=b""),
    "fin-late": Answer(ends=b"", after=0.7),
    "reset": Answer(ends=b"", reset=True),
    "reset-late": Answer(ends=b"", reset=True, after=0.7),
    "reset-unread": Answer(unread=True, effect=False),
    "half": Answer(ends=_HALF),
    "half-reset": Answer(ends=_HALF, reset=True),
    "garbage": Answer(ends=b"\x00\x01 this is no answer\r\n\r\n"),
    "slow": Answer(after=1.6),
    "never": Answer(after=20),
    "late-effect": Answer(before=1.2),
}


class Failure(NamedTuple):
    """What fails after the act."""

    steps: tuple[Step, ...] = ()
    broken: str = ""
    """What the page has for it."""
    whole: str = "<p id=later>ok</p>"
    """What the page has when it is asked for again, if the failure comes once."""
    fault: Mapping[str, Any] | None = None
    """It strikes at the first of the steps."""
    act: Mapping[str, Any] = {}
    """Keys of the act itself."""
    criteria: tuple[str, ...] = ()
    times_out: bool = False
    crashes: bool = False


_LOOK: Final = ({"act": "wait", "selector": "#a"},)
_LATER: Final = "<button id=later>later</button>"
_COVERED: Final = f"<div style='position:relative'>{_LATER}<div style='position:absolute;inset:0'></div></div>"
FAILURES: Final[Mapping[str, Failure]] = {
    "none": Failure(_LOOK),
    "missing": Failure(({"act": "click", "selector": "#later"},)),
    "late": Failure(({"act": "wait", "selector": "#later", "timeout": 1},), times_out=True),
    "assertion": Failure(({"act": "assert", "selector": "#later", "value": "ok"},), "<p id=later>no</p>"),
    "confirmation": Failure(({"act": "wait", "selector": "#done", "timeout": 1},), times_out=True),
    "refused": Failure(({"act": "open", "url": "{closed}/"},)),
    "server-error": Failure(({"act": "open", "url": "{site}/later?trial={trial}&status=503{once}"},)),
    "not-found": Failure(({"act": "open", "url": "{site}/later?trial={trial}&status=404{once}"},)),
    "hung": Failure(
        ({"act": "click", "selector": "#later"}, *_LOOK),
        _LATER.replace(">later", ' onclick="const T=Date.now();while(Date.now()-T<4000);">later'),
        _LATER,
        times_out=True,
    ),
    "looping": Failure(_LOOK, fault={"kind": "endless_loop"}, times_out=True, crashes=True),
    "crashed": Failure(({"act": "wait", "value": 0.2}, *_LOOK), fault={"kind": "page_crash"}, crashes=True),
    "killed": Failure(({"act": "wait", "value": 0.2}, *_LOOK), fault={"kind": "browser_kill"}, crashes=True),
    "driver": Failure(({"act": "wait", "value": 0.2}, *_LOOK), fault={"kind": "driver_kill"}, crashes=True),
    "closed": Failure(
        ({"act": "click", "selector": "#later"}, *_LOOK),
        _LATER.replace(">later", ' onclick="window.close()">later'),
        _LATER,
        crashes=True,
    ),
    "covered": Failure(({"act": "click", "selector": "#later"},), _COVERED, _LATER),
    "disabled": Failure(({"act": "click", "selector": "#later"},), _LATER.replace(" id", " disabled id"), _LATER),
    "dialog": Failure(
        ({"act": "dialog"}, {"act": "click", "selector": "#later"}),
        _LATER,
        _LATER.replace(">later", " onclick=alert(1)>later"),
    ),
    "criteria": Failure(criteria=("exists('#never')",)),
    "unanswered": Failure(_LOOK, act={"expect_request": {"url": "*/order*", "status": 200, "within": 1}}),
    "act-late": Failure(_LOOK, act={"timeout": 0.4}, times_out=True),
}

RULES: Final[Mapping[str, Any]] = {
    "on_timeout": "retry_from_checkpoint",
    "on_network_error": {"strategy": "retry", "max_retries": 2, "retry_delay_ms": 50},
    "on_element_not_found": {"strategy": "wait_and_retry", "wait_seconds": 0.5, "fallback_wait_seconds": 0.5},
    "on_assertion_fail": {"strategy": "retry_after_wait", "wait_before_retry_seconds": 0.3},
    "on_action_failed": "retry",
    "on_browser_crash": "restart_from_checkpoint",
}


class Way(NamedTuple):
    """One way back to the act."""

    run: str = "tasks"
    """Which kind of run plays it: trials of one kind share processes."""
    checkpoint: int | None = None
    """The step before which the state is saved, counted from the act; -9 is the first step that can have one."""
    rules: Mapping[str, Any] = {}
    keys: Mapping[str, Any] = {}
    fallback: bool = False
    """Whether the act's selector is found only by its fallback."""
    inside: str = ""
    """Where the act is: in a `repair`, or in an `alternative` task too."""
    failures: str = ""
    """Which later failures lead this way: those that time out, crash, or any."""


WAYS: Final[Mapping[str, Way]] = {
    "retry": Way(),
    "fallback-selector": Way(fallback=True, checkpoint=-9),
    "checkpoint": Way(checkpoint=-9, failures="times_out"),
    "checkpoint-of-page": Way(checkpoint=0, failures="times_out"),
    "checkpoint-after": Way(checkpoint=1, failures="times_out"),
    "restart-from-checkpoint": Way(checkpoint=-9, failures="crashes"),
    "restart-task": Way(rules={"on_browser_crash": "restart_task"}, failures="crashes"),
    "renewal": Way(checkpoint=1, failures="crashes"),
    "repair": Way(inside="repair"),
    "alternative": Way(inside="alternative"),
    "takeover": Way(keys={"agent": "breaks"}),
    "takeover-of-steps": Way(keys={"agent_fallback": ["again"]}),
    "retrace": Way("retrace"),
    "store": Way("store"),
    "worker": Way("worker"),
    "bridge": Way("bridge"),
}
