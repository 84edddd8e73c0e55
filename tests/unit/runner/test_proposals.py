"""What is noted of the looks of an agent."""

from __future__ import annotations

from harness.model.ports import Observation
from harness.runner.proposal_notes import ProposalNotes
from tests.unit.fakes import FakeClock, Theatre

SEEN = Observation("http://shop.local/", "Shop", '- button "Buy" [ref=e1]')


def test_a_look_that_shows_what_the_last_one_has_shown_is_noted_once() -> None:
    plan = Theatre().plan()
    notes = ProposalNotes(plan, FakeClock())
    notes.saw(plan, "builder", 1, SEEN)
    notes.saw(plan, "builder", 1, SEEN)
    notes.saw(plan, "builder", 2, SEEN)
    assert [each.step for each in notes.noted] == [1, 2]
