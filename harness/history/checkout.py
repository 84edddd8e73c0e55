"""Which commit and branch a project is at: as a CI system says, or as `.git` does; no git is started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_IN_CI = (
    ("GITHUB_ACTIONS", ("GITHUB_SHA",), ("GITHUB_HEAD_REF", "GITHUB_REF_NAME")),
    ("GITLAB_CI", ("CI_COMMIT_SHA",), ("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME", "CI_COMMIT_REF_NAME")),
    ("JENKINS_URL", ("GIT_COMMIT",), ("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH")),
)
"""The variable that names the system, and where it says commit and branch: there a checkout has no branch."""
_LINKS = 10
"""So many references may lead to one another."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """Empty where it cannot be told."""

    commit: str = ""
    branch: str = ""


def checkout_of(root: Path, environ: Mapping[str, str]) -> Checkout:
    """Never an error: a history without a commit is better than none."""
    told, found = _told(environ), _found(root)
    return Checkout(found.commit or told.commit, told.branch or found.branch)


def _told(environ: Mapping[str, str]) -> Checkout:
    for system, commits, branches in _IN_CI:
        if system in environ:
            return Checkout(_first(environ, commits), _first(environ, branches))
    return Checkout()


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _found(root: Path) -> Checkout:
    try:
        for folder in (root.absolute(), *root.absolute().parents):
            if (place := folder / ".git").exists():
                return _of(_directory(place))
    except (OSError, ValueError):  # unreadable, not UTF-8, or not git's
        pass
    return Checkout()


def _directory(place: Path) -> Path:
    """A work tree of `git worktree`, and a submodule, have a file that says where the directory is."""
    if place.is_dir():
        return place
    return (place.parent / _text(place).removeprefix("gitdir:").strip()).resolve()


def _of(directory: Path) -> Checkout:
    head = _text(directory / "HEAD")
    name = head.removeprefix("ref:").strip() if head.startswith("ref:") else ""
    return Checkout(_resolved(directory, head), name.removeprefix("refs/heads/"))


def _resolved(directory: Path, text: str) -> str:
    for _ in range(_LINKS):
        if not text.startswith("ref:"):
            return text if _COMMIT.fullmatch(text) else ""
        text = next(_values(directory, text.removeprefix("ref:").strip()), "")
    return ""


def _values(directory: Path, name: str) -> Iterator[str]:
    """What a reference says, in a file of its own or among the packed ones; work trees share those of their project."""
    common = directory / "commondir"
    for place in (directory, *([directory / _text(common)] if common.is_file() else [])):
        if (place / name).is_file():
            yield _text(place / name)
        if (place / "packed-refs").is_file():
            lines = (line.split(" ") for line in _text(place / "packed-refs").splitlines())
            yield from (line[0] for line in lines if line[1:] == [name])


def _text(file: Path) -> str:
    return file.read_text("utf-8").strip()
