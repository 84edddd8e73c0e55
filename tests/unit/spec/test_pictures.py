"""The baselines of screenshots: their names, and the warning about those that are not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.advice import advice
from harness.spec.pictures import baseline_name, is_baseline_of, platform_of
from tests.unit.spec.files import loaded, task


@pytest.mark.parametrize(
    ("variant", "name"),
    [("", "looks/card-linux.png"), ("phone", "looks/card-linux-phone.png"), ("iPhone 13", None)],
)
def test_a_baseline_has_its_platform_and_profile_in_its_name(variant: str, name: str | None) -> None:
    found = baseline_name("looks/card.png", "linux", variant)
    assert found == name or (name is None and found.startswith("looks/card-linux-iPhone_13-"))
    assert is_baseline_of("card.png", Path(found).name)
    assert not is_baseline_of("car.png", Path(found).name)


@pytest.mark.parametrize(
    ("user_agent", "platform"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/140", "linux"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36", "darwin"),
        ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36", "win32"),
    ],
)
def test_the_platform_is_that_of_the_browser(user_agent: str, platform: str) -> None:
    assert platform_of(user_agent) == platform


def test_a_baseline_that_is_not_there_yet_is_a_warning(tmp_path: Path) -> None:
    steps = [
        {"act": "open", "url": "http://shop.local/"},
        {"act": "assert", "screenshot": "looks/card.png"},
        {"act": "assert", "aria": "x.aria.yaml"},
        {"act": "assert", "screenshot": "${inputs.name}.png"},
    ]

    def told() -> list[str]:
        found = advice(loaded(tmp_path, task(steps=steps, inputs={"name": "x"})))
        return [str(each.path) for each in found if each.message == "there is no baseline yet"]

    assert told() == ["steps[1].screenshot", "steps[2].aria"]
    (tmp_path / "looks").mkdir()
    (tmp_path / "looks" / "card-darwin.png").touch()
    (tmp_path / "x.aria.yaml").touch()
    assert told() == []
