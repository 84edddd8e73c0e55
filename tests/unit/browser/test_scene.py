"""How a scene is put into words."""

from __future__ import annotations

import pytest

from harness.browser.failures.scene import TEXT_LENGTH, shortened, wanted_text
from harness.spec.names import seconds
from harness.spec.steps import Wait


@pytest.mark.parametrize(
    ("value", "said"), [(9.88267, "9.9s"), (30.0, "30s"), (1, "1s"), (0.5, "0.5s"), (2.96, "3s"), (1234.56, "1234.6s")]
)
def test_seconds_have_one_decimal_at_most(value: float, said: str) -> None:
    assert seconds(value) == said


def test_shortened() -> None:
    assert shortened("a" * TEXT_LENGTH) == "a" * TEXT_LENGTH
    assert shortened("a" * 200) == "a" * (TEXT_LENGTH - 1) + "…"


def test_wanted_text() -> None:
    assert wanted_text(Wait(selector="#a", value=5)) == "5"
    assert wanted_text(Wait(selector="#a", value="x")) == "x"
    assert wanted_text(Wait(selector="#a")) is None
