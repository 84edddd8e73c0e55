"""What a connection may say when, and what it is told when it says something else."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.bridge.messages import CLIENT_MESSAGES, LONGEST_MESSAGE, SEQUENCE, Phase
from harness.bridge.protocol import REFUSALS
from harness.bridge.refusals import WIRE_CODES
from tests.unit.bridge.stage import GOOD, MOMENT, FakeClient, make_hub, message
from tests.unit.conftest import examples
from tests.unit.resilience.virtual import play

pytestmark = pytest.mark.fake_clock

EXAMPLES: dict[str, dict[str, Any]] = {
    "auth": {"token": GOOD},
    "session_join": {"session": "sess-none"},
    "observe": {"turn": 1},
    "act": {"turn": 1, "step": {}},
    "finish": {"turn": 1},
    "command_result": {"correlation_id": "act-1"},
    "cancel": {"correlation_id": "act-1"},
    "hook_event": {"event": "Stop", "timestamp": "2026-11-25T10:00:00Z", "session_id": "s", "payload": {}},
    "task_take": {"wait_ms": 0},
}


async def in_phase(phase: Phase) -> FakeClient:
    client = FakeClient(make_hub())
    if phase is Phase.JOINED:
        client.joins()
    elif phase is Phase.ACKNOWLEDGED:
        client.say("auth", token=GOOD)
    return client


@pytest.mark.parametrize("phase", Phase)
async def test_every_message_is_taken_in_its_phases_and_refused_in_the_others(phase: Phase) -> None:
    for kind in CLIENT_MESSAGES:
        client = await in_phase(phase)
        number = client.say(kind, **EXAMPLES.get(kind, {}))
        told = [each for each in client.answers(number) if each["payload"].get("code") == "PROTO_SEQUENCE_ERROR"]
        if kind in SEQUENCE[phase]:
            assert not told, (phase, kind)
        else:
            assert told[0]["payload"]["received"] == kind
            assert told[0]["payload"]["currentPhase"] == phase
            assert told[0]["payload"]["expected"] == sorted(SEQUENCE[phase])
        await client.hub.stop()


UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
ENVELOPE: list[tuple[dict[str, Any], tuple[str, str]]] = [
    *(({name: None}, (name, "required")) for name in ("type", "id", "timestamp", "payload")),
    *(({"type": each}, ("type", "matches")) for each in ("Act", "a b", "", 5, [], "act1", True)),
    *(({"id": each}, ("id", "uuid")) for each in ("msg-123", "", 7, UUID[:-1], f"{{{UUID}}}", UUID.replace("-", ""))),
    *(
        ({"timestamp": each}, ("timestamp", "iso8601"))
        for each in ("2026-03-20 14:32:00", "", "now", 12, "2026-13-01T00:00:00Z", "2026-03-20T14:32:00")
    ),
    *(({"payload": each}, ("payload", "object")) for each in ([], "x", 1, False)),
    *(({name: 1}, (name, "unknown")) for name in ("seq", "epoch", "Type", "x")),
]
PAYLOADS: list[tuple[str, dict[str, Any], tuple[str, str]]] = [
    ("act", {"step": {}}, ("payload.turn", "required")),
    ("act", {"turn": 1}, ("payload.step", "required")),
    ("act", {"turn": -1, "step": {}}, ("payload.turn", "greater than or equal to 0")),
    ("act", {"turn": "one", "step": {}}, ("payload.turn", "valid integer")),
    ("act", {"turn": 1.5, "step": {}}, ("payload.turn", "valid integer")),
    ("act", {"turn": 1, "step": "click"}, ("payload.step", "valid dictionary")),
    ("act", {"turn": 1, "step": []}, ("payload.step", "valid dictionary")),
    ("act", {"turn": 1, "step": {}, "stepp": 1}, ("payload.stepp", "unknown")),
    ("observe", {}, ("payload.turn", "required")),
    ("observe", {"turn": 1, "screenshot": "often"}, ("payload.screenshot", "valid boolean")),
    ("finish", {}, ("payload.turn", "required")),
    ("finish", {"turn": 1, "gave_up": 5}, ("payload.gave_up", "valid string")),
    ("finish", {"turn": 1, "gave_up": "x" * 2001}, ("payload.gave_up", "at most 2000")),
    ("task_take", {"task": 5}, ("payload.task", "valid string")),
    ("task_take", {"wait_ms": -1}, ("payload.wait_ms", "greater than or equal to 0")),
    ("task_take", {"wait_ms": 10**7}, ("payload.wait_ms", "less than or equal to 600000")),
    ("task_take", {"task": "x" * 501}, ("payload.task", "at most 500")),
    ("command_result", {}, ("payload.correlation_id", "required")),
    ("command_result", {"correlation_id": 1}, ("payload.correlation_id", "valid string")),
    ("cancel", {}, ("payload.correlation_id", "required")),
    ("request_replay", {"after": -1}, ("payload.after", "greater than or equal to 0")),
    ("request_replay", {"after": "last"}, ("payload.after", "valid integer")),
    ("request_replay", {"since": "yesterday"}, ("payload.since", "valid datetime")),
    ("request_replay", {"epoch": 1}, ("payload.epoch", "valid string")),
    ("synchronize", {"now": True}, ("payload.now", "unknown")),
    ("session_close", {"why": ""}, ("payload.why", "unknown")),
    ("cancel", {"correlation_id": "x" * 101}, ("payload.correlation_id", "at most 100")),
    ("request_replay", {"epoch": "x" * 101}, ("payload.epoch", "at most 100")),
]


@pytest.mark.parametrize(("change", "expected"), ENVELOPE)
async def test_a_broken_envelope_is_told_field_by_field(change: dict[str, Any], expected: tuple[str, str]) -> None:
    client = await in_phase(Phase.JOINED)
    whole = {**message("synchronize", UUID), **change}
    client.connection.take(json.dumps({name: each for name, each in whole.items() if each is not None}))
    payload = client.heard[-1]["payload"]
    assert payload["code"] == "PROTO_INVALID_MESSAGE"
    assert expected in [(each["field"], each["constraint"]) for each in payload["violations"]]


@pytest.mark.parametrize(("kind", "payload", "expected"), PAYLOADS)
async def test_a_broken_payload_is_told_field_by_field(
    kind: str, payload: dict[str, Any], expected: tuple[str, str]
) -> None:
    client = await in_phase(Phase.JOINED)
    number = client.say(kind, **payload)
    violations = client.answers(number)[0]["payload"]["violations"]
    found = {each["field"]: each["constraint"] for each in violations}
    assert expected[1] in found[expected[0]]


def test_there_are_sixty_malformed_messages() -> None:
    assert len(ENVELOPE) + len(PAYLOADS) >= 59


@pytest.mark.parametrize(
    ("token", "code"),
    [("", "AUTH_INVALID"), ("x", "AUTH_INVALID"), ("agent.old", "AUTH_EXPIRED"), ("view", "AUTH_FORBIDDEN")],
)
async def test_a_token_that_does_not_count_ends_the_connection(token: str, code: str) -> None:
    client = FakeClient(make_hub())
    client.say("auth", token=token)
    assert client.heard[-1]["type"] == "connection_error"
    assert client.heard[-1]["payload"]["code"] == client.ended == code
    assert client.heard[-1]["payload"]["recoverable"] is False


async def test_twenty_refusals_in_a_row_close_the_connection_and_nineteen_do_not() -> None:
    client = await in_phase(Phase.JOINED)
    for _ in range(REFUSALS - 1):
        client.connection.take("{")
    client.say("synchronize")
    for _ in range(REFUSALS - 1):
        client.connection.take("{")
    assert not client.ended
    client.connection.take("{")
    assert client.ended == "PROTO_TOO_MANY_REFUSALS"


async def test_a_session_that_there_is_not_is_told_with_what_to_do() -> None:
    client = await in_phase(Phase.ACKNOWLEDGED)
    number = client.say("session_join", session="sess-abc123")
    payload = client.answers(number)[0]["payload"]
    assert payload["code"] == "SESS_NOT_FOUND"
    assert payload["message"] == "Session 'sess-abc123' not found"
    assert len(payload["suggestions"]) == 3


def test_all_codes_say_what_to_do() -> None:
    prefixes = {code.partition("_")[0] for code in WIRE_CODES}
    assert prefixes == {"PROTO", "AUTH", "SESS", "CONN", "HOOK", "SYS"}
    assert all(each.hint and each.summary for each in WIRE_CODES.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
FRAMES = (
    st.text(max_size=60)
    | st.binary(max_size=60)
    | JSON.map(json.dumps)
    | st.builds(
        lambda kind, payload: json.dumps(message(kind, **payload)),
        st.sampled_from(sorted(CLIENT_MESSAGES)),
        st.fixed_dictionaries(
            {},
            optional={
                "turn": st.integers(-1, 3),
                "step": JSON,
                "token": st.sampled_from([GOOD, "bad"]),
                "session": st.text(max_size=5),
                "wait_ms": st.integers(0, 5),
                "after": st.integers(-1, 9),
                "epoch": st.text(max_size=3),
                "correlation_id": st.sampled_from(["act-1", "task_take-1", "x"]),
            },
        ),
    )
)


def held() -> int:
    """Bytes of Python's objects."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("frames", [200, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_memory_stays_flat_whatever_one_client_after_the_other_sends(frames: int) -> None:
    """Each connection of one session sends what it likes until it is closed; replays and replies are bounded."""
    drawn = list[str | bytes]()

    @settings(max_examples=frames // 20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(FRAMES, min_size=20, max_size=20))
    def draw(some: list[str | bytes]) -> None:
        drawn.extend(some)

    async def main() -> list[int]:
        hub, sizes = make_hub(replay_bytes=10_000, answer_ttl=1.0), []
        session = FakeClient(hub).joins()
        tracemalloc.start()
        try:
            for _ in range(4):
                for number in range(0, frames, 20):
                    client = FakeClient(hub)
                    client.joins(session)
                    for frame in drawn[number : number + 20]:
                        client.connection.take(frame)
                    await asyncio.sleep(2)
                    client.drop()
                    if hub.sessions.get(session) is None:
                        session = FakeClient(hub).joins()
                await asyncio.sleep(hub.limits.grace + 1)
                session = FakeClient(hub).joins()
                sizes.append(held())
        finally:
            tracemalloc.stop()
        assert (await FakeClient(hub).ask("auth", token=GOOD))["type"] == "connection_ack"
        await hub.stop()
        return sizes

    draw()
    assert len(drawn) >= frames * 0.9
    sizes = play(main())
    assert sizes[-1] < sizes[1] * 1.1 + 200_000, sizes


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(FRAMES, max_size=40))
def test_whatever_a_client_sends_the_server_stays_alive_and_answers(frames: list[str | bytes]) -> None:
    async def main() -> None:
        hub = make_hub()
        client = FakeClient(hub)
        for frame in frames:
            client.connection.take(frame)
        other = FakeClient(hub)
        other.joins()
        assert (await other.ask("synchronize"))["type"] == "session_state"
        await hub.stop()
        assert not hub.sessions

    play(main())


