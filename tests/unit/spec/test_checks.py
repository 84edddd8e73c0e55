"""Checks of a task whose types are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.spec.checks import TAKEN
from harness.spec.load import load_file
from tests.unit.spec.files import HEAD, loaded, problems, write


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


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("/api/*", "write http://host/api/* or */api/*"),
        ("api", "write http://host/api or */api"),
        ("shop.local/api/*", "write http://shop.local/api/* or *shop.local/api/*"),
        ("htp://shop.local/*", "write http://shop.local/* or *shop.local/*"),
        ("http", "write http://host/http or */http"),
    ],
)
def test_a_pattern_that_no_whole_url_matches_is_refused(tmp_path: Path, pattern: str, hint: str) -> None:
    text = HEAD + f"faults:\n  - {{kind: hang, url: '{pattern}'}}\n"
    (problem,) = problems(write(tmp_path, text))
    assert (problem.severity, problem.path, problem.line) == ("error", "faults[0].url", 6)
    assert problem.message == "no URL matches: the pattern must match the whole URL"
    assert problem.hint == hint


@pytest.mark.parametrize(
    "pattern", ["*/api", "http://x/", "HTTPS://x/*", "ht*", "wss://x/", "${inputs.u}/x", "http${inputs.u}"]
)
def test_a_pattern_that_some_url_may_match_is_taken(tmp_path: Path, pattern: str) -> None:
    text = HEAD + f"inputs: {{u: 'http://x'}}\nfaults:\n  - {{kind: hang, url: '{pattern}'}}\n"
    assert problems(write(tmp_path, text)) == ()


def test_an_act_of_which_a_task_has_no_step_left(tmp_path: Path) -> None:
    text = HEAD + "faults: [{kind: popup, act: drag}, {kind: popup, act: open, step: 1}, {kind: popup, act: click}]\n"
    found = loaded(tmp_path, text).warnings
    assert [each.path for each in found] == ["faults[0].act", "faults[1].act"]


def test_a_wrong_fault_does_not_hide_what_is_wrong_with_the_others(tmp_path: Path) -> None:
    text = HEAD + "faults:\n  - {kind: refus}\n  - {kind: page_crash, step: 9}\n"
    found = problems(write(tmp_path, text))
    assert [each.path for each in found] == ["faults[0].kind", "faults[1].step"]
