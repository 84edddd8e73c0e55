"""One-time passwords are made when their step runs, and not in the last second of their period."""

from __future__ import annotations

import asyncio
import base64

import pytest

from harness.spec.one_time import key_of
from tests.unit.fakes import START, Theatre

SECRET = base64.b32encode(b"12345678901234567890").decode()
STEPS = [
    {"act": "open", "url": "http://shop.local/"},
    {"act": "type", "selector": "#code", "value": "${totp:BANK}"},
]


def code(seconds: float) -> str:
    moment = START.timestamp() + seconds
    return key_of(SECRET).code(START.fromtimestamp(moment, START.tzinfo))


def typed(theatre: Theatre, before: float, **spec: object) -> tuple[float, str]:
    """When the code was typed, in seconds from the start of the period, and which."""
    theatre.clock.time = before - START.timestamp() % 30
    asyncio.run(theatre.play(steps=STEPS, **spec))
    at, step, *_ = theatre.session.acts[-1]
    return at + START.timestamp() % 30, step.value


@pytest.fixture(autouse=True)
def _bank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK", SECRET)


def test_the_code_is_that_of_the_moment() -> None:
    theatre = Theatre()
    at, value = typed(theatre, 58.9)
    assert (at, value) == (pytest.approx(58.9), code(theatre.clock.time))


def test_in_the_last_second_the_next_code_is_awaited() -> None:
    theatre = Theatre()
    at, value = typed(theatre, 59.2)
    assert at == pytest.approx(60)
    assert value == code(theatre.clock.time + 0.01) != code(theatre.clock.time - 1)
    assert value in theatre.events[-1].plan.secrets


def test_the_record_of_the_step_has_the_reference_and_not_the_code() -> None:
    theatre = Theatre()
    _, value = typed(theatre, 31)
    result = theatre.archive.passes[0]
    assert [record.step.model_dump().get("value") for record in result.history] == [None, "${totp:BANK}"]
    assert value not in repr(result)
