"""Why an element could not be acted on, from what the page and the call log say. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from harness.browser.call_log import CallLog
from harness.browser.facts import Facts, elsewhere, textless
from harness.browser.liveness import timed_out
from harness.browser.scene import Scene, seconds
from harness.recovery.catalog import Effect
from harness.recovery.failure import Failure

OTHER_TEXT = "The element is there with another text: mend the text that the selector asks for."
_UNSTABLE = r"is not stable|detached from the DOM"
_OUTSIDE = r"outside of the viewport"
_HIDDEN = rf"is not visible|{_OUTSIDE}"
_DISABLED = r"is not enabled|is not editable"


def element_failure(scene: Scene, facts: Facts | None, log: CallLog) -> Failure:
    """Of an act that ended with its time. `facts`: None when the page did not tell them."""
    details: dict[str, Any] = {"url": scene.page.url, "call_log": log.tail}
    if log.dragging and log.covering:
        return _no_place(scene, log.covering, details)
    if facts is None or (log.effect is not Effect.NONE and not _never_ready(facts, log)):
        return replace(timed_out(scene), details=details, effect=log.effect)
    if facts.frame_missing:
        message = f"no frame matches {facts.missing_frame} (looked for {seconds(scene.patience)})"
        return Failure("FRAME_NOT_FOUND", message, details=details)
    if facts.count == 0 and not log.says(_UNSTABLE):
        return _nowhere(scene, facts, details)
    return _not_ready(scene, facts, log, details)


def _nowhere(scene: Scene, facts: Facts, details: dict[str, Any]) -> Failure:
    """Nothing on the page matches."""
    details |= {"similar": list(facts.similar)} if facts.similar else {}
    message = f"no element matches {scene.selector} (looked for {seconds(scene.patience)})"
    if inside := elsewhere(facts):
        return Failure("ELEMENT_NOT_FOUND", f"{message}; {inside}", details=details, advice=in_frame(facts))
    if near := textless(facts):
        return Failure("ELEMENT_NOT_FOUND", f"{message}; {near}", details=details, advice=OTHER_TEXT)
    return Failure("ELEMENT_NOT_FOUND", message, details=details)


def in_frame(facts: Facts) -> str:
    """What to do about an element that is in a frame."""
    quoted = json.dumps(facts.in_frame, ensure_ascii=False)
    return f"Elements in an iframe need `frame`: say `frame: {quoted}` in this step."


def _never_ready(facts: Facts, log: CallLog) -> bool:
    """It was not ready when it was looked at, and is not now: its time was over in the middle of a further look."""
    return log.unsaid and log.says(r"^retrying") and (facts.disabled or not facts.visible)


def _no_place(scene: Scene, covering: str, details: dict[str, Any]) -> Failure:
    """A drag that was begun and could not be ended: something lies over the place to drop on."""
    message = f"the place on which {scene.selector} is dropped is covered by {covering}"
    return Failure("ELEMENT_COVERED", message, details=details | {"covered_by": covering}, effect=Effect.POSSIBLE)


def _not_ready(scene: Scene, facts: Facts, log: CallLog, details: dict[str, Any]) -> Failure:
    """The element is there."""
    selector = scene.selector
    covering = log.covering or facts.covered_by
    if not facts.visible or (log.says(_HIDDEN) and not covering):
        where = "is outside of the view" if facts.visible and log.says(_OUTSIDE) else "is not visible"
        return Failure("ELEMENT_HIDDEN", f"{selector} {where}", details=details)
    if facts.disabled or log.says(_DISABLED):
        return Failure("ELEMENT_DISABLED", f"{selector} is disabled or read-only", details=details)
    if covering:
        shown = facts.covered_by or covering
        return Failure("ELEMENT_COVERED", f"{selector} is covered by {shown}", details=details | {"covered_by": shown})
    if log.says(_UNSTABLE):
        return Failure("ELEMENT_UNSTABLE", f"{selector} keeps moving or is re-created", details=details)
    return replace(timed_out(scene), details=details)
