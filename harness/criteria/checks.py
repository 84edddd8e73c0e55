"""Judging one comparison or yes-or-no function, and saying it in a sentence."""

from __future__ import annotations

from harness.criteria.operand import Operand, judge
from harness.criteria.reading import read
from harness.criteria.sources import Pass
from harness.criteria.syntax import Compare, Test, Value, constant, oriented
from harness.criteria.verdict import Finding, shown

_EXPECTED = {"==": "", "!=": "anything but ", "includes": "to include ", "matches": "to match "}


async def check(condition: Compare | Test, reads: Pass) -> Finding:
    """Reads what the condition needs and judges it once."""
    if isinstance(condition, Test):
        return await _question(condition, reads)
    operator, subject, wanted = oriented(condition)
    left, right = await read(subject, reads), await read(wanted, reads)
    holds, note = judge(operator, left, right, reads.patience)
    fact = _fact(subject, left)
    explained = bool(note) or not (left.matches and right.matches)
    if not holds:
        fact += f", expected {_EXPECTED.get(operator, operator + ' ')}{_expectation(wanted, right)}"
        fact += f" ({note})" if note and note not in fact else ""
    return Finding(holds, condition.source, right.json, left.json, fact, operator == "==", plain=not explained)


def _fact(subject: Value, operand: Operand) -> str:
    if operand.matches:
        return f"{subject.source} is {shown(operand.json)}"
    return f"{subject.source} is missing" + (f" ({operand.note})" if operand.note else "")


def _expectation(wanted: Value, operand: Operand) -> str:
    if constant(wanted):
        return shown(operand.json)
    if not operand.matches:
        return f"{wanted.source}, which is missing" + (f" ({operand.note})" if operand.note else "")
    return f"{shown(operand.json)} (from {wanted.source})"


async def _question(condition: Test, reads: Pass) -> Finding:
    answer = await read(condition.read, reads)
    holds = True in answer.matches
    selector = condition.read.arguments[0]
    visibly = "visible " if condition.read.function == "visible" else ""
    message = f"{'an' if holds and not visibly else 'a' if holds else 'no'} {visibly}element matches {selector!r}"
    return Finding(holds, condition.source, expected=True, actual=holds, message=message)
