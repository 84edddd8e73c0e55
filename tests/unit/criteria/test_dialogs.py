"""`dialogs()` in criteria: as a whole the list of the texts, and an item is the dialog itself."""

from __future__ import annotations

import pytest

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
    ],
)
def test_what_is_asked_about_dialogs(criterion: str, holds: bool) -> None:
    assert World(opened=OPENED).judge(criterion).holds is holds


def test_what_is_missing_is_told() -> None:
    verdict = World().judge("dialogs()[-1].type == 'alert'")
    assert verdict.explanation is not None
    assert verdict.explanation.message == "dialogs()[-1].type is missing (no dialog has opened), expected 'alert'"
    verdict = World(opened=OPENED).judge("dialogs() includes 'Paid'")
    assert verdict.explanation is not None
    assert 'is ["Delete all?", "Card declined"], expected to include' in verdict.explanation.message
