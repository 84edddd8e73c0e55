"""Keys of a project's own at the top of its task files."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from harness.model.settings import load_settings
from harness.model.settings_errors import SettingsError
from tests.unit.spec.files import loaded, problems, task, write

KEYS = {"quarantine": "skip", "area": "tag", "bug": "note", "meta": "ignore"}


def test_each_has_its_meaning_and_none_is_a_warning(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        task(quarantine="flaky since May", area=["cart", "pay"], bug=["A-1", 7], meta={"x": 1}, tags=["cart", "slow"]),
        extra_keys=KEYS,
    )
    assert found.warnings == ()
    assert found.spec.own.skip == "flaky since May"
    assert found.spec.tags == ("cart", "slow", "pay")
    assert found.spec.own.notes == (("bug", "A-1, 7"),)


def test_a_text_that_is_no_tag_becomes_one(tmp_path: Path) -> None:
    area = ["check out", "2fa_setup", "skip", "allure_id", 7, "a/b-c", "pay"]
    found = loaded(tmp_path, task(area=area, tags=["pay"]), extra_keys=KEYS)
    tags = ("pay", "check_out", "area_2fa_setup", "area_skip", "area_allure_id", "area_7", "a_b-c")
    assert (found.warnings, found.spec.tags) == ((), tags)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("deprecated_2024", "`status` is deprecated_2024"),
        (["active", "old"], "`status` is old"),
        (3, "`status` is 3"),
        ("active", ""),
        (None, ""),
        ("Deprecated_x", ""),
    ],
)
def test_a_task_is_skipped_where_a_key_has_one_of_some_values(tmp_path: Path, value: object, reason: str) -> None:
    keys = {**KEYS, "skip": {"status": ("deprecated_*", "old", "3"), "area": ("gone",)}}
    found = loaded(tmp_path, task(status=value, area="cart"), extra_keys=keys)
    assert (found.warnings, found.spec.own.skip, found.spec.tags) == ((), reason, ("cart",))
    both = loaded(tmp_path, task(quarantine="red", area="gone"), extra_keys=keys)
    assert (both.spec.own.skip, both.spec.tags) == ("red", ("gone",))


@pytest.mark.parametrize(("value", "reason"), [(True, "`quarantine` is set in its file"), (False, ""), ("", "")])
def test_a_task_is_skipped_where_the_key_says_so(tmp_path: Path, value: object, reason: str) -> None:
    assert loaded(tmp_path, task(quarantine=value), extra_keys=KEYS).spec.own.skip == reason


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"area": ["a", "--"]}, "one letter or digit"),
        ({"area": True}, "this key gives tags"),
        ({"quarantine": 3}, "the reason"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(
    tmp_path: Path, spec: dict[str, object], words: str
) -> None:
    (problem,) = problems(write(tmp_path, task(**spec)), extra_keys=KEYS)
    assert words in str(problem)
    assert problem.line is not None


def test_they_are_settings_like_others(tmp_path: Path) -> None:
    """The lock of an evaluation has all settings as JSON; pydantic would warn of a value that it does not expect."""
    (tmp_path / "pyproject.toml").write_text("[tool.harness]\nextra_keys.skip.status = ['old']\n", "utf-8")
    with warnings.catch_warnings(action="error"):
        dumped = load_settings(tmp_path).model_dump(mode="json")
    assert dumped["extra_keys"] == {"skip": {"status": ["old"]}}


def test_a_key_of_every_task_file_cannot_be_ones_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.harness.extra_keys]\ngoal = "note"\n', "utf-8")
    with pytest.raises(SettingsError, match="`goal` is already a key of task files"):
        load_settings(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.harness.extra_keys]\nmeta = "drop"\n', "utf-8")
    with pytest.raises(SettingsError, match=r"extra_keys\.meta"):
        load_settings(tmp_path)
