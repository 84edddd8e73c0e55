"""The figures of an evaluation in words: the same in terminal, Markdown, page and gate."""

from __future__ import annotations

from harness.model.consumption import money_text, tokens_text
from harness.model.evaluation import AgentTotals, Comparison, EvaluatedCell, Evaluation
from harness.model.statistics import FEWEST_TASKS
from harness.spec.fault_plan import CLEAN
from harness.spec.names import how_many

_Bounds = tuple[float, float] | None


def share_text(share: float | None) -> str:
    """`87 %`; `nothing counts` if no trial does."""
    return "nothing counts" if share is None else f"{share * 100:.0f} %"


def points_text(difference: float) -> str:
    """`+5 points`."""
    number = f"{difference * 100:+.1f}".removesuffix(".0")
    return f"{'0' if number in ('+0', '-0') else number} points"


def interval_text(interval: _Bounds) -> str:
    """`71 to 93 %`, or that there is none."""
    if interval is None:
        return f"not given below {FEWEST_TASKS} tasks"
    return f"{interval[0] * 100:.0f} to {interval[1] * 100:.0f} %"


def condition_text(fault: str | None) -> str:
    """The name of a fault; `clean` without one."""
    return fault or CLEAN


def void_text(cell: EvaluatedCell) -> str:
    """`3 of 20: 70 to 85 %`: how many are void, and the rate if all had failed or passed; empty if none is."""
    if not cell.void or cell.worst is None or cell.best is None:
        return ""
    return f"{cell.void} of {cell.trials}: {cell.worst * 100:.0f} to {cell.best * 100:.0f} %"


def hat_text(cell: EvaluatedCell, k: int) -> str:
    """pass^k of a cell; empty if no task has so many trials."""
    hats = cell.rate.pass_hat
    return share_text(hats[k - 1]) if k <= len(hats) else ""


def shown_ks(trials: int) -> tuple[int, ...]:
    """The values of k that are shown: 1, 2, 3, 5, 8, ..., and the number of trials."""
    return tuple(sorted({k for k in (1, 2, 3, 5, 8, 13, 21) if k < trials} | {trials}))


def _cost_text(total: AgentTotals) -> str:
    """The cost of an agent: `$0.62`, and how many calls have no known price."""
    if not total.models.calls:
        return "no model"
    if total.models.unpriced_calls:
        return f"{money_text(total.models.cost_usd)} and {total.models.unpriced_calls} unpriced calls"
    return money_text(total.models.cost_usd)


def use_cells(total: AgentTotals) -> tuple[str, ...]:
    """What an agent used, as the cells of a table (`USE_HEAD`)."""
    models = total.models
    tokens = f"{tokens_text(models.input_tokens)} / {tokens_text(models.output_tokens)}" if models.calls else ""
    times = " / ".join(f"{each:.1f}" for each in (total.thinking, total.acting, total.waiting))
    counts = (str(each) for each in (total.steps, total.recovered, total.takeovers))
    each = "not known" if total.cost_per_success is None else money_text(total.cost_per_success)
    cost = (_cost_text(total), each if models.calls else "")
    return (total.agent, str(total.trials), str(models.calls or ""), tokens, *cost, times, *counts)


USE_HEAD = (
    "agent", "trials", "calls", "tokens in / out", "cost", "per success", "s thinking / acting / waiting", "steps",
    "recovered", "takeovers",
)  # fmt: skip


_MOST_DECIDED = 2
"""Comparisons that the headline has; the page, the tables and the document have all."""


def headline(found: Evaluation) -> str:
    """The verdict on all of it: the gate's, or which agents are better."""
    if not found.complete or found.no_verdict or found.gate or not found.comparisons:
        return found.verdict
    decided = [f"{_head(each)} ({condition_text(each.fault)})" for each in found.comparisons if each.better != "open"]
    more = (f"and {len(decided) - _MOST_DECIDED} more",) if len(decided) > _MOST_DECIDED else ()
    return ", ".join((*decided[:_MOST_DECIDED], *more)) or "no agent is better, as far as is known"


def verdict_sentence(found: Comparison) -> str:
    """Which of the two is better, in a sentence, and what it rests on."""
    return f"{_head(found)} ({condition_text(found.fault)}): {evidence_text(found)}"


def _head(found: Comparison) -> str:
    one, other = found.first, found.second
    if found.better != "open":
        better, worse = (one, other) if found.better == "first" else (other, one)
        # With few tasks, only these tasks are spoken of: their trials say nothing about others.
        few = " on this task" if found.tasks == 1 else f" on these {found.tasks} tasks"
        return f"{better} is better than {worse}" + (few if found.interval is None else "")
    if found.too_void:
        return f"no verdict on {one} and {other}, since too many trials are void"
    return f"whether {one} or {other} is better is not known"


def evidence_text(found: Comparison) -> str:
    """The difference, its interval, and McNemar's p, as the better one sees them."""
    sign, spread = -1 if found.better == "second" else 1, found.interval
    low, high = sorted((sign * spread[0], sign * spread[1])) if spread else (0.0, 0.0)
    between = f"{points_text(low)} to {points_text(high)}" if spread else interval_text(None)
    return (
        f"{points_text(sign * (found.difference or 0))} (95 %: {between}), {p_text(found.p_value)} by "
        f"{how_many(found.pairs, 'pair')}, of which {found.only_first} only {found.first} passed and "
        f"{found.only_second} only {found.second}"
    )


def p_text(p_value: float) -> str:
    """`p = 0.0432`, `p < 0.0001`."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.3g}"


def more_text(found: Comparison) -> str:
    """How many trials are missing; empty if the better one is known, or if more trials would not help."""
    if found.better != "open" or found.too_void:
        return ""
    five = found.more_trials_for_5_points
    rest = f"{five} more to see 5 points" if five else "there are enough to see 5 points"
    if found.more_trials is None:
        return f"trials of each task: {rest}"
    own = f"{found.more_trials} more to see this difference" if found.more_trials else "enough to see this difference"
    return f"trials of each task: {own}, {rest}"
