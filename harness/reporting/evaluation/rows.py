"""The tables of an evaluation, as rows of texts."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.evaluation import EvaluatedTask, Evaluation
from harness.model.evaluation_words import condition_text, hat_text, interval_text, share_text, shown_ks, void_text

Row = tuple[str, ...]


def rate_head(found: Evaluation) -> Row:
    """The head of the table of rates."""
    hats = (f"pass^{k}" for k in shown_ks(found.trials) if k > 1)
    struck = ("struck",) if found.faults else ()
    return ("agent", "fault", "passed", "95 %", *hats, "tasks", *struck, "void")


def rate_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each agent and fault: the rates, and pass^k under each fault beside clean."""
    ks = [k for k in shown_ks(found.trials) if k > 1]
    for cell in found.cells:
        hats = (hat_text(cell, k) for k in ks)
        rate = (share_text(cell.rate.share), interval_text(cell.rate.interval))
        struck = () if not found.faults else (f"{cell.struck}/{cell.trials}" if cell.fault else "",)
        yield (cell.agent, condition_text(cell.fault), *rate, *hats, str(cell.rate.tasks), *struck, void_text(cell))


def task_head(found: Evaluation) -> Row:
    """The head of the table of tasks."""
    return ("task", "fault", *found.agents)


def task_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each task and fault, with a cell for each agent: `4/5`, and the void ones."""
    tasks = {(cell.fault, each.task_id, cell.agent): each for cell in found.cells for each in cell.tasks}
    for fault in (None, *found.faults):
        for task_id in found.task_ids:
            own = [tasks.get((fault, task_id, agent)) for agent in found.agents]
            if any(own):
                yield (task_id, condition_text(fault), *map(counted_text, own))


def counted_text(task: EvaluatedTask | None) -> str:
    """`4/5`, `4/4, 1 void`; empty if it was not tried."""
    if task is None:
        return ""
    of = task.passed + task.failed
    return f"{task.passed}/{of}" + (f", {task.void} void" if task.void else "")


def cause_head(found: Evaluation) -> Row:
    """The head of the table of causes."""
    return ("code", "fault", "outcome", *found.agents, "first message")


def cause_rows(found: Evaluation) -> Iterator[Row]:
    """Yield a row for each code, with a cell for each agent."""
    for each in found.causes:
        counts = (str(each.counts.get(name) or "") for name in found.agents)
        yield (each.code, condition_text(each.fault), each.outcome, *counts, each.example)
