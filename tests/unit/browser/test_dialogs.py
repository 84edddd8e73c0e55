"""What is told of a dialog."""

from __future__ import annotations

from harness.browser.dialogs import TEXT_LENGTH, Answer, told


def test_the_answer_is_told() -> None:
    assert told("alert", "hi", "", Answer()) == {"type": "alert", "message": "hi", "answer": "accept"}
    assert told("confirm", "hi", "", Answer(accept=False))["answer"] == "dismiss"
    assert told("prompt", "who?", "me", Answer())["text"] == "me"
    assert told("prompt", "who?", "me", Answer(text=""))["text"] == ""
    assert "text" not in told("prompt", "who?", "me", Answer(accept=False))


def test_long_texts_are_cut() -> None:
    said = told("prompt", "m" * 9000, "d" * 9000, Answer())
    assert {len(said["message"]), len(said["text"])} == {TEXT_LENGTH}
