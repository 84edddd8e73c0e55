"""What may have been written is done again on no way, unless something denies it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from harness.recovery.never_twice import (
    EffectAnswer,
    Known,
    RepeatVerdict,
    RepeatWay,
    again,
)

KNOWN = some.builds(Known, some.booleans(), some.sampled_from(EffectAnswer), some.booleans())
ASKED_LATER = (RepeatWay.REWIND,)
"""On this way nothing is done again yet: `REPLAY` follows."""
OTHERS = (RepeatWay.NEXT_STEP, RepeatWay.ALTERNATIVE)
"""On these ways something else follows, which must know whether the step was done."""


@given(some.sampled_from(RepeatWay), KNOWN)
def test_nothing_is_done_again_that_may_have_been_sent_and_that_nothing_denies(way: RepeatWay, known: Known) -> None:
    if again(way, known) is not RepeatVerdict.AGAIN or way in ASKED_LATER:
        return
    settled = known.answer is EffectAnswer.DONE and way in OTHERS
    assert not known.wrote or known.undone or known.answer is EffectAnswer.DENIED or settled


@given(some.sampled_from(RepeatWay), some.sampled_from(EffectAnswer))
def test_what_was_not_sent_may_be_done_on_every_way(way: RepeatWay, answer: EffectAnswer) -> None:
    passed = way is RepeatWay.RETRY and answer is EffectAnswer.DONE
    assert again(way, Known(False, answer)) is (RepeatVerdict.PASSED if passed else RepeatVerdict.AGAIN)


@given(some.sampled_from(RepeatWay), KNOWN)
def test_who_did_it_can_only_be_asked_where_the_task_goes_on(way: RepeatWay, known: Known) -> None:
    """A second run and another agent cannot know that the first one has done it in another way."""
    if known.wrote and not known.undone and way in (RepeatWay.TAKEOVER, RepeatWay.RETRACE, RepeatWay.RERUN):
        assert again(way, known) is RepeatVerdict.REFUSED


@given(KNOWN)
def test_going_back_only_where_the_step_can_be_judged_when_it_is_reached_again(known: Known) -> None:
    """Otherwise the task would fail half way, in a worse state."""
    if again(RepeatWay.REWIND, known) is RepeatVerdict.AGAIN and known.answer is EffectAnswer.NONE:
        assert again(RepeatWay.REPLAY, known) is RepeatVerdict.AGAIN


def test_an_environment_that_was_put_back_does_not_allow_an_address_to_be_requested() -> None:
    """The page would be opened in an environment in which its write is done."""
    assert again(RepeatWay.REQUEST, Known(True, undone=True)) is RepeatVerdict.UNKNOWN
    assert again(RepeatWay.REPLAY, Known(True, undone=True)) is RepeatVerdict.AGAIN
