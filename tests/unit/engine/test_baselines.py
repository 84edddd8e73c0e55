"""`assert` with a baseline: what is compared, what is written, and what a failure says and leaves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.engine import pixels
from harness.engine.baselines import allowed_pixels
from harness.engine.task import run_task
from harness.model.record import TaskResult
from harness.recovery.failure import Failure, Passed
from harness.spec.steps import Assert
from harness.values import replace
from tests.unit.fakes import Theatre
from tests.unit.pictures import block, png

WHOLE = png(20, 10)


class Looks:
    """A task that compares the look of `#card`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.theatre = folder, Theatre()
        self.theatre.session.pictures = folder / "scratch" / "comparisons"
        self.baseline = folder / "looks" / "card-linux.png"

    def keep(self, content: bytes) -> None:
        self.baseline.parent.mkdir(exist_ok=True)
        self.baseline.write_bytes(content)

    def play(self, *looks: bytes | Failure, update: bool = False, expect: float = 0, **keys: Any) -> TaskResult:
        self.theatre.session.looks = list(looks)
        step = {"act": "assert", "selector": "#card", "screenshot": "looks/card.png", **keys}
        plan = self.theatre.plan(steps=[step], expect_timeout=expect)
        plan = replace(plan, folder=self.folder, update_baselines=update)
        return asyncio.run(run_task(plan, self.theatre.ports()))

    def pictures(self) -> list[str]:
        return sorted(path.name for path in self.theatre.session.pictures.rglob("*.png"))


@pytest.fixture
def looks(tmp_path: Path) -> Looks:
    return Looks(tmp_path)


def why(result: TaskResult) -> Failure:
    assert result.failure is not None
    return result.failure


def details(result: TaskResult) -> Any:
    outcome = result.history[0].attempts[-1].outcome
    assert isinstance(outcome, Passed), outcome
    return outcome.details


def test_a_missing_baseline_is_said_and_what_was_seen_is_kept(looks: Looks) -> None:
    failure = why(looks.play(WHOLE))
    assert failure.code == "ASSERTION_FAILED"
    assert "there is no baseline looks/card-linux.png beside the task" in failure.message
    assert "--task-update-baselines" in failure.hint
    assert looks.pictures() == ["actual.png"]
    assert not looks.baseline.exists()


def test_an_equal_screenshot_passes_and_leaves_nothing(looks: Looks) -> None:
    looks.keep(WHOLE)
    assert looks.play(WHOLE).ok
    assert looks.pictures() == []


def test_a_different_screenshot_fails_with_the_three_pictures(looks: Looks) -> None:
    looks.keep(WHOLE)
    failure = why(looks.play(block(20, 10, 40)))
    assert failure.assertion is not None
    assert failure.assertion.expected == "looks/card-linux.png (20x10)"
    assert failure.assertion.actual == "40 pixels of 200 differ (ratio 0.2), 0 allowed"
    assert failure.details["pictures"] == "files/comparisons/0-card-linux"
    assert (failure.details["pixels"], failure.details["ratio"]) == (40, 0.2)
    assert looks.pictures() == ["actual.png", "diff.png", "expected.png"]


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        ({}, 0),
        ({"max_diff_pixels": 40}, 40),
        ({"max_diff_pixel_ratio": 0.2}, 40),
        ({"max_diff_pixels": 39, "max_diff_pixel_ratio": 1}, 39),
        ({"max_diff_pixels": 50, "max_diff_pixel_ratio": 0.1}, 20),
    ],
)
def test_the_tolerance_is_the_smaller_of_two_limits(looks: Looks, keys: dict[str, Any], allowed: int) -> None:
    assert allowed_pixels(Assert(screenshot="x.png", **keys), (20, 10)) == allowed
    looks.keep(WHOLE)
    assert looks.play(block(20, 10, 40), **keys).ok == (allowed >= 40)


def test_another_size_fails_whatever_the_tolerance(looks: Looks) -> None:
    looks.keep(WHOLE)
    failure = why(looks.play(png(20, 11), max_diff_pixel_ratio=1))
    assert "the sizes differ: 20x11, not 20x10" in failure.message
    assert looks.pictures() == ["actual.png", "expected.png"]


def test_a_screenshot_that_comes_to_match_passes(looks: Looks) -> None:
    looks.keep(WHOLE)
    other = block(20, 10, 40)
    assert looks.play(other, block(20, 10, 60), WHOLE).ok, "it was not at rest"
    assert not looks.play(other, other, WHOLE).ok, "it was at rest, and there is no time to wait"
    assert looks.play(other, other, WHOLE, expect=3).ok
    assert "(waited 3 s for it)" in why(looks.play(other, expect=3)).message


def test_what_never_rests_is_said(looks: Looks) -> None:
    looks.keep(WHOLE)
    moving = [block(20, 10, 20 + 20 * (number % 2)) for number in range(200)]
    assert "so `mask` what moves" in why(looks.play(*moving)).message
    failure = why(looks.play(*moving, update=True))
    assert "no baseline was written" in failure.message
    assert looks.baseline.read_bytes() == WHOLE


def test_an_update_writes_only_what_differs(looks: Looks) -> None:
    assert dict(details(looks.play(WHOLE, update=True))) == {"baseline": "looks/card-linux.png", "written": True}
    assert looks.baseline.read_bytes() == WHOLE
    assert details(looks.play(WHOLE, update=True))["written"] is False
    assert details(looks.play(block(20, 10, 40), update=True, max_diff_pixels=40))["written"] is False
    assert looks.baseline.read_bytes() == WHOLE
    assert details(looks.play(block(20, 10, 60), update=True, max_diff_pixels=40))["written"] is True
    assert details(looks.play(png(3, 3), update=True))["written"] is True
    assert looks.baseline.read_bytes() == png(3, 3)
    assert looks.pictures() == []


@pytest.mark.parametrize("content", [b"GIF89a", b"", WHOLE[:40]])
def test_a_baseline_that_is_no_png_is_said_and_an_update_replaces_it(looks: Looks, content: bytes) -> None:
    looks.keep(content)
    failure = why(looks.play(WHOLE))
    assert failure.code == "INVALID_INPUT"
    assert "the baseline looks/card-linux.png cannot be used" in failure.message
    assert "--task-update-baselines" in failure.hint
    assert details(looks.play(WHOLE, update=True))["written"] is True
    assert looks.baseline.read_bytes() == WHOLE


def test_an_element_that_is_missing_is_no_different_look(looks: Looks) -> None:
    looks.keep(WHOLE)
    missing = Failure("ELEMENT_NOT_FOUND", "no #card", "#card")
    assert why(looks.play(missing)).code == "ELEMENT_NOT_FOUND"
    assert why(looks.play(missing, update=True)).code == "ELEMENT_NOT_FOUND"


def test_a_name_that_leaves_the_folder_once_it_is_filled_in_is_refused(looks: Looks) -> None:
    looks.theatre.world.entries_["name"] = "../../x"
    failure = why(looks.play(WHOLE, screenshot="${memory.name}.png", update=True))
    assert failure.code == "INVALID_INPUT"
    assert "the path leaves the task's folder" in failure.message


def test_without_its_package_the_failure_says_what_to_install(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    looks.keep(WHOLE)
    monkeypatch.setattr(pixels, "find_spec", lambda name: None)
    assert "pip install 'pytest-taskspec[screenshots]'" in why(looks.play(WHOLE)).message
