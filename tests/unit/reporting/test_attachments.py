"""What a report shows of a task."""

from __future__ import annotations

import csv
import io

from harness.model.record import Score, ScorePart
from harness.reporting.attachments import on_test
from harness.reporting.redaction import MARK, Redactor
from harness.reporting.telling import story_of
from harness.values import replace
from tests.unit.reporting import sample

SECRET = 'say "friend", enter'


def test_a_secret_with_quotes_is_not_in_the_score() -> None:
    parts = (ScorePart("p", "the gate", 0.5, False, reason=f"mem('pw') is not {SECRET}"),)
    result = replace(sample.completed(sample.plan()), score=Score(0.5, parts, {SECRET: 0.25}))
    (table,) = (
        content.data
        for content in on_test(story_of(sample.plan(), result, Redactor([SECRET])))
        if content.name == "score"
    )
    assert list(csv.reader(io.StringIO(table))) == [
        ["part", "weight", "value", "required", "why"],
        ["the gate", "0.5", "0", "False", f"mem('pw') is not {MARK}"],
        [MARK, "", "0.25", "", "rubric"],
        ["score", "", "0.5", "", ""],
    ]
