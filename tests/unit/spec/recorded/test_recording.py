"""Recorded actions become a task that a person would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.spec.load import load_file
from harness.spec.readers import read_yaml
from harness.spec.recorded.actions import Action, GivenAnswer, Recording
from harness.spec.recorded.journey import WrittenStep, journey_of, tidied
from harness.spec.recorded.locators import LocatorPart
from harness.spec.recorded.recording import Effects, RecordedEvent, action_of, recorded_task, variables_of
from harness.spec.recorded.text import TaskText, scalar

USER, BUTTON = (LocatorPart("css", "#user"),), (LocatorPart("role", "button", exact=True, name="Buy"),)
PASSWORD = (LocatorPart("css", "#pw"),)
OPEN = Action(name="navigate", text="http://shop.test/home")


def recording(*actions: Action, **more: Any) -> Recording:
    known = {"passwords": {}, "visited": ("shop.test",), "loaded": (), "address": "http://shop.test/done?x=1"}
    return Recording(actions=(OPEN, *actions), **{**known, **more})


def test_a_recording_is_written_as_a_task(tmp_path: Path) -> None:
    heard = recording(
        Action(name="click", locator=USER),
        Action(name="fill", locator=USER, text="ann"),
        Action(name="press", locator=USER, text="Tab"),
        Action(name="fill", locator=PASSWORD, text="s3cret"),
        Action(name="press", locator=PASSWORD, text="Enter", sent=("POST /login",), reached="http://shop.test/s3cret"),
        Action(
            name="click",
            locator=BUTTON,
            dialogs=(GivenAnswer(False),),
            sent=("POST /buy",),
            reached="http://shop.test/o.k",
        ),
        Action(name="missing", text="click on #a", why="a task has no act for a double click"),
        passwords={"s3cret": "user[pass]"},
        loaded=("cdn.test",),
    )
    text, journey = recorded_task(heard, "http://shop.test/", {"task_id": "BUY", "goal": "Buy: it"})
    written = str(text)
    assert (
        written
        == """\
# It needs the environment variable USER_PASS.
task_id: BUY
goal: "Buy: it"
allowed_domains: [shop.test, cdn.test] # the pages load from cdn.test; leave out what they do not need
expect_timeout: 5
steps:
  - {act: open, url: "http://shop.test/"}
  - {act: type, selector: "#user", value: ann}
  - {act: type, selector: "#pw", value: "${env:USER_PASS}"}
  # This step sent POST /login, so it is never done twice. For recovery after a failure,
  # say how to tell that it took effect, for example  done_when: "exists('#what-it-makes')"
  - {act: press, selector: "#pw", value: Enter, effect: write}
  - {act: dialog, value: dismiss}
  # This step sent POST /buy, so it is never done twice. For recovery after a failure,
  # say how to tell that it took effect, for example  done_when: "url() matches '/o\\.k$'"
  - {act: click, selector: 'role=button[name="Buy"]', effect: write}
  # MISSING: a task has no act for a double click
  #   click on #a
# Proposed from the page at the end. Say here what must be true if the task did what it is for,
# for example  "text('#order-status') == 'confirmed'"
success_criteria:
  - "url() includes '/done'"
