"""Failure table 2.5: elements that are missing, too many, covered, disabled, hidden, moving, or of the wrong kind."""

from __future__ import annotations

from typing import Any

from harness.recovery.catalog import Effect
from tests.browser.table.case import PRESENT, Case, Step, judge
from tests.browser.table.table_stage import TableStage
from tests.browser.table.troubled_pages import at

OVERLAY = '<div id="overlay" class="modal bg">overlay'
NOTHING = Effect.NONE
DISABLED, HIDDEN, UNSTABLE = "ELEMENT_DISABLED", "ELEMENT_HIDDEN", "ELEMENT_UNSTABLE"
WITHIN = 1.0


def element(name: str, step: Step, code: str, **expected: Any) -> Case:
    page = at("moving" if code == UNSTABLE else "elements")
    return Case(f"2.5-{name}", (page, step), code, **{"effect": NOTHING, "within": WITHIN, "patience": 0.5} | expected)


def ambiguous(act: str, selector: str, **keys: Any) -> Case:
    step = {"act": act, "selector": selector, **keys}
    details = {"count": 2, "matches": PRESENT}
    message = f"{selector} matches 2 elements"
    return element(
        f"ambiguous-{act}", step, "SELECTOR_AMBIGUOUS", details=details, message=message, fast=act == "click"
    )


def missing(act: str, **keys: Any) -> Case:
    step = {"act": act, "selector": "#missing", **keys}
    message = "no element matches #missing (looked for 0.5s)"
    return element(f"missing-{act}", step, "ELEMENT_NOT_FOUND", message=message, fast=act == "click")


def covered(act: str, **keys: Any) -> Case:
    step = {"act": act, "selector": "#covered", **keys}
    message = f"#covered is covered by {OVERLAY}"
    return element(f"covered-{act}", step, "ELEMENT_COVERED", details={"covered_by": OVERLAY}, message=message)


def unready(name: str, step: Step, code: str, message: str, *, fast: bool = False) -> Case:
    return element(name, step, code, message=message, fast=fast)


def wrong(name: str, step: Step, message: str, **expected: Any) -> Case:
    return element(name, step, "INVALID_INPUT", message=message, **expected)


