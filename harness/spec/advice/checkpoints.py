"""Checkpoints that are never taken or never gone back to (DESIGN 4.5)."""

from __future__ import annotations

from collections.abc import Iterator

from harness.spec.origin import Origin
from harness.spec.problems import Problem, Way
from harness.spec.task import TaskSpec


def checkpoint_advice(spec: TaskSpec, origin: Origin) -> Iterator[Problem]:
    """Of a task whose steps an agent chooses, their number is not known."""
    timeout, crash = spec.error_recovery.on_timeout.strategy, spec.error_recovery.on_browser_crash.strategy
    for number, index in enumerate(spec.checkpoints):
        path: Way = ("checkpoints", number)
        if spec.steps and index >= len(spec.steps):
            message = f"never taken: there is no step {index}"
            expected = f"0 to {len(spec.steps) - 1}"
            yield origin.problem(path, message, expected=expected, severity="warning")
        elif index in spec.checkpoints[:number]:
            yield origin.problem(path, f"step {index} stands here twice", severity="warning")
    if timeout == "retry_from_checkpoint" and not spec.checkpoints:
        message = "there is no checkpoint to go back to: it works as `capture_state_and_abort`"
        hint = "name in `checkpoints` the steps before which the state is saved"
        yield origin.problem(("error_recovery", "on_timeout"), message, hint=hint, severity="warning")
    if spec.checkpoints and timeout != "retry_from_checkpoint" and crash == "abort":
        message = f"nothing goes back to them: `on_timeout` is `{timeout}`, `on_browser_crash` is `abort`"
        hint = "`on_timeout: retry_from_checkpoint` or `on_browser_crash: restart_from_checkpoint` does"
        yield origin.problem(("checkpoints",), message, hint=hint, key=True, severity="warning")
