"""Which hosts have answered the tasks that run: a fold of what the engine says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from urllib.parse import urljoin, urlsplit

from harness.events import AttemptEnded, Event, TaskEnded
from harness.failure import Failure, Family, Outcome
from harness.plan import Plan
from harness.spec.steps import Api, Open, Step


class Contacts:
    """Of the tasks of one process. What a task orders (`faults`) is no contact: its answers may be a fault's."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` answers monotonic seconds."""
        self._now = now
        self._answered: dict[str, dict[str, float]] = {}
        """Key of a task -> host -> when it has answered last."""

    def on(self, event: Event) -> None:
        """A step that names a host, and passed, was answered by it; a failure of the network or the browser ends that.

        Where a click leads is not known, so it tells nothing.
        """
        key = event.plan.key
        match event:
            case _ if event.plan.faults:
                return
            case AttemptEnded(plan=plan, attempt=attempt):
                self._heard(key, attempt.outcome, _host(plan, attempt.step))
            case TaskEnded():
                self._answered.pop(key, None)

    def of(self, hosts: Collection[str]) -> dict[str, float]:
        """Key of a task that runs -> when one of these hosts, in lower case, has answered it last."""
        last = {
            key: max((at for host, at in answered.items() if host in hosts), default=None)
            for key, answered in self._answered.items()
        }
        return {key: at for key, at in last.items() if at is not None}

    def _heard(self, key: str, outcome: Outcome, host: str) -> None:
        if not isinstance(outcome, Failure):
            if host:
                self._answered.setdefault(key, {})[host] = self._now()
        elif outcome.family is Family.BROWSER:
            self._answered.pop(key, None)
        elif outcome.family is Family.NETWORK:
            self._answered.get(key, {}).pop(_host_of(str(outcome.details.get("url", ""))), None)


def _host(plan: Plan, step: Step) -> str:
    """Empty for a step that does not say where it goes."""
    url = step.url if isinstance(step, Open | Api) else ""
    return _host_of(url, plan.base_url or "") if url else ""


def _host_of(url: str, base: str = "") -> str:
    try:
        return urlsplit(urljoin(base, url)).hostname or ""
    except ValueError:
        return ""