CASES = (
    missing("click"),
    missing("type", value="x"),
    missing("select", value="x"),
    missing("upload", value="a.txt"),
    missing("hover"),
    missing("check"),
    missing("uncheck"),
    missing("press", value="Enter"),
    missing("drag", value="#div"),
    missing("download"),
    missing("submit"),
    missing("scroll"),
    missing("screenshot", screenshot_id="s"),
    element(
        "missing-place-of-drag",
        {"act": "drag", "selector": "#div", "value": "#missing"},
        "ACTION_FAILED",
        details={"place": "#missing"},
        message="no element matches #missing, the drop target of #div",
    ),
    element(
        "missing-wait",
        {"act": "wait", "selector": "#missing"},
        "STEP_TIMEOUT",
        details={"count": 0, "visible": 0},
        message="Step timeout: wait for #missing exceeded 1s: no element matches",
        fast=True,
    ),
    element(
        "wait-another-text",
        {"act": "wait", "selector": "#text", "value": "bye"},
        "STEP_TIMEOUT",
        details={"count": 1, "text": "hello"},
        message="wait for #text with text 'bye' exceeded 1s: its text is 'hello'",
    ),
    element("wait-hidden", {"act": "wait", "selector": "#hidden"}, "STEP_TIMEOUT", details={"count": 1, "visible": 0}),
    ambiguous("click", ".twin"),
    ambiguous("type", ".field", value="x"),
    ambiguous("check", ".box"),
    ambiguous("uncheck", ".box"),
    ambiguous("select", ".list", value="a"),
    ambiguous("upload", ".file", value="a.txt"),
    ambiguous("submit", ".form"),
    ambiguous("hover", ".twin"),
    ambiguous("press", ".field", value="a"),
    ambiguous("drag", ".twin", value="#div"),
    ambiguous("download", ".twin"),
    wrong(
        "ambiguous-place-of-drag",
        {"act": "drag", "selector": "#div", "value": ".twin"},
        ".twin, the drop target of #div, matches 2 elements",
        details={"place": ".twin", "count": 2},
    ),
    covered("click"),
    covered("hover"),
    covered("drag", value="#div"),
    covered("download"),
    element(
        "covered-place-of-drag",
        {"act": "drag", "selector": "#div", "value": "#covered"},
        "ELEMENT_COVERED",
        effect=Effect.POSSIBLE,
        details={"covered_by": PRESENT, "call_log": PRESENT},
        message='<div id="overlay" class="modal bg">overlay</div>',
    ),
    unready("disabled-click", {"act": "click", "selector": "#disabled"}, DISABLED, "#disabled is disabled"),
    unready("disabled-submit", {"act": "submit", "selector": "#disabled"}, DISABLED, "#disabled is disabled"),
    unready("disabled-by-its-fieldset", {"act": "click", "selector": "#inside"}, DISABLED, "#inside is disabled"),
    unready("disabled-by-aria", {"act": "click", "selector": "#aria"}, DISABLED, "#aria is disabled"),
    unready("disabled-type", {"act": "type", "selector": "#off", "value": "x"}, DISABLED, "#off is disabled"),
    unready("readonly", {"act": "type", "selector": "#fixed", "value": "x"}, DISABLED, "read-only"),
    unready("disabled-list", {"act": "select", "selector": "#off-list", "value": "a"}, DISABLED, "#off-list is"),
    unready("disabled-box", {"act": "check", "selector": "#off-box"}, DISABLED, "#off-box is disabled"),
    unready(
        "disabled-option",
        {"act": "select", "selector": "#colour", "value": "b"},
        DISABLED,
        "option 'b' of #colour is disabled",
    ),
    unready("hidden-click", {"act": "click", "selector": "#hidden"}, HIDDEN, "#hidden is not visible"),
    unready("hidden-type", {"act": "type", "selector": "#hidden-field", "value": "x"}, HIDDEN, "is not visible"),
    unready("hidden-hover", {"act": "hover", "selector": "#hidden"}, HIDDEN, "is not visible"),
    unready("hidden-scroll", {"act": "scroll", "selector": "#hidden"}, HIDDEN, "is not visible"),
    unready(
        "hidden-screenshot", {"act": "screenshot", "selector": "#hidden", "screenshot_id": "s"}, HIDDEN, "not visible"
    ),
    unready("zero-size", {"act": "click", "selector": "#zero"}, HIDDEN, "#zero is not visible"),
    unready("off-screen", {"act": "click", "selector": "#away"}, HIDDEN, "#away is outside the view"),
    unready("animating-click", {"act": "click", "selector": "#moving"}, UNSTABLE, "#moving keeps moving"),
    unready("animating-hover", {"act": "hover", "selector": "#moving"}, UNSTABLE, "#moving keeps moving"),
    Case(
        "2.5-re-rendered",
        (at("rendered"), {"act": "click", "selector": "#again"}),
        UNSTABLE,
        NOTHING,
        message="#again keeps moving or is re-created",
    ),
    element(
        "option-missing",
        {"act": "select", "selector": "#colour", "value": "Pink"},
        "OPTION_NOT_FOUND",
        details={"options": ["r", "g", "b"]},
        message="#colour has no such option: 'Pink'; it has: r (Red), g (Green), b (Blue) [disabled]",
    ),
    wrong("type-into-a-div", {"act": "type", "selector": "#div", "value": "x"}, "has no text to type into"),
    wrong("type-into-a-file-field", {"act": "type", "selector": "#file", "value": "x"}, 'type "file" cannot be filled'),
    wrong("type-into-a-radio", {"act": "type", "selector": "#radio", "value": "x"}, 'type "radio" cannot be filled'),
    wrong("check-a-div", {"act": "check", "selector": "#div"}, "Not a checkbox or radio button"),
    wrong("uncheck-a-radio", {"act": "uncheck", "selector": "#radio"}, "Cannot uncheck radio button"),
    wrong("select-in-a-div", {"act": "select", "selector": "#div", "value": "x"}, "Element is not a <select> element"),
    wrong("submit-without-a-form", {"act": "submit", "selector": "#div"}, "Element is not an element of a form"),
    wrong("bad-css", {"act": "click", "selector": "div["}, 'while parsing css selector "div["', fast=True),
    wrong("bad-css-wait", {"act": "wait", "selector": "div["}, 'while parsing css selector "div["'),
    wrong("bad-xpath", {"act": "click", "selector": "//div["}, "is not a valid XPath expression"),
    wrong("bad-engine", {"act": "click", "selector": "foo=bar"}, 'Unknown engine "foo" while parsing selector'),
    wrong("unknown-key", {"act": "press", "value": "Foo"}, 'Unknown key: "Foo"'),
    wrong("unknown-key-on-a-field", {"act": "press", "selector": ".field >> nth=0", "value": "Foo"}, "Unknown key"),
    wrong("file-missing", {"act": "upload", "selector": "#file", "value": "no.txt"}, "upload no.txt: there is no such"),
    wrong("file-outside", {"act": "upload", "selector": "#file", "value": "../a.txt"}, "outside of the task's folder"),
    wrong(
        "files-too-many",
        {"act": "upload", "selector": "#file", "value": ["a.txt", "a.txt"]},
        "Non-multiple file input can only accept single file",
    ),
    element(
        "no-file-chooser",
        {"act": "upload", "selector": "#idle", "value": "a.txt"},
        "ACTION_FAILED",
        effect=Effect.DONE,
        message="a click on it opened no file chooser",
    ),
    element(
        "no-download",
        {"act": "download", "selector": "#idle"},
        "DOWNLOAD_FAILED",
        effect=Effect.DONE,
        message="a click on #idle started no download",
    ),
)


def test_element(run: Any, stage: TableStage, case: Case) -> None:
    (stage.folder / "a.txt").write_text("x", "utf-8")
    run(judge(stage, case))
