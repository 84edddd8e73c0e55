"""`accessibility`: checks the page with axe-core, in every frame, out of reach of the page's own scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright.async_api import Error as PlaywrightError

from harness.browser.acts.attempt import ActContext
from harness.browser.acts.files import free_path
from harness.browser.isolated import ask_frame, frames_of
from harness.recovery.failure import Failed, Failure
from harness.spec.names import how_many
from harness.spec.problems import did_you_mean
from harness.spec.steps import IMPACTS, Accessibility

_PACKAGE = "axe_playwright_python"
"""The package that ships axe-core."""
_MOST_NODES = 5
"""The number of elements that a message names for each rule; the artifact has all."""
_LONGEST = 200
_RUN = """
async options => {
  if (!globalThis.axe) { AXE }
  const {include, exclude, ...rest} = options;
  const known = new Set(axe.getRules().flatMap(rule => rule.tags));
  const unknown = (rest.runOnly?.values ?? []).filter(tag => !known.has(tag));
  if (unknown.length) return {unknown, known: [...known].sort()};
  if (include && !document.querySelector(include)) return null;
  const found = await axe.run({...(include ? {include: [include]} : {}), exclude: exclude.map(each => [each])}, rest);
  return {violations: found.violations, version: found.testEngine.version, rules: found.passes.length};
}
"""


async def accessibility(attempt: ActContext, step: Accessibility) -> Mapping[str, Any]:
    """Check the page; violations are an assertion failure that names their elements. The whole result is kept."""
    documents = await _checked(attempt, step)
    if not documents:
        raise Failed(Failure("ELEMENT_NOT_FOUND", f"no element matches {step.selector}", step.selector))
    path = free_path(attempt.request.folder / "accessibility", f"{step.screenshot_id or 'result'}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(documents, indent=1, ensure_ascii=False), "utf-8", "replace")
    violations = [each for document in documents for each in document["violations"]]
    least = IMPACTS.index(step.impact)
    counted = [each for each in violations if IMPACTS.index(each.get("impact") or "minor") >= least]
    if not counted:
        return {"violations": len(violations), "file": path.name, "path": str(path)}
    message = f"{how_many(len(counted), 'rule')} of accessibility violated: {'; '.join(_described(counted))}"
    details = {"violations": [_shortened(each) for each in counted], "file": path.name}
    advice = "; ".join(f"{each['help']}: {each['helpUrl'].partition('?')[0]}" for each in counted[:2])
    raise Failed(Failure("ACCESSIBILITY_VIOLATIONS", message, step.selector, details=details, advice=advice))


async def _checked(attempt: ActContext, step: Accessibility) -> list[dict[str, Any]]:
    """The results of all frames in which there is something to check. Raises Failed for options that axe refuses."""
    if attempt.request.context.java_script is False:
        raise Failed(Failure("INVALID_INPUT", "axe-core needs scripts, but `java_script: false` switches them off"))
    options = {
        "include": step.selector,
        "exclude": list(step.ignore),
        "iframes": False,  # each frame is checked by itself
        "resultTypes": ["violations"],
        "rules": {name: {"enabled": on} for name, on in step.rules.items()},
        **({"runOnly": {"type": "tag", "values": list(step.tags)}} if step.tags else {}),
    }
    found = []
    for frame in await frames_of(attempt.tab.control):
        try:
            result = await ask_frame(attempt.tab.control, frame, _RUN.replace("AXE", _source()), options)
        except PlaywrightError as error:
            if "rule" in error.message or "tag" in error.message or "selector" in error.message:
                raise Failed(Failure("INVALID_INPUT", f"axe-core refuses the step: {error.message}")) from error
            raise
        if result and "unknown" in result:  # axe-core would check nothing for such a tag, and every page would pass
            tag, known = result["unknown"][0], result["known"]
            advice = did_you_mean(tag, known) or f"It has {', '.join(known)}."
            raise Failed(Failure("INVALID_INPUT", f"axe-core has no rule with the tag {tag!r}", advice=advice))
        found += [result] if result else []
    return found


@cache
def _source() -> str:
    """The source of axe-core. Raises Failed if its package is not installed."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        message = "`accessibility` needs axe-core: pip install 'pytest-taskspec[accessibility]'"
        raise Failed(Failure("INVALID_INPUT", message))
    return Path(spec.origin).with_name("axe.min.js").read_text("utf-8")


def _described(violations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each rule, with the elements that violate it. Pure."""
    for each in violations:
        nodes = [" ".join(map(str, node["target"])) for node in each["nodes"]]
        more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
        yield f"{each['id']} ({each.get('impact')}): {', '.join(nodes[:_MOST_NODES])}{more}"


def _shortened(violation: Mapping[str, Any]) -> dict[str, Any]:
    """A violation as reports show it."""
    nodes = [
        {"target": " ".join(map(str, node["target"])), "html": str(node.get("html", ""))[:_LONGEST]}
        for node in violation["nodes"][:_MOST_NODES]
    ]
    return {**{name: violation.get(name) for name in ("id", "impact", "help", "helpUrl")}, "nodes": nodes}
