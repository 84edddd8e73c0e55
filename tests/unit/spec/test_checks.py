"""Checks that only warn."""

from __future__ import annotations

from pathlib import Path

from harness.spec.load import load_file
from harness.spec.marks import TAKEN
from tests.unit.spec.files import HEAD, loaded


def test_scores_are_no_reason_for_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.task.yaml"
    text = "task_id: A\nsteps:\n  - {act: open, url: 'http://x/'}\nrubrics: {SR: 1.0}\n"
    path.write_text(text + "scoring_checkpoints:\n  - {id: a, assertion: \"mem('x') == 1\"}\n", "utf-8")
    assert load_file(path).warnings == ()


def test_tags_that_are_marks() -> None:
    assert {"skip", "skipif", "xfail", "parametrize", "usefixtures", "flaky", "timeout", "taskspec"} <= TAKEN


def test_plain_tags_and_families_are_taken(tmp_path: Path) -> None:
    spec = loaded(tmp_path, HEAD + "tags: [shop, shop, a-1_b, skipping, Smoke]\nfamily: 2-B_x\n").spec
    assert spec.tags == ("shop", "shop", "a-1_b", "skipping", "Smoke")
    assert spec.family == "2-B_x"