@pytest.mark.parametrize("more", ['"step": {"value": "\\ud800"}', '"\\udfff": 1', '"step": {"timeout": NaN}'])
async def test_text_that_no_answer_could_repeat_is_refused_with_the_messages_id(more: str) -> None:
    client = await in_phase(Phase.JOINED)
    text = json.dumps(message("act", turn=1)).replace('"turn": 1', f'"turn": 1, {more}')
    client.connection.take(text)
    told = client.answers(json.loads(text)["id"])
    assert [each["payload"]["code"] for each in told] == ["PROTO_INVALID_MESSAGE"]
    client.connection.take(json.dumps({**message("act"), "id": "\ud800", "\ud801": 1}))
    msgspec.json.encode(client.heard)  # which is how it is sent
    assert client.heard[-1]["payload"]["code"] == "PROTO_INVALID_MESSAGE"


async def test_a_moment_without_an_offset_cannot_be_compared_and_is_refused() -> None:
    client = await in_phase(Phase.JOINED)
    await client.ask("act", turn=1, step={})
    told = await client.ask("request_replay", since="2026-11-25T10:00:00")
    assert told["payload"]["violations"][0]["field"] == "payload.since"
    assert (await client.ask("request_replay", since=MOMENT))["type"] == "replay_buffer"


async def test_a_message_that_is_too_long_is_refused_and_the_next_one_is_taken() -> None:
    client = await in_phase(Phase.JOINED)
    client.connection.take(" " * LONGEST_MESSAGE + "{}")
    (violation,) = client.heard[-1]["payload"]["violations"]
    assert violation["constraint"] == "1048576 bytes at most"
    assert (await client.ask("health_check"))["type"] == "health"
    await client.hub.stop()