"""
    )
    assert [each.why for each in journey.missing] == ["a task has no act for a double click"]
    file = tmp_path / "buy.task.yaml"
    file.write_text(written, "utf-8")
    assert len(load_file(file).spec.steps) == 6


def test_assertions_at_the_end_become_criteria_and_those_before_stay_steps() -> None:
    seen = Action(name="assertVisible", locator=USER)
    said = Action(name="assertText", locator=USER, text="a b", exact=False)
    journey = journey_of(
        [seen, Action(name="click", locator=BUTTON), said, Action(name="assertValue", locator=USER, text="2")]
    )
    assert journey.steps[0].keys == {"act": "assert", "expr": "visible('#user')"}
    assert journey.criteria == ("text('#user') includes 'a b'", "value('#user') == '2'")
    framed = Action(
        name="assertText", locator=(LocatorPart("css", "#f"), LocatorPart("frame"), *USER), text="x", exact=False
    )
    assert journey_of([OPEN, framed]).criteria == ("text('#user', frame='#f') includes 'x'",)
    literal = Action(name="assertText", locator=USER, text="<= 30")
    assert journey_of([literal, OPEN]).steps[0].keys == {"act": "assert", "expr": "text('#user') == '<= 30'"}


def test_pages_are_switched_and_pages_at_the_end_keep_their_assertions() -> None:
    popup = Action(name="assertText", locator=USER, text="x", page=1, newest=True)
    steps = journey_of([OPEN, Action(name="click", locator=BUTTON), popup, Action(name="click", locator=BUTTON)]).steps
    assert [step.keys.get("value") for step in steps if step.keys["act"] == "switch_page"] == [-1, 0]
    assert journey_of([OPEN, popup]).criteria == ()


def test_a_click_on_a_label_and_a_marked_text_are_not_written() -> None:
    label, box = (LocatorPart("text", "Same day"),), (LocatorPart("role", "checkbox", exact=True, name="Same day"),)
    done = [
        Action(name="click", locator=label),
        Action(name="check", locator=box),
        Action(name="press", locator=USER, text="Control+a"),
        Action(name="fill", locator=USER, text="x"),
        Action(name="press", locator=USER, text="Enter"),
    ]
    assert [action.name for action in tidied(done)] == ["check", "fill", "press"]
    downloads = Action(name="click", locator=label, download="a.txt")
    assert tidied([downloads, done[1]])[0] is downloads


def test_passwords_are_found_inside_texts_and_get_names_of_their_own() -> None:
    assert variables_of({"a": "pw", "b": "pw", "c": "2fa", "d": "["}) == {
        "a": "PW", "b": "PW_2", "c": "PASSWORD_2FA", "d": "PASSWORD",
    }  # fmt: skip
    heard = recording(
        Action(name="navigate", text="http://shop.test/?token=hunter2"), passwords={"hunter2": "pw", "x": "q"}
    )
    written = str(recorded_task(heard, "http://shop.test/", {"task_id": "T"})[0])
    assert "hunter2" not in written
    assert "?token=${env:PW}" in written


def test_what_the_recorder_tells_is_carried_over_or_missing() -> None:
    def action(**data: Any) -> Action:
        return action_of(RecordedEvent({"selector": "#a", **data}, None, 0, newest=False, at=0.0))

    assert action(name="press", key="a", modifiers=10).text == "Control+Shift+a"
    assert action(name="press", key=" ", modifiers=0).text == "Space"
    assert action(name="fill", text="${x}").text == "$${x}"
    assert action(name="assertText", text="a", substring=True).exact is False
    assert action(name="assertChecked", checked=False).negated
    assert "right button" in action(name="click", button="right").why
    assert "double click" in action(name="click", clickCount=2).why
    assert "Shift held" in action(name="click", clickCount=1, modifiers=8).why
    assert "`frobnicate`" in action(name="frobnicate").why
    files = RecordedEvent(
        {"name": "fill", "selector": "#f", "text": "C:\\fakepath\\a"}, None, 0, False, 0.0, files=("a", "b")
    )
    assert (action_of(files).name, action_of(files).values) == ("setInputFiles", ("a", "b"))
    effects = Effects(sent=["POST /x"], download="a.txt")
    assert (
        action_of(RecordedEvent({"name": "click", "selector": "#a"}, None, 1, True, 0.0, effects)).download == "a.txt"
    )


@given(st.text(max_size=40))
def test_every_text_survives_the_file(text: str) -> None:
    written = TaskText((), {"task_id": "T"}, (WrittenStep({"act": "type", "selector": "#a", "value": text}),), ())
    if all(char.isprintable() or char in "\n\t" for char in text):
        assert read_yaml(str(written))["steps"][0]["value"] == text
        assert read_yaml(f"- {scalar(text)}") == [text]
