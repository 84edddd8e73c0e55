"""What is told of a dialog, and which answer it gets."""

from __future__ import annotations

import pytest

from harness.browser.dialogs import TEXT_LENGTH, DialogAnswer, Dialogs, met_dialog
from harness.masking import Secrets
from harness.model.dialogs import MetDialog, with_dialogs
from harness.model.warnings import dialog_warnings
from harness.recovery.failure import Failure


def _told(kind: str, answer: DialogAnswer, default: str = "me") -> MetDialog:
    return met_dialog(kind, "who?", default, answer, 2, declared=False)


def test_type_message_and_answer_are_told() -> None:
    alert = {"type": "alert", "message": "who?", "answer": "accept", "step": 2, "declared": False}
    assert _told("alert", DialogAnswer()).as_json() == alert
    assert _told("confirm", DialogAnswer(accept=False)).answer == "dismiss"
    assert _told("prompt", DialogAnswer()).text == "me"
    assert _told("prompt", DialogAnswer(text="")).text == ""
    assert _told("prompt", DialogAnswer(accept=False)).text is None


def test_texts_are_bounded() -> None:
    said = met_dialog("prompt", "m" * 9000, "d" * 9000, DialogAnswer(), 0, declared=True)
    assert (len(said.message), len(said.text or "")) == (TEXT_LENGTH, TEXT_LENGTH)


def test_what_a_cut_leaves_of_a_secret_is_recognized() -> None:
    secret = "Zq7-one-line-Kx93"
    text = "m" * (TEXT_LENGTH - 8) + secret
    said = met_dialog("prompt", text, text, DialogAnswer(), 0, declared=True)
    assert secret[:6] not in Secrets([secret]).mask(f"{said.message} {said.text}")


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        (DialogAnswer(), True),
        (DialogAnswer(message="Delete  the order?"), True),
        (DialogAnswer(message="Delete"), False),
        (DialogAnswer(pattern="^Delete"), True),
        (DialogAnswer(pattern="^order"), False),
    ],
)
def test_an_answer_is_for_the_dialog_with_its_text(answer: DialogAnswer, fits: bool) -> None:
    assert answer.fits("Delete the order?\n") is fits


def test_an_answer_that_a_failed_attempt_used_is_prepared_again_for_the_retry() -> None:
    dialogs = Dialogs(lambda _: None)
    dismiss = DialogAnswer(accept=False)
    dialogs.prepared = (dismiss,)
    dialogs.begin(int)
    dialogs.prepared = ()  # a dialog came
    dialogs.begin(int)
    assert dialogs.prepared == (dismiss,)
    dialogs.prepared = ()
    dialogs.passed()
    dialogs.begin(int)
    assert dialogs.prepared == ()


def test_it_is_not_prepared_again_for_another_kind_of_step() -> None:
    dialogs = Dialogs(lambda _: None)
    dialogs.prepared = (DialogAnswer(accept=False),)
    dialogs.begin(int)
    dialogs.prepared = ()
    dialogs.begin(str)
    assert dialogs.prepared == ()


DECLINED = MetDialog("alert", "Card declined", "accept", 1)
ASKED = MetDialog("confirm", "Sure?", "accept", 0, declared=True)


def test_what_a_page_said_that_nobody_had_asked_for_is_in_the_message_of_the_failure_and_all_in_its_details() -> None:
    told = with_dialogs(Failure("CRITERIA_UNMET", "not paid"), [ASKED, DECLINED])
    assert told.message == "not paid; the page had opened: alert 'Card declined' (accepted in step 1)"
    assert told.details["dialogs"] == [ASKED.as_json(), DECLINED.as_json()]
    assert with_dialogs(Failure("CRITERIA_UNMET", "not paid"), [ASKED]).message == "not paid"
    many = with_dialogs(Failure("CRITERIA_UNMET", "not paid"), 5 * [DECLINED])
    assert many.message.endswith("(and 2 more before)")


def test_a_dialog_that_nobody_asked_for_is_one_warning_however_often_it_came() -> None:
    [warning] = dialog_warnings([ASKED, DECLINED, MetDialog("alert", "Card declined", "accept", 4)])
    assert (warning.type, warning.step_index, warning.details["count"]) == ("dialog_unexpected", 1, 2)
    assert "the alert 'Card declined' 2 times, first in step 1" in warning.message
    assert "it was accepted" in warning.message
