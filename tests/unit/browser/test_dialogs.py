"""What is told of a dialog."""

from __future__ import annotations

from harness.browser.dialogs import TEXT_LENGTH, DialogAnswer, Dialogs, dialog_record


def test_the_answer_is_told() -> None:
    assert dialog_record("alert", "hi", "", DialogAnswer()) == {"type": "alert", "message": "hi", "answer": "accept"}
    assert dialog_record("confirm", "hi", "", DialogAnswer(accept=False))["answer"] == "dismiss"
    assert dialog_record("prompt", "who?", "me", DialogAnswer())["text"] == "me"
    assert dialog_record("prompt", "who?", "me", DialogAnswer(text=""))["text"] == ""
    assert "text" not in dialog_record("prompt", "who?", "me", DialogAnswer(accept=False))


def test_long_texts_are_cut() -> None:
    said = dialog_record("prompt", "m" * 9000, "d" * 9000, DialogAnswer())
    assert {len(said["message"]), len(said["text"])} == {TEXT_LENGTH}


def test_an_answer_that_a_failed_attempt_used_up_holds_for_the_next_one() -> None:
    dialogs = Dialogs(lambda _: None)
    dismiss = DialogAnswer(accept=False)
    dialogs.next = dismiss
    dialogs.begin(int)
    dialogs.next = None  # a dialog came
    dialogs.begin(int)
    assert dialogs.next == dismiss
    dialogs.next = None
    dialogs.passed()
    dialogs.begin(int)
    assert dialogs.next is None


def test_another_step_does_not_get_it() -> None:
    dialogs = Dialogs(lambda _: None)
    dialogs.next = DialogAnswer(accept=False)
    dialogs.begin(int)
    dialogs.next = None
    dialogs.begin(str)
    assert dialogs.next is None
