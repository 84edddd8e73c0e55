"""`tags` and `family` become pytest marks: what may be one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.spec.origin import Origin
from harness.spec.problems import Problem, shown
from harness.spec.task import FAMILY, TAG, TaskSpec

TAKEN = frozenset(
    {
        "skip",
        "skipif",
        "xfail",
        "parametrize",
        "usefixtures",
        "filterwarnings",
        "tryfirst",
        "trylast",
        "flaky",
        "timeout",
        "taskspec",
        "xdist_group",
        "asyncio",
        "anyio",
    }
)
"""Marks that mean something to pytest or its plugins: as a tag they would change how the task runs."""
_TAKEN_PREFIX = "allure_"


def mark_problems(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Tags and families that cannot be marks, or would be marks of another meaning."""
    for number, tag in enumerate(spec.tags):
        if not re.fullmatch(TAG, tag):
            expected = "a letter, then letters, digits, `_` and `-`"
            yield origin.problem(("tags", number), "not a tag", expected=expected, found=shown(tag))
        elif tag in TAKEN or tag.startswith(_TAKEN_PREFIX):
            message = f"the tag `{tag}` is a mark with a meaning of its own"
            yield origin.problem(("tags", number), message, hint="choose another word")
    if spec.family is not None and not re.fullmatch(FAMILY, spec.family):
        expected = "letters, digits, `_` and `-`"
        yield origin.problem(("family",), "not a family", expected=expected, found=shown(spec.family))
