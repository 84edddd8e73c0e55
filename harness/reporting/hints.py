"""What a hint says where people read it: nothing about evidence that is not there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from harness.model.diagnosis import advice, assertion_hint
from harness.model.plan import Plan
from harness.model.record import TaskResult
from harness.recovery.catalog import Family
from harness.reporting.names import shown_path

NO_SERVICES = "Check the host's spelling; there is no [tool.harness.services] in {}: `harness demo` shows a set-up."

_FILES = {
    "dom_snapshot.html": "dom_snapshot.html",
    "env_snapshot.json": "env_snapshot.json",
    "screenshot": "screenshot.png",
    "network log": "network_logs.har",
    "console log": "console_logs.txt",
}
"""Words of the catalog's hints -> the artifact that they send people to."""


def fitting_hint(plan: Plan, result: TaskResult, said: Collection[str] = (), unserved: Path | None = None) -> str:
    """The hint of the failure's code, without the parts that name what this failure does not have, or are `said`.

    `unserved`: the settings of a project that says nothing of where its hosts are.
    """
    if result.failure is None:
        return ""
    if text := advice(result, expected=bool(result.error and result.error.expected)):
        return text
    if result.failure.family is Family.ASSERTION:
        return assertion_hint(plan, result.failure)
    if unserved is not None and result.failure.code == "NET_DNS":
        return NO_SERVICES.format(shown_path(unserved))
    text, absent = result.failure.hint, _absent(plan, result).union(said)
    parts = text.removesuffix(".").split("; ")
    kept = [part for part in parts if not any(words in part for words in absent)]
    if len(kept) == len(parts):
        return text
    fitting = "; ".join(kept)
    return f"{fitting[0].upper()}{fitting[1:]}." if fitting else ""


def _absent(plan: Plan, result: TaskResult) -> set[str]:
    folder, assertion = result.artifacts, result.failure.assertion if result.failure else None
    found: set[str] = set()
    if folder is not None and folder.is_dir():
        found |= {words for words, name in _FILES.items() if not (folder / name).is_file()}
    if assertion is None or not assertion.diff:
        found.add("the diff")
    if not plan.heal:
        found.add("`fallback_selectors`")
    return found
