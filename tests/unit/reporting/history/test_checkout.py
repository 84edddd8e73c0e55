"""Commit and branch of a project, by the files of git and the variables of CI systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.reporting.history.record import Checkout, checkout_of

COMMIT, OTHER = "66beb88d9b0c1f1f5a9f3e1f0b6f2d3c4a5b6c7d", "15491bf0000000000000000000000000000000ff"


def written(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({".git/HEAD": "ref: refs/heads/a/b\n", ".git/refs/heads/a/b": f"{COMMIT}\n"}, Checkout(COMMIT, "a/b")),
        ({".git/HEAD": f"{COMMIT}\n"}, Checkout(COMMIT)),
        (
            {".git/HEAD": "ref: refs/heads/main", ".git/packed-refs": f"# pack\n{COMMIT} refs/heads/main\n^{OTHER}\n"},
            Checkout(COMMIT, "main"),
        ),
        ({".git/HEAD": "ref: refs/heads/main"}, Checkout("", "main")),
        ({".git/HEAD": "ref: refs/heads/x", ".git/refs/heads/x": "ref: refs/heads/x"}, Checkout("", "x")),
        ({".git/HEAD": "nonsense"}, Checkout()),
        ({".git/config": ""}, Checkout()),
        (
            {
                ".git": "gitdir: main/worktrees/w",
                "main/worktrees/w/HEAD": "ref: refs/heads/w",
                "main/worktrees/w/commondir": "../..",
                "main/refs/heads/w": COMMIT,
            },
            Checkout(COMMIT, "w"),
        ),
    ],
    ids=[
        "branch",
        "detached",
        "packed",
        "before the first commit",
        "circle",
        "nonsense",
        "no head",
        "worktree",
    ],
)
def test_of_git(tmp_path: Path, files: dict[str, str], found: Checkout) -> None:
    written(tmp_path, files)
    (tmp_path / "sub").mkdir()
    assert checkout_of(tmp_path / "sub", {}) == found


def test_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(b"\xff\xfe")
    assert checkout_of(tmp_path, {}) == Checkout()


@pytest.mark.parametrize(
    ("environ", "branch"),
    [
        ({"GITHUB_ACTIONS": "true", "GITHUB_SHA": OTHER, "GITHUB_HEAD_REF": "pr", "GITHUB_REF_NAME": "5/merge"}, "pr"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_SHA": OTHER, "GITHUB_HEAD_REF": "", "GITHUB_REF_NAME": "main"}, "main"),
        ({"GITLAB_CI": "true", "CI_COMMIT_SHA": OTHER, "CI_COMMIT_REF_NAME": "fix"}, "fix"),
        ({"JENKINS_URL": "http://j/", "GIT_COMMIT": OTHER, "GIT_BRANCH": "origin/x"}, "origin/x"),
        ({"GITHUB_SHA": OTHER, "GITHUB_REF_NAME": "main"}, ""),
    ],
)
def test_of_a_ci_system(tmp_path: Path, environ: dict[str, str], branch: str) -> None:
    """It checks commits out without their branch; the files of git know best which commit that is."""
    written(tmp_path, {".git/HEAD": COMMIT})
    assert checkout_of(tmp_path, environ) == Checkout(COMMIT, branch)
    (tmp_path / ".git" / "HEAD").write_text("", "utf-8")
    assert checkout_of(tmp_path, environ) == Checkout(OTHER if branch else "", branch)
