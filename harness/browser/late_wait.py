"""What a `wait` that ended without its element found instead. Pure."""

from __future__ import annotations

from dataclasses import replace

from harness.browser.element_failure import in_frame
from harness.browser.facts import Facts, elsewhere, textless
from harness.browser.liveness import timed_out
from harness.browser.scene import Scene, shortened
from harness.criteria import fold
from harness.recovery.failure import Failure


def late_wait(scene: Scene, facts: Facts | None) -> Failure:
    """`Step timeout: wait for ... exceeded ...s`, and what the page has in its place."""
    failure = timed_out(scene)
    if facts is None:
        return failure
    found = instead(facts, scene.text)
    details = {**failure.details, "count": facts.count, "visible": facts.visible_count}
    details |= {"text": facts.text} if facts.count and scene.text is not None else {}
    details |= {"instead": found} if found else {}
    details |= {"similar": list(facts.similar)} if facts.similar else {}
    advice = in_frame(facts) if facts.in_frame else failure.advice
    message = f"{failure.message}: {found}" if found else failure.message
    return replace(failure, message=message, details=details, advice=advice)


def instead(facts: Facts, wanted: str | None) -> str:
    """What is there instead of the awaited element; empty when it came just now."""
    if facts.missing_frame is not None:
        return f"no frame matches {facts.missing_frame}"
    if facts.count == 0:
        near = elsewhere(facts) or textless(facts)
        return f"no element matches; {near}" if near else "no element matches"
    if facts.visible_count == 0:
        return f"{_matching(facts.count)}, none is visible"
    if wanted is None or fold(wanted) in facts.text:
        return ""
    shown = f"text is {shortened(facts.text)!r}"
    return f"its {shown}" if facts.count == 1 else f"{_matching(facts.count)}, the first visible one's {shown}"


def _matching(count: int) -> str:
    return "1 element matches" if count == 1 else f"{count} elements match"
