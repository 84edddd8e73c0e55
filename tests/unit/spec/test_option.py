"""An option of a list, as reports show it."""

from __future__ import annotations

from harness.reporting.words import step_target
from harness.spec.steps import Option, Select


def test_a_step_with_an_option_is_shown_as_its_file_has_it() -> None:
    step = Select(selector="#city", value=Option(label="De'n"))
    assert step_target(step) == '#city = {label: "De\'n"}'
    assert step.describe() == 'select #city = {label: "De\'n"}'
    assert str(Option(index=2)) == "{index: 2}"
