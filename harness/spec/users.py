"""The users of a task: people who act in one world, each in a browser context of their own."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from pydantic import Field

from harness.criteria import Criterion, ValueExpression
from harness.recovery.declaration import Declaration
from harness.spec.context import ContextOptions
from harness.spec.problems import JsonPath, Problem, did_you_mean, join_or
from harness.spec.source import Origin, Place
from harness.spec.step_base import ActedBy

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
MOST_USERS = 10


class User(Declaration):
    """One of the people who act in a task."""

    login: str | None = Field(
        None, min_length=1, description="Name of a login of `[tool.harness.logins]` with which the user begins."
    )
    browser: ContextOptions | None = Field(
        None, description="What the user's browser context emulates. It overrides the `browser` of the task."
    )


def name_problems(users: Collection[str], origin: Origin) -> Iterator[Problem]:
    """Yield a problem for each name that cannot be that of a folder and of a criterion, and for too many of them."""
    for name in users:
        if not _NAME.fullmatch(name):
            expected = "a letter, then letters, digits, `_` and `-`, at most 40 characters"
            yield origin.problem(("users", name), "not a name of a user", expected=expected, value=name, key=True)
    if len(users) > MOST_USERS:
        yield origin.problem(("users",), "too many users", expected=f"at most {MOST_USERS}", found=str(len(users)))


def unknown_users(
    steps: Iterable[tuple[JsonPath, ActedBy]], users: Collection[str], origin: Origin | Place
) -> Iterator[Problem]:
    """Yield a problem for each step by somebody who is no user of the task; one with a reference is checked later."""
    for path, step in steps:
        if step.user is not None and "${" not in step.user and step.user not in users:
            yield _unknown((*path, "as"), step.user, users, origin)


def unknown_readers(
    path: JsonPath, text: str, parsed: Iterable[Criterion | ValueExpression], users: Collection[str], origin: Origin
) -> Iterator[Problem]:
    """Yield a problem for each user whose pages a criterion reads and who is no user of the task."""
    named = {name for each in parsed for name in each.users}
    for name in sorted(each for each in named if each not in users and "${" not in each):
        written = re.search(rf"\bas\s*=\s*['\"](?={re.escape(name)}['\"])", text)
        within = (text, written.end()) if written else None
        yield _unknown(path, name, users, origin, within)


def _unknown(
    path: JsonPath, name: str, users: Collection[str], origin: Origin | Place, within: tuple[str, int] | None = None
) -> Problem:
    if not users:
        hint = f"name them: `users: {{{name}: {{login: ...}}}}`; without users a task has one, who needs no `as`"
        return origin.problem(path, f"`{name}` is no user: the task has no `users`", hint=hint, within=within)
    hint = did_you_mean(name, users)
    return origin.problem(path, f"the task has no user `{name}`", expected=join_or(users), hint=hint, within=within)
