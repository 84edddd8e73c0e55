"""Decides what is done again: one function, for every way back (docs/design/never-twice.md). Pure.

Nothing that may have written is done again, unless it is known that nothing was sent, or that the effect is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class RepeatWay(StrEnum):
    """A way on which something could be done a second time."""

    RETRY = "the step is tried again, also with another selector"
    REWIND = "the task goes back over the step"
    REPLAY = "the step is reached again after going back"
    REQUEST = "an address that it produced is requested again"
    FILL = "its fields are filled again in a restored page"
    NEXT_STEP = "an agent chooses the next step"
    TAKEOVER = "another agent begins the task anew"
    ALTERNATIVE = "the alternative task runs"
    RETRACE = "`--task-retrace`"
    RERUN = "another process runs the task"


class EffectAnswer(StrEnum):
    """What `done_when` says about the effect."""

    DONE = "true"
    DENIED = "false"
    UNREADABLE = "cannot know"
    NONE = "none"


class RepeatVerdict(StrEnum):
    """What follows."""

    AGAIN = "yes"
    PASSED = "passed"
    UNKNOWN = "unknown"
    REFUSED = "no"


class Known(Struct, frozen=True):
    """What is known of the effect of a step, or of a whole task."""

    wrote: bool
    """It may have written: it is a write that was not certainly left undone, or was seen to send, or could not be
    seen."""
    answer: EffectAnswer = EffectAnswer.NONE
    undone: bool = False
    """The environment was put back to before it, and that takes the effect back."""


_A, _P, _U, _R = RepeatVerdict.AGAIN, RepeatVerdict.PASSED, RepeatVerdict.UNKNOWN, RepeatVerdict.REFUSED
_WHERE_WRITTEN: Final[Mapping[RepeatWay, tuple[RepeatVerdict, RepeatVerdict, RepeatVerdict, RepeatVerdict]]] = {
    RepeatWay.RETRY: (_P, _A, _U, _U),
    RepeatWay.REWIND: (_A, _A, _A, _R),  # where there is a `done_when`, `REPLAY` asks it
    RepeatWay.REPLAY: (_P, _A, _U, _U),
    RepeatWay.REQUEST: (_U, _A, _U, _U),
    RepeatWay.FILL: (_U, _A, _U, _U),
    RepeatWay.NEXT_STEP: (_A, _A, _U, _U),
    RepeatWay.TAKEOVER: (_R, _R, _R, _R),  # nobody would notice the same write, done in another way
    RepeatWay.ALTERNATIVE: (_R, _A, _R, _R),
    RepeatWay.RETRACE: (_R, _R, _R, _R),
    RepeatWay.RERUN: (_R, _R, _R, _R),  # a dead process cannot be asked how far it came
}
"""The verdicts where something may have been written and was not undone, in the order of `EffectAnswer`."""
_IN_THE_ENVIRONMENT: Final = (RepeatWay.REWIND, RepeatWay.REPLAY, RepeatWay.TAKEOVER, RepeatWay.RETRACE)
"""The ways on which the environment is put back before anything is done again."""


def again(way: RepeatWay, known: Known) -> RepeatVerdict:
    """Return whether it may be done again on this way, and what happens otherwise."""
    passed = way is RepeatWay.RETRY and known.answer is EffectAnswer.DONE
    if (known.undone and way in _IN_THE_ENVIRONMENT) or not (known.wrote or passed):
        return RepeatVerdict.AGAIN
    return _WHERE_WRITTEN[way][list(EffectAnswer).index(known.answer)]


WROTE = "this task had begun to write, so it does not run again"
"""The reason for which `RepeatWay.RERUN` is refused, in the words of all who say it."""
