"""Faults of the sites: their processes die, start anew, or find their port taken."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.spec.faults.base import LONGEST, StepFault


class ServiceFault(StepFault):
    """One that strikes a service that this run has started; every task that uses it meets it."""

    service: str = Field(min_length=1, max_length=200, description="A name of `[tool.harness.services]`.")

    @property
    def target(self) -> str:
        return self.service


class ServiceKilled(ServiceFault):
    """The service's process is killed; it is started again, as after any crash."""

    kind: Literal["service_killed"] = "service_killed"


class ServiceRestarted(ServiceFault):
    """The service is ended in order, and started again."""

    kind: Literal["service_restarted"] = "service_restarted"


class PortTaken(ServiceFault):
    """The service's process is killed, and a stranger listens on its port."""

    kind: Literal["port_taken"] = "port_taken"
    seconds: float = Field(gt=0, le=LONGEST, description="How long the stranger stays, in seconds.")
