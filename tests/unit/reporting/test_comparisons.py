"""The pictures of comparisons that failed, as reports show them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.reporting import comparisons
from harness.reporting.attachments import on_failing_step, on_test
from harness.reporting.comparisons import IMAGE_DIFF, compared_pictures, image_diff
from harness.reporting.telling import story_of
from tests.unit.pictures import png
from tests.unit.reporting import sample


def left(folder: Path, name: str, *files: str) -> Path:
    place = folder / "files" / "comparisons" / name
    place.mkdir(parents=True)
    for file in files:
        (place / file).write_bytes(png(4, 4))
    return place


def test_comparisons_are_found_by_their_steps(tmp_path: Path) -> None:
    left(tmp_path, "10-card-linux", "actual.png", "expected.png", "diff.png")
    left(tmp_path, "2-page-linux", "actual.png")
    left(tmp_path, "x", "actual.png", "expected.png")
    left(tmp_path, "empty")
    left(tmp_path, "foreign", "other.png")
    found = list(compared_pictures(tmp_path))
    assert [(each.name, each.step) for each in found] == [("2-page-linux", 2), ("10-card-linux", 10), ("x", None)]
    assert list(found[1].files) == ["expected.png", "actual.png", "diff.png"]
    assert list(compared_pictures(tmp_path / "nowhere")) == []


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(2, 2))
    place = left(tmp_path / "T", "1-card-linux", "actual.png")
    (place / "expected.png").symlink_to(tmp_path / "secret.png")
    assert [list(each.files) for each in compared_pictures(tmp_path / "T")] == [["actual.png"]]


def test_allure_shows_pictures_side_by_side_at_the_test_and_at_the_step(tmp_path: Path) -> None:
    left(tmp_path, "5-card-linux", "actual.png", "expected.png", "diff.png")
    left(tmp_path, "2-page-linux", "actual.png", "expected.png")
    left(tmp_path, "1-new-linux", "actual.png")
    story = story_of(sample.plan(), sample.failed(sample.plan(), index=5, artifacts=tmp_path))
    shown = [(each.name, each.mime) for each in on_test(story) if "linux" in each.name]
    assert shown == [
        ("new-linux actual.png", "image/png"),
        ("page-linux: expected and actual", IMAGE_DIFF),
        ("card-linux: expected and actual", IMAGE_DIFF),
    ]
    (at_step,) = (each for each in on_failing_step(story) if each.mime == IMAGE_DIFF)
    found = json.loads(at_step.data)
    assert list(found) == ["expected", "actual", "diff"]
    assert all(url.startswith("data:image/png;base64,iVBORw0K") for url in found.values())


def test_pictures_that_are_too_large_for_one_attachment_are_attached_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(tmp_path, "5-card-linux", "actual.png", "expected.png")
    (pictures,) = compared_pictures(tmp_path)
    assert image_diff(pictures)
    monkeypatch.setattr(comparisons, "LARGEST", 10)
    assert image_diff(pictures) is None
