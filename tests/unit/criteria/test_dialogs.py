"""`dialogs()` in criteria: as a whole the list of the texts, and an item is the dialog itself."""

from __future__ import annotations

import pytest

from harness.criteria import CriterionError, parse
from tests.unit.criteria.conftest import World

OPENED = [
    {"type": "confirm", "message": "Delete all?", "answer": "dismiss", "step": 1},
    {"type": "alert", "message": "Card declined", "answer": "accept", "step": 2},
]


@pytest.mark.parametrize(
    ("criterion", "holds"),
    [
        ("dialogs() includes 'Card declined'", True),
        ("dialogs() includes 'Card'", False),
        ("dialogs().length == 2", True),
        ("dialogs() == ['Delete all?', 'Card declined']", True),
        ("dialogs()[-1].message includes 'Card'", True),
        ("dialogs()[0].type == 'confirm' && dialogs()[0].answer == 'dismiss'", True),
        ("dialogs()[2].type == 'alert'", False),
        ("ALL[dialogs() != 'Card declined']", False),
        ("ANY[dialogs() matches 'declined$']", True),
        ("dialogs() == mem('both') && !(dialogs() != mem('both'))", True),
        ("dialogs() == mem('one')", False),
        ("dialogs() != mem('one')", False),
    ],
)
def test_what_is_asked_about_dialogs(criterion: str, holds: bool) -> None:
    memory = {"both": ["Delete all?", "Card declined"], "one": "Delete all?"}
    assert World(opened=OPENED, entries=memory).judge(criterion).holds is holds


@pytest.mark.parametrize("form", ["{} != 'x'", "{} == 'x'", "{} matches 'x'", "'x' == {}", "{} == 7", "NOT[{} == 'x']"])
@pytest.mark.parametrize("listed", ["dialogs()", "console('error *')", "requests('*')", "texts('#a')", "class('#a')"])
def test_a_list_that_is_compared_with_one_value_is_refused(listed: str, form: str) -> None:
    """It never equals one, so `!=` would hold whatever is in it."""
    with pytest.raises(CriterionError, match="is the list of all values found"):
        parse(form.format(listed))


def test_what_is_missing_is_told() -> None:
    verdict = World().judge("dialogs()[-1].type == 'alert'")
    assert verdict.explanation is not None
    assert verdict.explanation.message == "dialogs()[-1].type is missing (no dialog has opened), expected 'alert'"
    verdict = World(opened=OPENED).judge("dialogs() includes 'Paid'")
    assert verdict.explanation is not None
    assert 'is ["Delete all?", "Card declined"], expected to include' in verdict.explanation.message
