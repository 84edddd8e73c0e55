"""What is wrong with a service, in words: a Failure that names who has its port, how it ended, the end of its log."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from harness.recovery.failure import Failed, Failure
from harness.services.child import Child
from harness.services.health import WAITS, Answer, Health
from harness.services.listener import describe_listener

INTENDED = -signal.SIGUSR1
"""How a watchdog ends whose command was ended on purpose."""


class Occupied(Failed):
    """A stranger has its port."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Of one service."""

    name: str
    hosts: Mapping[str, int]
    port: int
    log: Path

    def down(self, what: str, *, intended: bool = False) -> Failure:
        details = {"service": self.name, "hosts": dict(self.hosts), **({"intended": True} if intended else {})}
        return Failure("SERVICE_DOWN", f"service `{self.name}` {what}", details=details)

    def occupied(self, answer: Answer) -> Occupied:
        """Of a port that somebody has whom this run may not use; `answer` is what that says on it."""
        says = answer.problem or "it answers as this service, and this project does not keep it"
        name = self.name.partition("[")[0]
        failure = self.down(f"cannot use port {self.port}, which is taken by {describe_listener(self.port)}: {says}")
        advice = (
            f'End that process, or take another port: `port = "auto"` in [tool.harness.services.{name}], or '
            f"`--task-port {name}=PORT`. To share one between runs: `harness services start --persist`."
        )
        return Occupied(replace(failure, advice=advice))

    def unready(self, child: Child, what: str, code: int | None, answer: Answer) -> Failure:
        """Its process is over, or was ended, before it answered as itself."""
        problem = f" ({answer.problem})" if answer.health in (Health.OTHER, *WAITS) else ""
        failure = self.ended(child, what, code, f"{problem}{self._taken_ports()}")
        if answer.health is not Health.OTHER or what.startswith("ended"):
            return failure
        name = self.name.partition("[")[0]
        advice = (
            f"Something answers there: see that `health` in [tool.harness.services.{name}] is an address that says 200"
        )
        return replace(failure, advice=f"{advice} when it is ready, and what `identity` demands.")

    def ended(self, child: Child, what: str, code: int | None, more: str = "") -> Failure:
        """What is said of a process that is over: how it ended, and the end of its log."""
        intended = code == INTENDED
        how = " on purpose" if intended else f" with exit code {code}" if code is not None else ""
        ending = how if what.startswith("ended") else ""
        log = "\n".join(child.tail()) or "(it wrote nothing)"
        return self.down(f"{what}{ending}{more}. The end of {self.log}:\n{log}", intended=intended)

    def _taken_ports(self) -> str:
        """Its other ports that someone listens on now, when all that it started is gone."""
        owners = {port: describe_listener(port) for port in self.hosts.values() if port != self.port}
        taken = [f"port {port} is taken by {owner}" for port, owner in owners.items() if owner.startswith("pid")]
        return f"; {', '.join(taken)}" if taken else ""
